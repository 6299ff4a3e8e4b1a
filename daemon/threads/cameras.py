"""Threads of cameras: frames in, pairs into the queue; broken ones start again, others come and go."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

from daemon.config.plan import CameraPlan
from daemon.threads.narrator import Narrator
from daemon.threads.work_queue import WorkQueue
from pipeline import settings
from pipeline.gate import Slots, watch
from pipeline.loop import Heartbeats, Loop
from pipeline.sources import (
    ConnectionState,
    Frame,
    Source,
    SourceError,
    SourceReport,
    open_source,
    redact,
    seconds_between,
)
from pipeline.sources.frame import without_picture
from pipeline.thresholds import PairThresholds, calibrate

RESTART_S = 10.0  # after this a thread that a fault ended starts again; sources try again sooner
CALIBRATION_S = 60.0  # footage that calibrates a camera, while it is watched with the defaults
READ_S = 60.0  # a thread that waits for one frame of a file for so long hangs

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Span:
    """The part of the footage to look at: offsets from the first frame, or aware wall-clock times."""

    begin: timedelta | datetime | None = None
    end: timedelta | datetime | None = None

    def since(self, first: datetime) -> tuple[datetime | None, datetime | None]:
        begin, end = (first + at if isinstance(at, timedelta) else at for at in (self.begin, self.end))
        return begin, end


class CameraThread:
    """Runs ``open_source | watch`` for one camera; its error waits for the main thread."""

    def __init__(
        self,
        plan: CameraPlan,
        queue: WorkQueue,
        opener: Callable[[CameraPlan], Source],
        *,
        span: Span = Span(),
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.plan = plan
        self.screened_s = 0.0  # seconds spent on frames so far, waits not counted
        self.first_time: datetime | None = None  # of the first frame of the source
        self.last_time: datetime | None = None  # of the last one looked at
        self.duration_s: float | None = None  # length of the footage, where its container has it
        self.live = False
        self.again_at: float | None = None  # monotonic seconds; None before its end is noted, inf for ever
        self._queue, self._opener, self._span = queue, opener, span
        self._source: Source | None = None
        self._works_since: float | None = None
        self.loop = Loop(f"camera {plan.name}", self._run, heartbeats=heartbeats, last=self._end)

    def stop(self) -> None:
        self.loop.stop()
        if (source := self._source) is not None:
            source.close()

    @property
    def report(self) -> SourceReport:
        return SourceReport() if self._source is None else self._source.report

    @property
    def was_tried(self) -> bool:
        if self._source is None:
            return self.loop.started and not self.loop.alive
        return not self.live or self.first_time is not None or bool(self._source.report.errors)

    @property
    def state(self) -> str:
        if self.loop.alive:
            return str(self.report.state or "reading")
        return "ended" if self.loop.started else "waiting"

    @property
    def is_watching(self) -> bool:
        return self.loop.alive and self.report.state in {None, ConnectionState.STREAMING}

    @property
    def streams(self) -> dict[str, tuple[str, SourceReport]]:
        report = self.report
        streams = {"main": (self.state, report)}
        if report.screening and self.loop.alive:
            streams["screening"] = str(report.screening.state), report.screening
        return streams

    @property
    def read_s(self) -> float:
        if self.first_time is None or self.last_time is None:
            return 0.0
        return (self.last_time - self.first_time).total_seconds()

    def _work(self) -> None:
        self._works_since = monotonic()
        self.loop.beat()

    def _rest(self, within_s: float = math.inf) -> None:
        """From now on it waits: for the narrator, or for a live source, whose own threads are watched."""
        if self._works_since is not None:
            self.screened_s += monotonic() - self._works_since
        self._works_since = None
        self.loop.beat(within_s)

    def _run(self) -> None:
        plan = self.plan
        self._rest()
        with self._opener(plan) as source:
            self._source = source
            self.duration_s, self.live = source.duration_s, source.live
            if self.loop.stopped.is_set():
                return
            calibration = _Calibration(plan)
            items = watch(
                self._frames_in_span(source),
                calibration.complete(PairThresholds()),
                plan.source.masks,
                tracked=plan.tracked,
                live=source.live,
                calibrate=calibration.update,
            )
            for item in items:
                self._rest()
                if not self._queue.put(plan.name, item, wait=not source.live):
                    break
                del item  # its picture: a quiet scene yields no other one for a while
                self._work()
        self.loop.stop()

    def _end(self) -> None:
        self._rest()
        self._queue.end(self.plan.name)

    def _frames_in_span(self, source: Source) -> Iterator[Frame]:
        begin = end = None
        within_s = math.inf if source.live else READ_S
        self._rest(within_s)
        for frame in source:
            if self.first_time is None:
                self.first_time = frame.time
                begin, end = self._span.since(frame.time)
            self.last_time = frame.time
            if self.loop.stopped.is_set() or (end is not None and frame.time > end):
                break
            self._work()
            if begin is None or frame.time >= begin:
                yield frame
            self._rest(within_s)
        self._rest()


class _Calibration:
    """Thresholds of a camera from its first minute, where they are not set by hand."""

    def __init__(self, plan: CameraPlan) -> None:
        self._plan, self._slots = plan, Slots(settings.PAIR_INTERVAL_S)
        self._done = plan.lower is not None and plan.upper is not None
        self._first: Frame | None = None
        self._planes: list[Frame] = []  # two a second, without their pictures: 16 MB

    def update(self, frame: Frame) -> PairThresholds | None:
        """The thresholds, with the frame that ends the minute."""
        if self._done:
            return None
        if self._slots.takes(frame):
            self._planes.append(without_picture(frame))
        self._first = self._first or without_picture(frame)
        if seconds_between(self._first, frame) < CALIBRATION_S:  # a clock may be set back
            return None
        found, self._first, self._planes = calibrate(self._planes), None, []
        if found is None:  # it was away for nearly all of the minute: the next one counts
            return None
        chosen, self._done = self.complete(found), True
        text = "%s: lower threshold %.1f, upper %.1f grey levels"
        logger.info(text, self._plan.name, chosen.lower, chosen.upper)
        return chosen

    def complete(self, found: PairThresholds) -> PairThresholds:
        return PairThresholds(self._plan.lower or found.lower, self._plan.upper or found.upper)


class Cameras:
    """The cameras that are watched, and their `threads`; only the main thread changes them."""

    def __init__(
        self, plans: Iterable[CameraPlan], queue: WorkQueue, heartbeats: Heartbeats | None = None
    ) -> None:
        self.failed: set[str] = set()  # those whose footage could not be read entirely
        self._queue, self._heartbeats = queue, heartbeats
        self._plans = {plan.name: plan for plan in plans}  # in force by the configuration
        self.threads = {name: self._thread(plan) for name, plan in self._plans.items()}

    @property
    def over(self) -> bool:
        return all(thread.again_at == math.inf for thread in self.threads.values())

    @property
    def was_tried(self) -> bool:
        return all(thread.was_tried for thread in self.threads.values())

    @property
    def unseen(self) -> dict[str, str]:
        """States by camera where no camera that has not ended sends pictures; else empty."""
        threads = {name: each for name, each in self.threads.copy().items() if each.again_at != math.inf}
        if any(each.is_watching for each in threads.values()):
            return {}
        return {name: each.state for name, each in threads.items()}

    def start(self) -> None:
        for thread in self.threads.values():
            thread.loop.start()

    def stop(self) -> None:
        for thread in self.threads.values():
            thread.stop()

    def join(self, until: float) -> bool:
        """Wait for the threads, until a monotonic second; True where all have ended."""
        threads = self.threads.items()
        late = [name for name, thread in threads if not thread.loop.join(max(0.1, until - monotonic()))]
        for name in late:
            logger.warning("%s: the camera's thread did not end in time", name)
        return not late

    def apply(self, plans: Iterable[CameraPlan]) -> str:
        """Let cameras come, go and change, and return in words which did, if any; others are not touched.

        What a changed or removed camera saw until now is still reported under the plan by which it was seen.
        """
        before, self._plans = self._plans, {plan.name: plan for plan in plans}
        changes = []
        for name in before | self._plans:
            now = self._plans.get(name)
            if now == before.get(name) and now:
                self._plans[name] = before[name]
            elif name in self.threads:
                changes.append(f"{name} is {'changed' if now else 'removed'}")
                self.threads[name].stop()
            elif now:
                changes.append(f"{name} is added")
                self._start(now)
        return ", ".join(changes)

    def supervise(self) -> None:
        """Take note of threads that have ended; call it at every turn."""
        for name, thread in list(self.threads.items()):
            if thread.loop.alive:
                continue
            plan = self._plans.get(name)
            if plan is None:
                self._forget(name)
            elif plan is not thread.plan or (thread.again_at is not None and monotonic() >= thread.again_at):
                self._start(plan)
            elif thread.again_at is None:
                self._note_end(name, thread)

    def _thread(self, plan: CameraPlan) -> CameraThread:
        return CameraThread(plan, self._queue, self._open, heartbeats=self._heartbeats)

    def _open(self, plan: CameraPlan) -> Source:
        return open_source(
            plan.url, plan.source, plan.name, screening=plan.screening, heartbeats=self._heartbeats
        )

    def _start(self, plan: CameraPlan) -> None:
        name = plan.name
        self.threads[name] = self._thread(plan)
        self._queue.put_change(name, lambda narrator: narrator.add(plan))
        self._queue.begin(name)
        self.threads[name].loop.start()

    def _forget(self, name: str) -> None:
        def remove(narrator: Narrator) -> None:
            narrator.remove(name)
            self._queue.forget(name)

        del self.threads[name]
        self._queue.put_change(name, remove)

    def _note_end(self, name: str, thread: CameraThread) -> None:
        if not thread.live:
            for sentence in thread.report.errors:
                logger.warning("%s: %s", name, sentence)
            if thread.report.corrupt:
                logger.warning("%s: damaged frames or packets: %d", name, thread.report.corrupt)
        if thread.loop.error is not None:
            logger.error("%s: %s", name, format_error(thread.loop.error))
        if thread.live or (thread.loop.error is not None and thread.plan.url.startswith("rtsp")):
            thread.again_at = monotonic() + RESTART_S
            return
        thread.again_at = math.inf
        if thread.loop.error is not None or thread.report.damaged:
            self.failed.add(name)


def format_error(error: BaseException) -> str:
    """An error in one line without secrets; unexpected ones with their kind."""
    text = redact(error)
    return text if isinstance(error, SourceError) else f"{type(error).__name__}: {text}"
