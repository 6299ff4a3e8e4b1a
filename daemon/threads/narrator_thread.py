"""The narrator's thread: work from the queue becomes journalled records while the main loop looks on."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic

from daemon.threads.narrator import Narrator
from daemon.threads.work_queue import POLL_S, Change, Work, WorkQueue
from models.detections import Detections
from pipeline.loop import Heartbeats, Loop
from pipeline.record import Record

logger = logging.getLogger(__name__)

LOOP = "narrator"  # its name among the loops that the watchdog goes by

BATCH_LIMIT_S = 60.0  # a batch on a slow processor may take so long; only one that hangs takes longer


class NarratorThread:
    """Takes batches and narrates them; its error waits for the main thread.

    While a batch is tracked and reported, a further thread detects in the next one. `report` is called with
    each journalled record.
    """

    def __init__(
        self, narrator: Narrator, queue: WorkQueue, heartbeats: Heartbeats, report: Callable[[Record], None]
    ) -> None:
        self.narrator = narrator
        self.seconds = 0.0
        self._queue, self._report = queue, report
        self._detecting = ThreadPoolExecutor(1, "detector")
        self._ahead = deque[tuple[list[Work], Future[list[Detections | None]]]]()  # the first is narrated
        self._until: float | None = None
        self.loop = Loop(LOOP, self._turn, heartbeats=heartbeats, last=self._end)

    @property
    def in_hand(self) -> list[Work]:
        return [work for batch, _ in list(self._ahead) for work in batch]

    def finish(self, until: float) -> bool:
        """Narrate what the closed queue still holds, until a monotonic second; True where all has ended."""
        self._until = until
        return self.loop.join(until - monotonic())

    def give_up(self, work: Sequence[Work]) -> None:
        """Record that work of live cameras was not looked at; after `finish`, in any thread."""
        self._report_all(self.narrator.give_up(work))

    def _turn(self) -> None:
        is_over = self._queue.is_exhausted and not self._ahead
        if self._until is not None and (is_over or monotonic() >= self._until):
            self.loop.stop()
            return
        most = self.narrator.captioning.at_once if self._until is None else 1
        batch = self._queue.take(most, 0.0 if self._ahead else POLL_S)
        self.loop.beat(BATCH_LIMIT_S)
        began = monotonic()
        match batch:
            case [Work(Change(name, apply))]:
                self._narrate(but=0)
                try:
                    apply(self.narrator)
                except Exception:  # of one camera's rules, say: the others must be watched on
                    logger.exception("%s: its new settings are not all in force, report this", name)
            case []:
                self._narrate(but=0)
            case _:
                self._ahead.append((batch, self._detecting.submit(self.narrator.detect, batch)))
                self._narrate(but=1)
        self.seconds += monotonic() - began

    def _narrate(self, but: int) -> None:
        while len(self._ahead) > but:
            batch, found = self._ahead[0]
            self._report_all(self.narrator.process(batch, found.result()))
            self._ahead.popleft()

    def _end(self) -> None:
        self._detecting.shutdown(wait=False)
        self._report_all(self.narrator.finish())

    def _report_all(self, records: list[Record]) -> None:
        for record in records:
            self._report(record)
