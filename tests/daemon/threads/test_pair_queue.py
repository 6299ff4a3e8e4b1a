"""The queue: newest pairs of live cameras, all pairs of files, fair to every camera."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from daemon.threads.accounts import ENDED, NEWER_CAME, REMOVED, Account
from daemon.threads.pair_queue import PairQueue, Proposed
from tests.balanced import balanced


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


def late(batch: Sequence[Proposed]) -> list[Any]:
    return [one.pair for one in batch if one.late]


def test_a_pair_that_waits_too_long_condemns_none_behind_it() -> None:
    queue = PairQueue(["slow", "calm"], capacity=8)
    queue.put("slow", ("slow", 0), wait=False, deadline_s=0.05)  # type: ignore[arg-type]
    time.sleep(0.1)
    for number in range(1, 6):
        queue.put("slow", ("slow", number), wait=False, deadline_s=60)  # type: ignore[arg-type]
    queue.put("calm", ("calm", 0), wait=False, deadline_s=60)  # type: ignore[arg-type]
    batch = queue.take(8, 0.0)
    assert late(batch) == [("slow", 0)]
    assert queue.held == 0


def test_a_full_share_makes_the_oldest_late_and_loses_none() -> None:
    queue = PairQueue(["a"], capacity=3)
    for number in range(5):
        queue.put("a", ("a", number), wait=False, deadline_s=60)  # type: ignore[arg-type]
    batch = queue.take(8, 0.0)
    assert late(batch) == [("a", 0), ("a", 1)]
    assert plain(batch) == [("a", number) for number in range(5)]
    for number in range(8):
        queue.put("a", ("a", number), wait=False, deadline_s=60)  # type: ignore[arg-type]
    assert queue.held == 6
    assert queue.accounts.of("a").dropped == {NEWER_CAME: 2}


def test_what_came_before_the_captioner_was_loaded_begins_to_wait_when_it_is() -> None:
    queue = PairQueue(["a"], capacity=8)
    queue.put("a", ("a", 0), wait=False, deadline_s=0.05)  # type: ignore[arg-type]
    queue.put("a", ("a", 1), wait=False)  # type: ignore[arg-type]
    time.sleep(0.1)
    queue.restart_waits()
    assert queue.waited_s < 0.05
    assert late(queue.take(8, 0.0)) == []


def test_a_backlog_of_calibration_has_time_and_displaces_nothing() -> None:
    queue = PairQueue(["a"], capacity=2)
    for number in range(6):
        queue.put("a", ("a", number), wait=False, deadline_s=0.01, backlog=True)  # type: ignore[arg-type]
    queue.put("a", ("a", 6), wait=False, deadline_s=60)  # type: ignore[arg-type]
    time.sleep(0.05)
    assert late(batch := queue.take(8, 0.0)) == []
    assert plain(batch) == [("a", number) for number in range(7)]


def test_the_newest_is_late_too_where_it_has_waited_too_long() -> None:
    queue = PairQueue(["a"], capacity=8)
    queue.put("a", ("a", 0), wait=False, deadline_s=0.01)  # type: ignore[arg-type]
    time.sleep(0.05)
    assert late(queue.take(8, 0.0)) == [("a", 0)]


def test_nothing_is_late_without_a_deadline() -> None:
    queue = PairQueue(["a"], capacity=8)
    pairs(queue, "a", 0, 1)
    time.sleep(0.05)
    assert late(queue.take(8, 0.0)) == []


def test_a_camera_that_is_removed_lets_its_thread_go_and_its_pairs_are_counted() -> None:
    queue = PairQueue(["a", "b"], capacity=1)
    pairs(queue, "a", 0)
    answers: list[bool] = []
    thread = threading.Thread(
        target=lambda: answers.append(queue.put("a", ("a", 1), wait=True))  # type: ignore[arg-type]
    )
    thread.start()
    while queue.accounts.of("a").proposed < 2:
        time.sleep(0.01)
    queue.remove("a")
    thread.join(30)
    assert answers == [False]
    assert queue.accounts.of("a") == Account(proposed=2, dropped=Counter({REMOVED: 2}))


def test_what_nobody_took_before_the_end_is_counted() -> None:
    queue = PairQueue(["a", "b"], capacity=4)
    pairs(queue, "a", *range(6))
    queue.close()
    assert not queue.put("b", ("b", 0), wait=False)  # type: ignore[arg-type]
    assert queue.abandon() == 4
    assert queue.accounts.of("a").dropped == {NEWER_CAME: 2, ENDED: 4}
    assert queue.accounts.of("b").dropped == {ENDED: 1}
    assert queue.dropped == {"a": 6, "b": 1}


def test_accounts_balance_at_any_moment() -> None:
    cameras = ["a", "b", "c"]
    queue = PairQueue(cameras, capacity=2)
    accounts = queue.accounts
    over = threading.Event()

    def feed(camera: str) -> None:
        for number in range(300):
            queue.put(camera, (camera, number), wait=camera == "c")  # type: ignore[arg-type]
        queue.end(camera)

    def settle() -> None:
        while not over.is_set():
            for camera, number in plain(queue.take(5, 0.0, 0.01)):
                accounts.publish(camera) if number % 2 else accounts.suppress(camera, "cooldown")

    threads = [threading.Thread(target=feed, args=[camera]) for camera in cameras]
    narrator = threading.Thread(target=settle)
    for thread in (*threads, narrator):
        thread.start()
    while not all(map(queue.ended, cameras)):
        assert all(balanced(account) for account in accounts.by_camera().values())
    over.set()
    for thread in (*threads, narrator):
        thread.join(30)
    for camera in cameras:
        account = accounts.of(camera)
        assert (account.proposed, account.waiting, balanced(account)) == (300, 0, True)
    assert not accounts.of("c").dropped


def test_how_long_pairs_of_live_cameras_wait_whether_or_not_newer_ones_displace_them() -> None:
    queue = PairQueue(["live", "file"], capacity=2)
    assert queue.waited_s == 0
    queue.put("file", ("file", 0), wait=True)  # type: ignore[arg-type]
    assert queue.waited_s == 0
    began = time.monotonic()
    pairs(queue, "live", 0)
    put = time.monotonic()
    time.sleep(0.02)
    pairs(queue, "live", 1, 2, 3)
    least, waited, most = time.monotonic() - put, queue.waited_s, time.monotonic() - began
    assert least <= waited <= most + 1
    queue.take(8, 0.0)
    assert queue.waited_s == 0
