"""`narrated replay`: archives in, narrations out, as fast as the machine allows; the same at every run."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from daemon.config.plan import CameraPlan
from daemon.config.values import format_offset
from daemon.replay.inputs import ReplayInput
from daemon.replay.output import Outcome, OutputFolder, identity
from daemon.replay.progress import ReplayProgress
from daemon.threads.camera_thread import CameraThread, Span
from daemon.threads.cameras import format_error
from daemon.threads.evidence import EvidenceKeeper
from daemon.threads.narrator import JournalledPair, Narrator
from daemon.threads.publication import Publishing
from daemon.threads.work_queue import POLL_S, Work, WorkQueue
from models.captioner import Captioner
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal
from pipeline.publisher import Publisher
from pipeline.record import Record
from pipeline.report.summary import ReportFacts
from pipeline.report.words import many
from pipeline.sources import Source
from pipeline.sources.url import open_files
from pipeline.tracking import Detections

BATCH = 4  # frames and pairs of one camera that are narrated together; the pictures of two more batches wait

PICTURE_BYTES = 1_000_000_000
"""Pictures kept of one camera at most; counted for each, so that jobs and clusters change nothing."""

_PUBLISH_LIMIT_S, _INTERRUPTED_LIMIT_S = 60.0, 5.0
_PATHS_SHOWN = 20
_LOOK_S = 0.02  # longest wait for another batch while one is looked at

Show = Callable[[Record, float], None]
"""Shows records as they come; the float: seconds from the first frame to the after frame."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay.

    Attributes:
        plan: settings of every camera; its name and URL are not used.
        span: the part of each camera's footage that is looked at.
        jobs: cameras that are read at the same time.
        redis_url: of the server that narrations are published to; empty publishes none.
        out: folder of the journal, subtitles and report; None writes none.
        resume: go on with an interrupted replay in `out`.
        report: write narrations.jsonl, subtitles and the page in the end; else a replay that is resumed does.
    """

    plan: CameraPlan
    span: Span = field(default_factory=Span)
    jobs: int = 1
    redis_url: str = ""
    out: Path | None = None
    resume: bool = False
    report: bool = True


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The result of a replay.

    Attributes:
        narrations: records journalled, also by the replay that this one went on with.
        problems: one line, without secrets, per input that could not be read (entirely) or published, and
            what an interruption left out.
        interrupted: True where Ctrl-C ended it.
        outcomes: what came of each finished camera.
        notes: one line each, about pictures.
    """

    narrations: int
    problems: tuple[str, ...]
    interrupted: bool
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def replay(
    footage: list[ReplayInput],
    captioner: Captioner,
    options: ReplayOptions,
    show: Show,
    progress: ReplayProgress,
) -> ReplayReport:
    """Narrate footage.

    Returns:
        Counts and problems. Ctrl-C ends it early: what was narrated until then is written and published.

    Raises:
        JournalError, PublisherError: the journal or the publisher cannot be opened.
        OutputError: `out` cannot be written, or what is in it not go on.
    """
    with ExitStack() as resources:
        run = _Replay(footage, captioner, options, show, resources)
        interrupted = False
        try:
            run.main_loop(progress)
        except KeyboardInterrupt:
            interrupted = True
        with _without_interruption():
            problems = run.shutdown(interrupted=interrupted)
        return ReplayReport(run.narrations, tuple(problems), interrupted, run.finished, tuple(run.notes))


