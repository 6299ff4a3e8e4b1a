"""The narrator: work from the queue becomes journalled records, in a thread of its own."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, InitVar, dataclass, field
from pathlib import Path
from time import monotonic

from daemon.config.plan import CameraPlan
from daemon.questions.question import LocalTime
from daemon.rules.rule import Rule
from daemon.threads.camera_narrator import CameraNarrator, EvidenceKeeper
from daemon.threads.captioning import REPEAT_S, Captioning
from daemon.threads.work_queue import DROPPED, FAILED, POLL_S, Change, PairCounters, Work, WorkQueue
from models.captioner import Captioner
from models.detections import Detections
from pipeline import settings
from pipeline.gate import Gap, MotionFrame, Seen
from pipeline.journal import Journal
from pipeline.loop import Heartbeats, Loop
from pipeline.narration.narration import stamp
from pipeline.record import Record
from pipeline.sources import Frame, seconds_between

logger = logging.getLogger(__name__)

BATCH_LIMIT_S = 60.0  # a batch on a slow processor may take so long; only one that hangs takes longer


@dataclass(eq=False)
class Narrator:
    """Turns frames and pairs into journalled records; for one thread, beside which another detects ahead.

    A replay, not `live`, does not journal how long it took, which differs from run to run. `evidence` stores
    pictures before what they show is journalled, the folder `memory` what of live cameras outlives the
    process; None keeps none. A replay's cameras begin with the contents `states` of such files, by camera.
    """

    captioner: Captioner
    plans: InitVar[Iterable[CameraPlan]]
    journals: Mapping[str, Journal]
    _: KW_ONLY
    live: bool
    evidence: EvidenceKeeper | None = None
    memory: Path | None = None
    states: Mapping[str, bytes] = field(default_factory=dict)
    counters: PairCounters = field(default_factory=PairCounters)

    def __post_init__(self, plans: Iterable[CameraPlan]) -> None:
        self.captioning = Captioning(self.captioner)
        self.missed = Counter[str]()  # frames not narrated, by camera
        self.written: list[Record] = []  # what is given out next
        self.detecting = ThreadPoolExecutor(1, "detector")
        self.ahead = deque[tuple[Sequence[Work], Future[list[Detections | None]]]]()  # batches to `process`
        self._cameras: dict[str, CameraNarrator] = {}
        for plan in plans:
            self.add(plan)

    def add(self, plan: CameraPlan) -> None:
        """Take a camera in, or continue with one under another plan: its tracks and limits go on."""
        self._cameras[plan.name] = CameraNarrator(plan, self, self._cameras.get(plan.name))

    def set_rules(self, name: str, rules: tuple[Rule, ...], local: LocalTime) -> None:
        """Watch rules of a camera, with hours in a time zone; they begin with what its journal says."""
        self._cameras[name].set_rules(rules, local)

    def remove(self, camera: str) -> None:
        self._cameras.pop(camera).close_minute()

    @property
    def at_hourly_limit(self) -> frozenset[str]:
        cameras = self._cameras.copy().items()
        return frozenset(name for name, camera in cameras if camera.state.limits.at_hourly_limit)

    def unreported(self, camera: str) -> Counter[str]:
        """Sentences that only repeated what was reported, by reason."""
        return self._cameras[camera].state.stories.dropped

    def detect(self, batch: Sequence[Work]) -> list[Detections | None]:
        """Objects in each frame of a batch, pairs left out; `process` may run in another thread meanwhile."""
        return self.captioning.detect(
            [(w.item, self._cameras[w.camera].regions) for w in batch if isinstance(w.item, MotionFrame)]
        )

    def detect_ahead(self, batch: Sequence[Work]) -> None:
        """Begin to detect in a batch, which `process_next` goes on with."""
        self.ahead.append((batch, self.detecting.submit(self.detect, batch)))

    def process_next(self) -> list[Record]:
        batch, found = self.ahead[0]
        records = self.process(batch, found.result())
        self.ahead.popleft()
        return records

    def process(
        self, batch: Sequence[Work], found: Sequence[Detections | None] | None = None
    ) -> list[Record]:
        """Detect (unless `found` is what `detect` found before), track, compare and journal a batch.

        Returns the records that were journalled. JournalError where a replay's journal cannot be written.
        """
        detections = iter(self.detect(batch) if found is None else found)
        for work in batch:
            camera = self._cameras[work.camera]
            result = next(detections) if isinstance(work.item, MotionFrame) else None
            try:
                camera.take(work.item, result)
            except Exception:
                if not self.live:
                    raise
                # A fault that one camera meets must not blind the others: its tracks start again.
                camera.state.tracker = None
                if monotonic() - camera.warned_s >= REPEAT_S:
                    camera.warned_s = monotonic()
                    logger.exception("%s: what it shows cannot be narrated, report this", work.camera)
                if isinstance(work.item, MotionFrame):
                    camera.miss(work.item.frame)
                elif work.is_pair:
                    self.counters[work.camera, DROPPED, FAILED] += 1
            camera.release()
        return self._give_out()

    @property
    def failing(self) -> frozenset[str]:
        return frozenset(name for name, camera in self._cameras.copy().items() if camera.missed)

    def finish(self, camera: str | None = None, *, ended: bool = False) -> list[Record]:
        """Journal what is left, of one camera or of all: no more work will come, or their footage `ended`."""
        for each in list(self._cameras.values()):
            if camera in {None, each.plan.name}:
                if each.missed:
                    each.note_missed(each.missed[-1])
                if ended:
                    each.report_events(each.state.finish(), each.context)
                each.close_minute()
        return self._give_out()

    def give_up(self, work: Sequence[Work]) -> list[Record]:
        """Journal from when to when live cameras were not looked at; a restart reads footage again."""
        unseen: dict[str, list[Frame]] = {}
        for each in work:
            item, camera = each.item, self._cameras.get(each.camera)
            if camera is None or each.since is None or isinstance(item, Seen | Change):
                continue
            if isinstance(item, Gap):
                camera.report_gap(stamp(item.before), item.after, item.reason)
            else:
                frames = [item.frame] if isinstance(item, MotionFrame) else [item.before, item.after]
                unseen.setdefault(each.camera, []).extend(frames)
        for name, frames in unseen.items():
            camera = self._cameras[name]
            end = frames[-1]
            begin = min((f for f in frames if f.time <= end.time), key=lambda frame: frame.time)
            earlier = [frame for frame in camera.state.frames if frame.time < begin.time]
            looked_at = [frame for frame in earlier if seconds_between(frame, begin) < settings.PAUSE_S]
            camera.report_gap(stamp(looked_at[-1] if looked_at else begin), end, "overload")
        return self._give_out()

    def _give_out(self) -> list[Record]:
        written, self.written = self.written, []
        return written


class NarratorThread:
    """Takes batches and narrates them; its error waits for the main thread.

    `report` is called with each journalled record.
    """

    def __init__(
        self, narrator: Narrator, queue: WorkQueue, heartbeats: Heartbeats, report: Callable[[Record], None]
    ) -> None:
        self.narrator = narrator
        self.seconds = 0.0
        self._queue, self._report = queue, report
        self._until: float | None = None
        self.loop = Loop("narrator", self._turn, heartbeats=heartbeats, last=self._end)

    @property
    def in_hand(self) -> list[Work]:
        return [work for batch, _ in list(self.narrator.ahead) for work in batch]

    def finish(self, until: float) -> bool:
        """Narrate what the closed queue still holds, until a monotonic second; True where all has ended."""
        self._until = until
        return self.loop.join(until - monotonic())

    def give_up(self, work: Sequence[Work]) -> None:
        """Record that work of live cameras was not looked at; after `finish`, in any thread."""
        self._report_all(self.narrator.give_up(work))

    def _turn(self) -> None:
        ahead = self.narrator.ahead
        is_over = self._queue.is_exhausted and not ahead
        if self._until is not None and (is_over or monotonic() >= self._until):
            self.loop.stop()
            return
        most = self.narrator.captioning.at_once if self._until is None else 1
        batch = self._queue.take(most, 0.0 if ahead else POLL_S)
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
                self.narrator.detect_ahead(batch)
                self._narrate(but=1)
        self.seconds += monotonic() - began

    def _narrate(self, but: int) -> None:
        while len(self.narrator.ahead) > but:
            self._report_all(self.narrator.process_next())

    def _end(self) -> None:
        self.narrator.detecting.shutdown(wait=False)
        self._report_all(self.narrator.finish())

    def _report_all(self, records: list[Record]) -> None:
        for record in records:
            self._report(record)
