"""A camera's thread: what it finds, what it keeps, how its end is told, and that it hangs."""

import logging
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Self
from weakref import ref

import numpy as np
import pytest
from still import shown
from waiting import LIMIT_S, until

from daemon.config.plan import CameraPlan
from daemon.service.health import Health
from daemon.threads import cameras
from daemon.threads.cameras import Cameras, CameraThread
from daemon.threads.work_queue import WorkQueue
from pipeline.loop import Heartbeats
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.sources import Frame, Source, SourceError, SourceOptions, SourceReport, open_source
from pipeline.sources.frame import Luma
from pipeline.thresholds import PairThresholds, calibrate


class AsIfLive:
    """A clip that says it is a camera."""

    live = True
    duration_s = None

    def __init__(self, plan: CameraPlan) -> None:
        self.camera = plan.name
        self._file = open_source(plan.url, plan.source, plan.name)

    @property
    def report(self) -> SourceReport:
        return self._file.report

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def opened(plan: CameraPlan) -> Source:
    return open_source(plan.url, plan.source, plan.name)


def run(thread: CameraThread, queue: WorkQueue) -> list[tuple[int, int]]:
    """Everything the thread proposes, as the pts of both frames."""
    thread.loop.start()
    found: list[FramePair] = []
    while not queue.is_exhausted:
        found += [one.item for one in queue.take(8) if isinstance(one.item, FramePair)]
    assert thread.loop.join(LIMIT_S)
    return [(pair.before.pts, pair.after.pts) for pair in found]


def expected(clip: Path) -> list[tuple[int, int]]:
    with open_source(str(clip), SourceOptions(), "room") as source:
        frames = list(source)
    thresholds = calibrate(frames)
    return [(pair.before.pts, pair.after.pts) for pair in candidate_pairs(frames, thresholds)]


def test_a_live_camera_is_calibrated_on_the_way_and_misses_nothing(clip, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    for seconds in (60.0, 5.0):
        monkeypatch.setattr(cameras, "CALIBRATION_S", seconds)
        queue = WorkQueue(["room"], 8)
        plan = CameraPlan("room", str(clip), tracked=False)
        found = run(CameraThread(plan, queue, AsIfLive), queue)
        assert [after for _, after in found] == [after for _, after in expected(clip)]
    assert caplog.text.count("room: lower threshold") == 1


def test_a_clock_that_is_set_back_lengthens_no_calibration():
    image = np.zeros((36, 64, 3), np.uint8)
    frames = (shown(image, k / 2 - (k > 20) * 86_400, steady_s=k / 2) for k in range(1000))
    calibration = cameras._Calibration(CameraPlan("room", "rtsp://10.0.0.5/"))
    found = [calibration.update(frame) is not None for frame in frames]
    assert found.index(True) == 120
    assert sum(found) == 1


def test_a_camera_that_was_away_in_its_first_minute_is_calibrated_in_the_next():
    image = np.zeros((36, 64, 3), np.uint8)
    calibration = cameras._Calibration(CameraPlan("room", "rtsp://10.0.0.5/"))
    times = [0.0, 0.5, *(300 + k / 2 for k in range(200))]
    found = [second for second in times if calibration.update(shown(image, second, steady_s=second))]
    assert found == [360.5]


def test_thresholds_are_found_on_two_frames_a_second_which_are_let_go(monkeypatch):
    seen = list[float]()

    def record(frames: list[Frame]) -> PairThresholds:
        seen.extend(frame.steady_s for frame in frames)
        return PairThresholds()

    monkeypatch.setattr(cameras, "calibrate", record)
    calibration, planes = cameras._Calibration(CameraPlan("room", "rtsp://10.0.0.5/")), list[ref[Luma]]()
    for number in range(302):
        frame = shown(np.zeros((36, 64, 3), np.uint8), number / 5, steady_s=number / 5)
        planes.append(ref(frame.luma))
        calibration.update(frame)
    assert len(seen) > 100
    assert min(later - earlier for earlier, later in pairwise(seen)) > 0.39
    del frame
    assert not any(plane() is not None for plane in planes)


def test_a_stopped_thread_ends_although_nobody_takes_its_pairs_and_an_error_waits(other_clip):
    gone = CameraThread(CameraPlan("gone", "absent.mp4"), WorkQueue(["gone"], 1), opened)
    gone.loop.start()
    assert gone.loop.join(LIMIT_S)
    assert isinstance(gone.loop.error, SourceError)
    queue = WorkQueue(["yard"], 1)
    thread = CameraThread(CameraPlan("yard", str(other_clip), tracked=False), queue, opened)
    thread.loop.start()
    thread.stop()
    queue.close()
    assert thread.loop.join(LIMIT_S)
    assert thread.loop.error is None


class AnyClock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("screened", [False, True])
def test_a_reader_that_hangs_is_noticed(screened):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/s"
        options = SourceOptions(open_timeout_s=30.0)
        plan = CameraPlan("yard", url, options, screening=url if screened else None, lower=20, upper=250)
        clock = AnyClock()
        heartbeats = Heartbeats(clock)
        watched = Cameras([plan], WorkQueue(["yard"], 8), heartbeats)
        daemon = SimpleNamespace(cameras=watched, journals={})
        health = Health(daemon, heartbeats)  # type: ignore[arg-type]
        watched.start()
        readers = {"rtsp yard", *(["rtsp yard: sub-stream"] if screened else [])}
        until(lambda: readers <= heartbeats.ages_s().keys())
        assert health.liveness()[1]["ok"]  # their own time-outs have not run out
        clock.now += 100  # as if they had
        assert set(health.liveness()[1]["hanging"]) == readers
        watched.stop()
    watched.join(time.monotonic() + LIMIT_S)


def test_a_camera_that_streams_for_hours_is_never_overdue(rtsp_server, free_port):
    rtsp_server(port=free_port)
    clock = AnyClock()
    heartbeats = Heartbeats(clock)
    plan = CameraPlan("yard", f"rtsp://127.0.0.1:{free_port}/stream", lower=20, upper=250)
    watched = Cameras([plan], WorkQueue(["yard"], 8), heartbeats)
    watched.start()
    until(lambda: watched.threads["yard"].is_watching)
    for _ in range(3):
        clock.now += 3600
        until(lambda: heartbeats.ages_s()["rtsp yard"] == heartbeats.ages_s()["camera yard"] == 0)
        assert not heartbeats.overdue()
    watched.stop()
    assert watched.join(time.monotonic() + LIMIT_S)
