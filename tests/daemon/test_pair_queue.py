"""The queue: newest pairs of live cameras, all pairs of files, fair to every camera."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from daemon.pair_queue import PairQueue, Proposed


def plain(batch: Sequence[Proposed]) -> list[Any]:
    return [one.pair for one in batch]


def pairs(queue: PairQueue, camera: str, *numbers: int) -> None:
    for number in numbers:
        queue.put(camera, (camera, number), wait=False)  # type: ignore[arg-type]


def test_a_full_share_keeps_the_newest_and_counts_the_rest() -> None:
    queue = PairQueue(["busy", "calm"], capacity=3)
    pairs(queue, "calm", 0)
    pairs(queue, "busy", *range(10))
    taken: list[Any] = plain(queue.take(10, 0.0))
    assert [number for camera, number in taken if camera == "busy"] == [7, 8, 9]
    assert ("calm", 0) in taken
    assert dict(queue.dropped) == {"busy": 7}


def test_cameras_take_turns() -> None:
    queue = PairQueue(["a", "b"], capacity=8)
    pairs(queue, "a", *range(6))
    pairs(queue, "b", 0)
    assert plain(queue.take(2, 0.0)) == [("a", 0), ("b", 0)]
    assert plain(queue.take(8, 0.0)) == [("a", i) for i in range(1, 6)]


def test_a_batch_closes_at_its_size_or_after_its_wait() -> None:
    queue = PairQueue(["a"], capacity=8)
    pairs(queue, "a", *range(5))
    began = time.monotonic()
    assert len(queue.take(4, 5.0)) == 4
    assert time.monotonic() - began < 1
    assert len(queue.take(4, 0.1)) == 1
    assert 0.08 < time.monotonic() - began < 2
    assert queue.take(4, 1.0, limit_s=0.05) == []


def test_no_wait_for_cameras_that_have_ended() -> None:
    queue = PairQueue(["a"], capacity=8)
    pairs(queue, "a", 1)
    queue.end("a")
    began = time.monotonic()
    assert plain(queue.take(4, 10.0)) == [("a", 1)]
    assert time.monotonic() - began < 1
    assert queue.ended("a")
    queue.add("a")
    assert not queue.ended("a")


def test_a_file_waits_for_room_and_loses_nothing() -> None:
    queue = PairQueue(["file"], capacity=2)

    def feed() -> None:
        for number in range(20):
            queue.put("file", ("file", number), wait=True)  # type: ignore[arg-type]
        queue.end("file")

    thread = threading.Thread(target=feed)
    thread.start()
    taken: list[Any] = []
    while not queue.ended("file"):
        taken += plain(queue.take(3, 0.0))
    thread.join(5)
    assert [number for _, number in taken] == list(range(20))
    assert queue.dropped.total() == 0


def test_whole_batches_are_of_one_camera_and_full_until_its_end() -> None:
    queue = PairQueue(["a", "b"], capacity=8)
    pairs(queue, "a", 0, 1, 2)
    pairs(queue, "b", 0)
    assert queue.take_whole(4, 0.05) == []
    pairs(queue, "a", 3, 4)
    assert plain(queue.take_whole(4)) == [("a", i) for i in range(4)]
    assert queue.take_whole(4, 0.05) == []
    queue.end("a")
    assert plain(queue.take_whole(4)) == [("a", 4)]
    queue.close()
    assert plain(queue.take_whole(4)) == [("b", 0)]


def test_closing_frees_who_waits() -> None:
    queue = PairQueue(["a"], capacity=1)
    pairs(queue, "a", 0)
    answers: list[bool] = []
    thread = threading.Thread(
        target=lambda: answers.append(queue.put("a", ("a", 1), wait=True))  # type: ignore[arg-type]
    )
    thread.start()
    queue.close()
    thread.join(5)
    assert answers == [False]
    assert queue.held == 1
