"""The narrator's thread: pairs from the queue become journalled records while the main loop looks on."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from daemon.threads.work_queue import Work, WorkQueue
from pipeline.loop import Heartbeats, Loop

if TYPE_CHECKING:  # it loads ONNX Runtime, which takes a while
    from daemon.threads.narrator import JournalledPair, Narrator

LOOP = "narrator"
"""Its name among the loops that the watchdog goes by."""

BATCH = 8
BATCH_WAIT_S = 0.1
"""A batch has at most so many frames and pairs, and waits so long to be full."""

LOADING_LIMIT_S = 180.0
"""The first start on a machine compiles the kernels."""

BATCH_LIMIT_S = 60.0
"""A batch on a slow processor may take this long; the limit of its own is for a narrator that hangs."""


class NarratorThread:
    """Takes batches and narrates them; its error waits for the main thread.

    In a thread of its own a batch of many seconds delays neither the signal to end nor the watchdog, and a
    batch that never ends is noticed.

    Args:
        make: makes the narrator, which takes seconds; called once, in this thread, while the cameras open.
        report: called with each journalled record, in this thread.

    Attributes:
        narrator: None until the captioner is loaded.
        seconds: spent narrating so far.
        in_hand: the batch that is being narrated.
    """

    def __init__(
        self,
        make: Callable[[], Narrator],
        work: WorkQueue,
        heartbeats: Heartbeats,
        report: Callable[[JournalledPair], None],
    ) -> None:
        self.narrator: Narrator | None = None
        self.seconds = 0.0
        self.in_hand: list[Work] = []
        self._make, self._work, self._report = make, work, report
        self._scheduled: queue.SimpleQueue[Callable[[Narrator], None]] = queue.SimpleQueue()
        self._until: float | None = None
        self.loop = Loop(LOOP, self._turn, heartbeats=heartbeats, last=self._end)

    def schedule(self, change: Callable[[Narrator], None]) -> None:
        """Have `change` called with the narrator between two batches; what was taken before goes first."""
        self._scheduled.put(change)

    def knows(self, camera: str) -> bool:
        """True while anything may still be journalled of the camera, as before the captioner is loaded."""
        return self.narrator is None or self.narrator.knows(camera)

    def finish(self, until: float) -> bool:
        """Narrate what the closed queue still holds, one pair after the other, as far as the time reaches.

        Args:
            until: monotonic seconds at which no further pair is begun.

        Returns:
            True where the thread has ended by then.
        """
        self._until = until
        return self.loop.join(until - monotonic())

    def give_up(self, work: Sequence[Work]) -> None:
        """Record that work of live cameras was not looked at; after `finish`, in any thread.

        Before the captioner is loaded nothing was watched: the next start records the outage.
        """
        if self.narrator:
            self._report_all(self.narrator.give_up(work))

    def _turn(self) -> None:
        """One batch, if there is one, and the changes scheduled meanwhile."""
        ending = self._until is not None
        if self._until is not None and (self._work.is_exhausted or monotonic() >= self._until):
            self.loop.stop()
            return
        if self.narrator is None:
            self.loop.beat(LOADING_LIMIT_S)
            self.narrator = self._make()
            self._work.restart_waits()
        if batch := self._work.take(1 if ending else BATCH, 0.0 if ending else BATCH_WAIT_S):
            self.loop.beat(BATCH_LIMIT_S)
            began = monotonic()
            self.in_hand = batch
            self._report_all(self.narrator.process(batch))
            self.in_hand = []
            self.seconds += monotonic() - began
        while not self._scheduled.empty():
            self.loop.beat(BATCH_LIMIT_S)
            self._scheduled.get()(self.narrator)

    def _end(self) -> None:
        if self.narrator:
            self._report_all(self.narrator.finish())

    def _report_all(self, narrated: list[JournalledPair]) -> None:
        for journalled in narrated:
            self._report(journalled)