class _Replay:
    """The state of one replay: its threads and journals."""

    def __init__(
        self,
        footage: list[ReplayInput],
        captioner: Captioner,
        options: ReplayOptions,
        show: Show,
        resources: ExitStack,
    ) -> None:
        self._captioner = captioner
        self._footage = {each.camera: each for each in footage}
        self._options, self._show = options, show
        plan = options.plan.for_captioner(captioner)
        plans = [replace(plan, name=each.camera, url=str(each.paths[0])) for each in footage]
        out = options.out or resources.enter_context(tempfile.TemporaryDirectory(prefix="narrated-"))
        of = identity(footage, captioner, options.plan, options.span)
        self._output = OutputFolder(Path(out), of, resume=options.resume)
        self._earlier = dict(self._output.finished)
        self.narrations = sum(map(len, self._output.restored.values()))
        self._journals = {
            plan.name: resources.enter_context(
                Journal(self._output.journal, plan.name, fsync=options.out is not None)
            )
            for plan in plans
        }
        left = [plan for plan in plans if plan.name not in self._earlier]
        self._queue = WorkQueue([plan.name for plan in left], capacity=2 * BATCH)
        store = EvidenceStore(self._output.evidence, fsync=False)
        self._keeper = EvidenceKeeper(store, camera_bytes=PICTURE_BYTES) if options.out else None
        self._narrator = Narrator(
            captioner, left, self._journals, live=False, evidence=self._keeper, counters=self._queue.counters
        )
        self._publishing = None
        if options.redis_url:
            self._publishing = Publishing(self._journals, Publisher(options.redis_url))
        self._threads = [CameraThread(plan, self._queue, self._open, span=options.span) for plan in left]
        self.finished = dict[str, Outcome]()

    def main_loop(self, progress: ReplayProgress) -> None:
        """Narrate batch after batch; objects are detected in the next one meanwhile."""
        if self._publishing:
            self._publishing.start()
        ahead = deque[tuple[list[Work], Future[list[Detections | None]]]]()
        with ThreadPoolExecutor(1, "detector") as pool:
            while len(self.finished) < len(self._threads):
                self._start_threads()
                if batch := self._queue.take_camera(BATCH, _LOOK_S if ahead else POLL_S):
                    ahead.append((batch, pool.submit(self._narrator.detect, batch)))
                if ahead and (len(ahead) > 1 or ahead[0][1].done()):
                    batch, found = ahead.popleft()
                    self._note(self._narrator.process(batch, found.result()))
                if not ahead:
                    self._finish_cameras()
                if self._publishing:
                    self._publishing.loop.raise_error()
                self._update(progress)

    def _update(self, progress: ReplayProgress) -> None:
        threads = self._threads
        read_s = sum(thread.read_s for thread in threads)
        known = [thread.duration_s for thread in threads if thread.duration_s is not None]
        # What has not been opened yet is taken to be as long as the others.
        total_s = max(sum(known) * len(threads) / len(known), read_s) if known else None
        ended = sum(thread.loop.started and not thread.loop.alive for thread in threads)
        progress.update(f"{ended} of {many(len(threads), 'camera')}", read_s, total_s, self.narrations)

    def _note(self, narrated: list[JournalledPair]) -> None:
        for journalled in narrated:
            self.narrations += 1
            if self._options.out:
                self._output.add(journalled)
        begins = {thread.plan.name: thread.first_time for thread in self._threads}
        for journalled in narrated:  # all are in the report by now: Ctrl-C costs lines on the terminal
            record = journalled.record
            if not record.held:
                begin = begins[record.camera] or record.before.moment
                self._show(record, (record.after.moment - begin).total_seconds())
        if self._publishing and narrated:
            self._publishing.loop.wake()

    def shutdown(self, *, interrupted: bool) -> list[str]:
        """End the threads, write and publish the rest; the problems."""
        problems = [self._left_out()] if interrupted else []
        self._queue.close()
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.loop.join(_PUBLISH_LIMIT_S)
        self._queue.abandon()
        self._note(self._narrator.finish())
        outcomes = [*self._earlier.values(), *map(self._outcome, self._threads)]
        problems += [line for outcome in outcomes for line in outcome.problems]
        fallbacks = self._narrator.captioning.fallbacks
        if failed := sum(pairs for (_, reason), pairs in fallbacks.items() if reason == "failed"):
            problems.append(
                f"{many(failed, 'narration')}: only where something changed, because the captioner failed"
            )
        limit_s = _INTERRUPTED_LIMIT_S if interrupted else _PUBLISH_LIMIT_S
        if self._publishing and not self._publishing.finish(limit_s):
            reasons = sorted(set(self._publishing.failing.values())) or ["the server did not answer in time"]
            problems += [f"not everything is published: {reason}" for reason in reasons]
        if self._options.out and self._options.report:
            if any(outcome.first for outcome in outcomes):
                self._output.finish(self._facts(problems), complete=not interrupted)
            else:
                self._output.discard()
        return problems

    @property
    def notes(self) -> Iterator[str]:
        """Where the pictures are, and what of them was not kept."""
        if self._keeper and (size := self._keeper.store.size()):
            megabytes = f"{size / 1e6:,.0f} MB"
            yield f"pictures: {megabytes} in {self._output.evidence} (--no-evidence keeps none)"
        for camera, count in (self._keeper.beyond if self._keeper else {}).items():
            words = many(count, "narration")
            yield f"{camera}: {words} without pictures, {PICTURE_BYTES / 1e9:g} GB are kept"

    def _left_out(self) -> str:
        """The footage that an interruption left out, in words."""
        parts, unbegun = [], 0
        for thread in self._threads:
            name = thread.plan.name
            if thread.first_time is None:
                unbegun += 1
            elif not self._queue.ended(name):
                parts.append(f"{name} after {format_offset(thread.read_s)}")
        if unbegun:
            parts.append(f"{unbegun} of {many(len(self._threads), 'camera')} altogether")
        left = f"interrupted, so incomplete: {', '.join(parts) or 'the end'} was not narrated"
        return f"{left}; --resume goes on" if self._options.out else left

    def _facts(self, problems: list[str]) -> ReportFacts:
        plan = self._options.plan
        names = list(self._footage)
        outcomes = {**self._earlier, **{t.plan.name: self._outcome(t) for t in self._threads}}
        footage = [str(p) for each in self._footage.values() for p in each.paths[:_PATHS_SHOWN]]
        bounds = [("lower", plan.lower), ("upper", plan.upper)]
        thresholds = ", ".join(f"{k} auto" if v is None else f"{k} {v:g}" for k, v in bounds)
        return ReportFacts(
            title=f"What changed: {names[0] if len(names) == 1 else f'{len(names)} cameras'}",
            rows=(
                ("Footage", ", ".join(footage)),
                ("Length looked at", format_offset(sum(outcome.read_s for outcome in outcomes.values()))),
            ),
            starts={name: outcome.first for name, outcome in outcomes.items() if outcome.first},
            ends={name: outcome.last for name, outcome in outcomes.items() if outcome.last},
            repeated=sum(sum(outcome.unreported.values()) for outcome in outcomes.values()),
            gaps=tuple(problems),
            audit=(
                ("Sampled", f"{plan.source.sample_hz:g}/s, thresholds {thresholds}"),
                ("Captioner", f"{self._captioner.name}, {self._captioner.sha256[:12]}"),
            ),
        )

    def _start_threads(self) -> None:
        running = sum(thread.loop.alive for thread in self._threads)
        for thread in self._threads:
            if running >= self._options.jobs:
                return
            if not thread.loop.started:
                thread.loop.start()
                running += 1

    def _finish_cameras(self) -> None:
        """Journal the last of every camera that has ended, and note that a resumed replay need not see it."""
        for thread in self._threads:
            name = thread.plan.name
            if name in self.finished or not self._queue.ended(name):
                continue
            self._note(self._narrator.finish(name))
            self.finished[name] = self._outcome(thread)
            self._output.finish_camera(name, self.finished[name])

    def _outcome(self, thread: CameraThread) -> Outcome:
        return Outcome(
            first=thread.first_time,
            last=thread.last_time,
            read_s=thread.read_s,
            problems=tuple(self._problems(thread)),
            unreported=self._narrator.unreported(thread.plan.name),
        )

    def _open(self, plan: CameraPlan) -> Source:
        return open_files(self._footage[plan.name].paths, plan.source, plan.name)

    def _problems(self, thread: CameraThread) -> Iterator[str]:
        if thread.loop.error is not None:
            yield format_error(thread.loop.error)
            return
        yield from thread.report.errors
        if thread.report.corrupt:
            yield f"{thread.plan.url}: {thread.report.corrupt} damaged frames or packets were skipped"


@contextmanager
def _without_interruption() -> Iterator[None]:
    """A second Ctrl-C while the files are finished must not leave half of one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, kept)
