"""A camera's thread: what it finds, what it keeps, and how its end is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Self

import pytest

from daemon.config.plan import CameraPlan
from daemon.threads import work_queue
from daemon.threads.calibration import CalibrationStore, opening
from daemon.threads.camera_thread import CameraThread, Span
from daemon.threads.work_queue import WorkQueue
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.sources import Frame, Source, SourceError, SourceOptions, SourceReport, open_source
from pipeline.thresholds import calibrate

LIMIT_S = 30.0


class AsIfLive:
    """A clip that says it is a camera; counts how often it was opened."""

    live = True
    silent_s = 0.0
    duration_s = None
    opened = 0

    def __init__(self, plan: CameraPlan) -> None:
        self.camera = plan.name
        self._file = open_source(plan.url, plan.source, plan.name)
        AsIfLive.opened += 1

    @property
    def report(self) -> SourceReport:
        return self._file.report

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()


def opened(plan: CameraPlan) -> Source:
    return open_source(plan.url, plan.source, plan.name)


def run(thread: CameraThread, queue: WorkQueue) -> list[tuple[int, int]]:
    """Everything the thread proposes, as the pts of both frames."""
    thread.loop.start()
    found: list[FramePair] = []
    while not queue.ended(thread.plan.name):
        found += [one.item for one in queue.take(8, 0.0) if isinstance(one.item, FramePair)]
    assert thread.loop.join(10)
    return [(pair.before.pts, pair.after.pts) for pair in found]


def expected(clip: Path) -> list[tuple[int, int]]:
    with open_source(str(clip), SourceOptions(), "room") as source:
        frames = list(source)
    thresholds = calibrate(frames)
    return [(pair.before.pts, pair.after.pts) for pair in candidate_pairs(frames, thresholds)]


def test_a_file_gives_the_pairs_of_the_pipeline(clip: Path) -> None:
    queue = WorkQueue(["room"], 1)
    thread = CameraThread(CameraPlan("room", str(clip), tracked=False), queue, opened)
    assert run(thread, queue) == expected(clip) != []
    assert thread.loop.error is None
    assert thread.report.decoded == 120
    assert thread.read_s == pytest.approx(23.6, abs=0.5)
    assert thread.hung_s == 0.0


def test_a_live_camera_calibrates_itself_and_misses_nothing(clip: Path, tmp_path: Path) -> None:
    store, plan = CalibrationStore(tmp_path), CameraPlan("room", str(clip), tracked=False)
    for content in ("", "{", "[]", '{"schema": "narrated-calibration/1"}'):  # what is damaged is made again
        (tmp_path / "room.json").write_text(content)
        assert store.load(plan) is None
    for _ in range(2):  # measured, and then read
        queue = WorkQueue(["room"], 8)
        assert run(CameraThread(plan, queue, AsIfLive, store), queue) == expected(clip)
        assert store.load(plan) is not None
    assert [path.name for path in tmp_path.iterdir()] == ["room.json"]
    assert store.load(CameraPlan("room", "rtsp://elsewhere/s", tracked=False)) is None
    assert store.load(CameraPlan("room", str(clip), SourceOptions(sample_hz=5))) is None


def test_a_new_password_needs_no_new_calibration(clip: Path, tmp_path: Path) -> None:
    store = CalibrationStore(tmp_path)
    with open_source(str(clip)) as source:
        store.save(CameraPlan("a", "rtsp://me:hunter2@host/s"), calibrate(source))
    assert store.load(CameraPlan("a", "rtsp://me:new@host/s")) is not None
    assert "hunter2" not in (tmp_path / "a.json").read_text()


def test_an_error_waits_for_the_main_thread() -> None:
    queue = WorkQueue(["gone"], 1)
    thread = CameraThread(CameraPlan("gone", "absent.mp4", tracked=False), queue, opened)
    assert run(thread, queue) == []
    assert isinstance(thread.loop.error, SourceError)


def test_thresholds_by_hand_win(clip: Path) -> None:
    queue = WorkQueue(["room"], 8)
    assert (
        run(CameraThread(CameraPlan("room", str(clip), lower=250.0, tracked=False), queue, opened), queue)
        == []
    )


def test_only_a_camera_has_a_deadline(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "DEADLINE_S", 1e-9)
    late = []
    for opener in (AsIfLive, opened):
        queue = WorkQueue(["room"], 8)
        plan = CameraPlan("room", str(clip), tracked=False, lower=10.0, upper=200.0)
        thread = CameraThread(plan, queue, opener)
        thread.loop.start()
        assert thread.loop.join(60)
        late.append([one.late for one in queue.take(8, 0.0) if one.is_pair])
        assert queue.counters.of("room").proposed == len(late[-1])
    assert late == [[True, True], [False, False]]


def test_only_the_span_is_looked_at(clip: Path) -> None:
    queue = WorkQueue(["room"], 8)
    span = Span(timedelta(seconds=12), timedelta(seconds=20))
    thread = CameraThread(CameraPlan("room", str(clip), tracked=False), queue, opened, span=span)
    [(before, after)] = run(thread, queue)
    full = expected(clip)
    assert after == full[1][1]
    assert before > full[0][1]


def test_a_stopped_thread_ends_although_nobody_takes_its_pairs(other_clip: Path) -> None:
    queue = WorkQueue(["yard"], 1)
    thread = CameraThread(CameraPlan("yard", str(other_clip), tracked=False), queue, opened)
    thread.loop.start()
    thread.stop()
    queue.close()
    assert thread.loop.join(10)
    assert thread.loop.error is None


def test_the_opening_of_footage(clip: Path) -> None:
    with open_source(str(clip)) as source:
        frames = list(source)
    assert len(list(opening(frames, 5.0))) == 11
    assert len(list(opening(frames, 1000.0))) == len(frames)
