"""One thread per camera: frames in, candidate pairs into the queue."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic

from daemon.config.plan import CameraPlan
from daemon.threads.calibration import (
    CALIBRATION_S,
    FILE_FOOTAGE_S,
    CalibrationStore,
    chosen_thresholds,
    fixed_thresholds,
    opening,
    remember_planes,
)
from daemon.threads.work_queue import WorkQueue
from pipeline.gate import PAIR_INTERVAL_S, Item, MotionFrame, Slots, watch
from pipeline.loop import Loop
from pipeline.pairs import FramePair
from pipeline.sources import ConnectionState, Frame, Source, SourceReport, redacted
from pipeline.sources.rtsp import BACKOFF_S
from pipeline.thresholds import PairThresholds, calibrate

STUCK_S = 20.0
"""A thread that is busy with one frame for so long hangs."""

SCREENING = "screening "
"""Before the names of what is counted of a sub-stream."""

Opener = Callable[[CameraPlan], Source]
"""Opens a plan's source, in the camera's thread; raises SourceError."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of the footage is looked at; an offset counts from the first frame.

    Attributes:
        begin, end: offset or aware wall-clock time; None is the footage's own.
    """

    begin: timedelta | datetime | None = None
    end: timedelta | datetime | None = None


class CameraThread:
    """Runs ``open_source | watch`` for one camera; its error waits for the main thread.

    Attributes:
        pairs: proposed to the narrator so far.
        motion_frames: frames with motion passed on so far.
        screened_s: seconds spent on frames so far, waits not counted.
        first_time, last_time: times of the first frame of the source and of the last one looked at.
        duration_s: length of the footage, where its container tells it.
        live: True where the source is a camera.
        loop: the thread; its error is why it ended early.
    """

    def __init__(
        self,
        plan: CameraPlan,
        queue: WorkQueue,
        opener: Opener,
        store: CalibrationStore | None = None,
        span: Span = Span(),
    ) -> None:
        self.plan = plan
        self.pairs = self.motion_frames = 0
        self.screened_s = 0.0
        self.first_time: datetime | None = None
        self.last_time: datetime | None = None
        self.duration_s: float | None = None
        self.live = False
        self._queue, self._opener, self._store, self._span = queue, opener, store, span
        self._source: Source | None = None  # what is read now, be it to calibrate only
        self._main: Source | None = None
        self._busy_since: float | None = None
        self._reading_since: float | None = None
        self.loop = Loop(f"camera {plan.name}", self._read, last=self._end)
        self._stopped = self.loop.stopped

    def stop(self) -> None:
        """Ask the thread to end; it does so at its next frame."""
        self.loop.stop()
        if (source := self._source) is not None:
            source.close()

    @property
    def report(self) -> SourceReport:
        """What the source read so far."""
        return SourceReport() if self._main is None else self._main.report

    @property
    def tried(self) -> bool:
        """True once the source was opened, or could not be."""
        if self._main is None:
            return self.loop.started and not self.loop.alive
        return not self.live or self.first_time is not None or bool(self._main.report.errors)

    @property
    def state(self) -> str:
        """What the camera does; a file is "read" until it has "ended"."""
        if self.report.state is not None and self.loop.alive:
            return self.report.state.value
        return "reading" if self.loop.alive else "ended" if self.loop.started else "waiting"

    @property
    def sees(self) -> bool:
        """True while pictures come, or footage is read."""
        return self.loop.alive and self.report.state in {None, ConnectionState.STREAMING}

    @property
    def screening_state(self) -> str | None:
        """What the sub-stream does; None without one."""
        small = self.report.screening
        return None if small is None or not self.loop.alive else str(small.state)

    @property
    def counts(self) -> dict[str, float]:
        """What became of the frames, by outcome (those of a sub-stream prefixed); each only ever rises."""
        report = self.report
        counts = {
            "pairs": float(self.pairs),
            "motion_frames": float(self.motion_frames),
            "screened_s": self.screened_s,
            **_counted(report),
        }
        if report.screening is not None:
            counts |= {SCREENING + name: count for name, count in _counted(report.screening).items()}
        return counts

    @property
    def busy_s(self) -> float:
        """How long the thread has been busy with one frame, 0 while it waits for the camera or the narrator.

        Sources limit their own waits, and a camera that is away must not look like a daemon that hangs.
        """
        since = self._busy_since
        return 0.0 if since is None else monotonic() - since

    @property
    def hung_s(self) -> float:
        """Seconds since the thread, or the one that reads for it, last got on; 0 while it may wait.

        A camera's reader has limits of its own for every wait; it hangs when it is silent beyond them.
        """
        if self.busy_s > STUCK_S:
            return self.busy_s
        source, since = self._source, self._reading_since
        if source is None or since is None:
            return 0.0
        waited_s = source.silent_s if source.live else monotonic() - since
        return waited_s if waited_s > self._longest_wait_s else 0.0

    @property
    def _longest_wait_s(self) -> float:
        options = self.plan.source
        return max(options.open_timeout_s, options.stall_timeout_s, BACKOFF_S[1]) + STUCK_S

    @property
    def read_s(self) -> float:
        """Footage read so far, in seconds."""
        if self.first_time is None or self.last_time is None:
            return 0.0
        return (self.last_time - self.first_time).total_seconds()

    def _read(self) -> None:
        """The only turn."""
        self._narrow()
        self.loop.stop()

    def _end(self) -> None:
        self._rest()
        self._reading_since = None
        self._queue.end(self.plan.name)

    def _narrow(self) -> None:
        """From many frames to few pairs."""
        plan = self.plan
        with self._opener(plan) as source:
            self._source = self._main = source
            self.duration_s, self.live = source.duration_s, source.live
            if self._stopped.is_set():
                return
            for item in self._items(self._looked_at(source), live=source.live):
                self._rest()  # waiting for the narrator
                is_pair = isinstance(item, FramePair)
                deadline_s = plan.deadline_s if is_pair and source.live else None
                if not self._queue.put(plan.name, item, wait=not source.live, deadline_s=deadline_s):
                    return
                self.pairs += is_pair
                self.motion_frames += isinstance(item, MotionFrame)
                self._busy_since = monotonic()

    def _items(self, frames: Iterator[Frame], *, live: bool) -> Iterator[Item]:
        """What goes to the narrator, by thresholds that are fixed, stored, or found on the way."""
        plan = self.plan
        options = {"tracked": plan.tracked, "live": live}
        thresholds = fixed_thresholds(plan) or (self._stored_thresholds() if live else None)
        if thresholds is None and not (live or plan.tracked):
            thresholds = self._file_thresholds()
        if thresholds is None:
            minute: list[Frame] = []
            first = remember_planes(opening(frames, CALIBRATION_S), minute)
            yield from watch(first, chosen_thresholds(plan), plan.pairs, **options)
            thresholds = self._calibrated_thresholds(minute, live=live)
        self._rest()
        yield from watch(frames, thresholds, plan.pairs, **options)

    def _looked_at(self, source: Source) -> Iterator[Frame]:
        """The frames of the span; notes how far the source is."""
        begin = end = None
        self._rest()
        self._reading_since = monotonic()
        for frame in source:
            self._reading_since = None
            if self.first_time is None:
                self.first_time = frame.time
                begin, end = (_moment(at, frame.time) for at in (self._span.begin, self._span.end))
            self.last_time = frame.time
            if self._stopped.is_set() or (end is not None and frame.time > end):
                break
            if begin is not None and frame.time < begin:
                self._reading_since = monotonic()
                continue
            self._busy_since = monotonic()
            yield frame
            self._rest()
            self._reading_since = monotonic()
        self._reading_since = None

    def _rest(self) -> None:
        """What comes now is waiting."""
        since, self._busy_since = self._busy_since, None
        if since is not None:
            self.screened_s += monotonic() - since

    def _file_thresholds(self) -> PairThresholds:
        """A first pass over the start of a file: its first frames are judged by them already."""
        whole = replace(self.plan, source=replace(self.plan.source, fast=False))
        with self._opener(whole) as source:
            self._source, main = source, self._source
            frames = itertools.takewhile(lambda _: not self._stopped.is_set(), source)
            calibration = calibrate(opening(filter(Slots(PAIR_INTERVAL_S).takes, frames), FILE_FOOTAGE_S))
            self._source = main
        return chosen_thresholds(self.plan, calibration)

    def _stored_thresholds(self) -> PairThresholds | None:
        """Those that an earlier process found."""
        calibration = self._store.load(self.plan) if self._store else None
        return chosen_thresholds(self.plan, calibration) if calibration else None

    def _calibrated_thresholds(self, minute: list[Frame], *, live: bool) -> PairThresholds:
        """Those of the first minute, until whose end the defaults hold: nobody waits for it unseen."""
        plan, calibration = self.plan, calibrate(minute)
        if live and self._store and calibration.measured:
            try:
                self._store.save(plan, calibration)
            except OSError as error:
                logger.warning("%s: the calibration is not kept: %s", plan.name, redacted(error))
        found = calibration.thresholds
        logger.info("%s: lower threshold %.1f, upper %.1f grey levels", plan.name, found.lower, found.upper)
        return chosen_thresholds(plan, calibration)


def _counted(report: SourceReport) -> dict[str, float]:
    return {
        "decoded": report.decoded,
        "sampled": report.sampled,
        "corrupt": report.corrupt,
        "dropped": report.dropped,
        "reconnections": report.reconnections,
    }


def _moment(at: timedelta | datetime | None, first: datetime) -> datetime | None:
    return first + at if isinstance(at, timedelta) else at
