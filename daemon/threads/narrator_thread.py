"""The narrator's thread: work from the queue becomes journalled records while the main loop looks on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from daemon.threads.narrator import Narrator
from daemon.threads.work_queue import Change, Work, WorkQueue
from pipeline.loop import Heartbeats, Loop
from pipeline.record import Record

LOOP = "narrator"
"""Its name among the loops that the watchdog goes by."""

BATCH_LIMIT_S = 60.0
"""A batch on a slow processor may take this long; the limit of its own is for a narrator that hangs."""


class NarratorThread:
    """Takes batches and narrates them; its error waits for the main thread.

    In a thread of its own a batch of many seconds delays neither the signal to end nor the watchdog, and a
    batch that never ends is noticed.

    Args:
        report: called with each journalled record, in this thread.

    Attributes:
        seconds: spent narrating so far.
        in_hand: the batch that is being narrated.
    """

    def __init__(
        self, narrator: Narrator, queue: WorkQueue, heartbeats: Heartbeats, report: Callable[[Record], None]
    ) -> None:
        self.narrator = narrator
        self.seconds = 0.0
        self.in_hand: list[Work] = []
        self._queue, self._report = queue, report
        self._until: float | None = None
        self.loop = Loop(LOOP, self._turn, heartbeats=heartbeats, last=self._end)

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
        """Record that work of live cameras was not looked at; after `finish`, in any thread."""
        self._report_all(self.narrator.give_up(work))

    def _turn(self) -> None:
        """One batch, if there is one."""
        if self._until is not None and (self._queue.is_exhausted or monotonic() >= self._until):
            self.loop.stop()
            return
        batch = self._queue.take(self.narrator.captioning.at_once if self._until is None else 1)
        self.loop.beat(BATCH_LIMIT_S)
        began = monotonic()
        match batch:
            case []:
                return
            case [Work(Change(_, apply))]:
                apply(self.narrator)
            case _:
                self.in_hand = batch
                self._report_all(self.narrator.process(batch))
                self.in_hand = []
        self.seconds += monotonic() - began

    def _end(self) -> None:
        self._report_all(self.narrator.finish())

    def _report_all(self, records: list[Record]) -> None:
        for record in records:
            self._report(record)
