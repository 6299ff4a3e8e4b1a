"""The queue: newest work of live cameras, all work of files, fair to every camera."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from waiting import LIMIT_S, until

from daemon.threads import work_queue
from daemon.threads.narrator import Narrator, NarratorThread
from daemon.threads.work_queue import DROPPED, ENDED, NEWER_CAME, Work, WorkQueue
from pipeline.gate import MotionFrame
from pipeline.loop import Heartbeats
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame
from pipeline.sources.frame import LazyPicture

IMAGE = np.zeros((4, 4, 3), np.uint8)


def frame(camera: str, number: int) -> Frame:
    time = datetime(2024, 3, 1, tzinfo=UTC) + timedelta(seconds=number)
    return Frame(camera, time, Clock.FILE, number, IMAGE[..., 0], LazyPicture(lambda: IMAGE))


def pair(camera: str, number: int) -> FramePair:
    return FramePair(frame(camera, number - 1), frame(camera, number), 9.0)


def motion(camera: str, number: int, **flags: bool) -> MotionFrame:
    return MotionFrame(frame(camera, number), **flags)


def put_pairs(queue: WorkQueue, camera: str, *numbers: int) -> None:
    for number in numbers:
        queue.put(camera, pair(camera, number), wait=False)


def taken(batch: list[Work]) -> list[tuple[str, int]]:
    frames = [w.item.after if isinstance(w.item, FramePair) else w.item.frame for w in batch]
    return [(frame.camera, frame.pts) for frame in frames]


def test_a_full_share_of_pairs_keeps_the_newest_and_counts_the_rest():
    queue = WorkQueue(["busy", "calm"], capacity=3)
    put_pairs(queue, "calm", 0)
    put_pairs(queue, "busy", *range(10))
    got = taken(queue.take(10))
    assert [number for camera, number in got if camera == "busy"] == [7, 8, 9]
    assert ("calm", 0) in got
    assert dict(queue.dropped) == {"busy": 7}


def test_too_many_frames_lower_the_rate_and_keep_pairs_and_restarts():
    queue = WorkQueue(["busy"], capacity=8)
    queue.put("busy", pair("busy", 0), wait=False)
    for number in range(1, 40):
        queue.put("busy", motion("busy", number, restart=number == 2, follows_gap=number == 3), wait=False)
    batch = queue.take(100)
    assert [number for _, number in taken(batch)] == [0, *range(33, 40)]
    frames = [w.item for w in batch if isinstance(w.item, MotionFrame)]
    for flag in ("restart", "follows_gap", "follows_loss"):
        assert [getattr(each, flag) for each in frames] == [True] + 6 * [False]
    assert not queue.dropped


def test_a_late_frame_gives_way_to_the_next_one_and_a_pair_does_not(monkeypatch):
    now = 0.0
    monkeypatch.setattr(work_queue, "monotonic", lambda: now)
    queue = WorkQueue(["busy"])
    queue.put("busy", pair("busy", 0), wait=False)
    for number in range(1, 6):
        now = 0.2 * number
        queue.put("busy", motion("busy", number), wait=False)
    assert [number for _, number in taken(queue.take(100))] == [0, 3, 4, 5]
    assert queue.waited_s == 0


def test_cameras_take_turns():
    queue = WorkQueue(["a", "b"], capacity=8)
    put_pairs(queue, "a", *range(6))
    put_pairs(queue, "b", 0)
    assert taken(queue.take(2)) == [("a", 0), ("b", 0)]
    assert taken(queue.take(8)) == [("a", i) for i in range(1, 6)]


def test_a_file_waits_for_room_and_loses_nothing():
    queue = WorkQueue(["film"], capacity=2)

    def feed() -> None:
        for number in range(40):
            queue.put("film", motion("film", number), wait=True)
        queue.end("film")

    threading.Thread(target=feed).start()
    got: list[int] = []
    while not queue.is_exhausted:
        assert queue.held <= 2
        got += [number for _, number in taken(queue.take(3))]
    assert got == list(range(40))


def test_whole_batches_are_full_until_the_end():
    queue = WorkQueue(["a"], capacity=16)
    put_pairs(queue, "a", *range(5))
    assert queue.take_full(8, 0.01) == []
    put_pairs(queue, "a", *range(5, 10))
    assert taken(queue.take_full(8)) == [("a", i) for i in range(8)]
    assert queue.take_full(8, 0.01) == []
    queue.end("a")
    assert taken(queue.take_full(8)) == [("a", 8), ("a", 9)]
    assert queue.take_full(8, 0.01) == []


def test_changes_keep_their_place_among_what_a_camera_sees():
    queue = WorkQueue(["b", "a"], capacity=2)
    put_pairs(queue, "a", 0)
    queue.put_change("a", lambda _: None)
    put_pairs(queue, "a", 1, 2)  # the share is full: the oldest pairs go
    put_pairs(queue, "b", 0)
    batches = [[(w.camera, w.is_pair) for w in queue.take(8)] for _ in range(3)]
    assert batches == [[("b", True)], [("a", False)], [("a", True)]]


def test_a_camera_that_is_removed_is_forgotten_unless_it_is_back():
    queue = WorkQueue(["a", "b"])
    queue.end("b")
    for back in (True, False):
        queue.end("a")
        queue.put_change("a", lambda _: queue.forget("a"))
        if back:
            queue.put_change("a", lambda _: None)
            queue.begin("a")
        while batch := queue.take(8):
            batch[0].item.apply(None)  # type: ignore[union-attr, arg-type]
        assert queue.is_exhausted is not back


def test_what_was_not_taken_before_the_end_is_counted():
    queue = WorkQueue(["a", "b"], capacity=4)
    put_pairs(queue, "a", *range(6))
    queue.put("b", motion("b", 0), wait=False)
    queue.close()
    assert not queue.put("b", pair("b", 0), wait=False)  # the last of a camera that is ending
    assert [work.camera for work in queue.abandon()] == [*"aaaa", *"bb"]
    assert not queue.put("b", pair("b", 1), wait=False)
    assert queue.abandon() == []
    assert {key: n for key, n in queue.counters.copy().items() if key[1] == DROPPED} == {
        ("a", DROPPED, NEWER_CAME): 2,
        ("a", DROPPED, ENDED): 4,
        ("b", DROPPED, ENDED): 2,
    }


def test_a_machine_that_is_too_slow_is_logged_once(caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(work_queue, "monotonic", lambda: now)
    queue = WorkQueue(["room"])
    for comes_again_after_s in (work_queue.STEADY_S / 2, work_queue.STEADY_S + 1, 0):
        queue.put("room", pair("room", 0), wait=False)
        for _ in range(25):
            now += 1
            queue.note_load()
            assert queue.is_too_slow or queue.waited_s <= work_queue.TOO_SLOW_S
        queue.take(1)
        now += comes_again_after_s
    assert queue.is_too_slow
    assert [record.getMessage().split("; ")[0] for record in caplog.records] == [
        "this machine is too slow for its cameras (1): pairs wait 11 s"
    ] * 2


class Narrating(Narrator):
    """Narrates a batch only once the next one has been detected in."""

    def __init__(self, batches: int) -> None:
        super().__init__(SimpleNamespace(device="cpu"), [], {}, live=True)  # type: ignore[arg-type]
        self.detected = [threading.Event() for _ in range(batches)]
        self.order: list[Any] = []

    def detect(self, batch: Sequence[Work]) -> Any:
        (number,) = (number for _, number in taken([*batch]))
        self.detected[number].set()
        return [number]

    def process(self, batch: Sequence[Work], found: Any = None) -> list[Any]:
        following = self.detected[found[0] + 1 :]
        assert all(each.wait(LIMIT_S) for each in following[:1])
        self.order += [number for _, number in taken([*batch])]
        return []

    def finish(self, *_: object, **__: object) -> list[Any]:
        return ["the end"]


@pytest.mark.logs_errors
def test_the_next_frame_is_detected_in_while_the_one_before_is_narrated(caplog):
    queue, narrator, reported = WorkQueue(["one", "two"]), Narrating(3), list[Any]()
    for number in range(3):
        queue.put(("one", "two")[number % 2], motion(("one", "two")[number % 2], number), wait=False)
    queue.put_change("two", lambda _: 1 / 0)  # type: ignore[arg-type,return-value]
    queue.put_change("two", lambda changed: changed.order.append("changed"))  # type: ignore[attr-defined]
    thread = NarratorThread(narrator, queue, Heartbeats(), reported.append)
    thread.loop.start()
    until(lambda: len(narrator.order) == 4 and not thread.in_hand)
    assert "two: its new settings are not all in force" in caplog.text
    assert narrator.order.index("changed") > narrator.order.index(1)
    assert [each for each in narrator.order if each != "changed"] == [0, 1, 2]
    thread.loop.stop()
    until(lambda: reported)
