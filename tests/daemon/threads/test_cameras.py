"""A camera's thread: what it finds, what it keeps, and how its end is told."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Self
from weakref import ref

import numpy as np
from still import shown
from waiting import LIMIT_S

from daemon.config.plan import CameraPlan
from daemon.threads import cameras
from daemon.threads.cameras import CameraThread
from daemon.threads.work_queue import WorkQueue
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


def test_thresholds_are_found_on_two_frames_a_second(clip, monkeypatch):
    seen = list[Frame]()

    def record(frames: list[Frame]) -> PairThresholds | None:
        seen.extend(frames)
        return calibrate(frames)

    monkeypatch.setattr(cameras, "CALIBRATION_S", 10.0)
    monkeypatch.setattr(cameras, "calibrate", record)
    plan = CameraPlan("room", str(clip), source=SourceOptions(sample_hz=5.0), tracked=False)
    queue = WorkQueue(["room"], 8)
    run(CameraThread(plan, queue, AsIfLive), queue)
    gaps = [later.time - earlier.time for earlier, later in pairwise(seen)]
    assert len(gaps) > 15
    assert min(gaps) >= timedelta(seconds=0.4)


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


def test_the_footage_of_the_calibration_is_let_go(clip, monkeypatch):
    monkeypatch.setattr(cameras, "CALIBRATION_S", 20.0)
    planes, left = list[ref[Luma]](), list[int]()

    class Watched(AsIfLive):
        def __iter__(self) -> Iterator[Frame]:
            for frame in super().__iter__():
                planes.append(ref(frame.luma))
                yield frame
            left.append(sum(plane() is not None for plane in planes))

    queue = WorkQueue(["room"], 8)
    run(CameraThread(CameraPlan("room", str(clip), tracked=False), queue, Watched), queue)
    assert len(planes) > 40
    assert left[0] < 12


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
