"""Work that is done ahead by threads, in order: the next batches are read while the device computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

AHEAD = 2
"""Results that wait for each worker."""


def done_ahead(jobs: Iterable[Callable[[], T]], workers: int) -> Iterator[T]:
    """What jobs return, in their order.

    Threads, since reading, unpacking and copying arrays leaves the interpreter free. Whoever stops early
    waits for the jobs that are running.

    Args:
        jobs: called once each.
        workers: threads; 0 does every job when it is asked for.
    """
    if not workers:
        for job in jobs:
            yield job()
        return
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(workers, "batch")
    try:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
