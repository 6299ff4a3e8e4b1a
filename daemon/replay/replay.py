"""`narrated replay`: archives in, narrations out, as fast as the machine allows; the same at every run."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from daemon.config.plan import CameraPlan
from daemon.replay.inputs import ReplayInput
from daemon.replay.output import Outcome, OutputFolder, identity
from daemon.threads.camera_thread import CameraThread, Span
from daemon.threads.cameras import format_error
from daemon.threads.evidence import EvidenceKeeper
from daemon.threads.narrator import Narrator
from daemon.threads.publication import Publishing
from daemon.threads.work_queue import POLL_S, Work, WorkQueue
from models.captioner import Captioner
from models.detections import Detections
from models.language.catalogue import _, tell
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal
from pipeline.publisher import Publisher
from pipeline.record import Record
from pipeline.report.pages import Head
from pipeline.report.words import counted, format_offset, many
from pipeline.sources import Source
from pipeline.sources.url import open_files

BATCH = 4  # frames and pairs of one camera that are narrated together; one more batch waits with its pictures

_PUBLISH_LIMIT_S, _INTERRUPTED_LIMIT_S = 60.0, 5.0
_PATHS_SHOWN = 20
_LOOK_S = 0.02  # longest wait for another batch while objects are detected in one

Show = Callable[[Record, float], None]
"""Shows a record; the number is the seconds from the first frame to the after frame."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay.

    Attributes:
        plan: settings of every camera; its name and URL are not used.
        span: the part of each camera's footage to narrate.
        redis_url: of the server that narrations are published to; empty publishes none.
        out: folder of the journal, subtitles and report; None writes none.
        resume: continue an interrupted replay in `out`.
        report: write narrations.jsonl, subtitles and the page at the end, else when the replay is resumed.
    """

    plan: CameraPlan
    span: Span = field(default_factory=Span)
    redis_url: str = ""
    out: Path | None = None
    resume: bool = False
    report: bool = True


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The result of a replay.

    Attributes:
        narrations: records journalled, also by the replay that was resumed.
        problems: one line, without secrets, per input that could not be read (entirely) or published, and
            what an interruption left out.
        interrupted: True where Ctrl-C ended it.
        outcomes: of the finished cameras.
    """

    narrations: int
    problems: tuple[str, ...]
    interrupted: bool
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)


class ReplayProgress(Progress):
    """Progress of a replay: one bar on stderr, on a terminal only; a context manager around it."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TaskProgressColumn(),
            TextColumn("{task.fields[narrations]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            redirect_stdout=False,  # narrations that are piped somewhere must not end up on the terminal
        )
        self.add_task("reading", total=None, narrations=many(0, "narration"))

    def write(self, line: str) -> None:
        """Print a line to stdout: above the bar where both are on a terminal; from any thread."""
        if self.console.is_terminal and sys.stdout.isatty():
            self.console.print(Text(line), soft_wrap=True)
            return
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def show(self, description: str, done: float, total: float | None, narrations: int) -> None:
        """Show how much is done, of a total where that is known."""
        (task,), number = self.task_ids, many(narrations, "narration")
        self.update(task, completed=done, total=total, description=description, narrations=number)


def show_records(records: Iterable[Record], begins: Mapping[str, datetime | None], show: Show) -> None:
    """Show the records that are not held, by the times of their cameras' first frames."""
    for record in records:
        if not record.held:
            begin = begins[record.camera] or record.before.moment
            show(record, (record.after.moment - begin).total_seconds())


def replay(
    footage: list[ReplayInput],
    captioner: Captioner,
    options: ReplayOptions,
    show: Show,
    progress: ReplayProgress,
) -> ReplayReport:
    """Narrate footage. Ctrl-C ends it early: what was narrated until then is written and published.

    Raises:
        JournalError, PublisherError: the journal or the publisher cannot be opened.
        OutputError: `out` cannot be written, or the replay in it not resumed.
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
        return ReplayReport(run.narrations, tuple(problems), interrupted, run.finished)


class _Replay:
    """Threads and journals of one replay; `finished` has outcomes by camera, also of a resumed replay."""

    def __init__(
        self,
        footage: list[ReplayInput],
        captioner: Captioner,
        options: ReplayOptions,
        show: Show,
        resources: ExitStack,
    ) -> None:
        self._footage = {each.camera: each for each in footage}
        self._captioner, self._options, self._show = captioner, options, show
        plan = options.plan.for_captioner(captioner)
        out = options.out or resources.enter_context(tempfile.TemporaryDirectory(prefix="narrated-"))
        of = identity(footage, captioner, options.plan, options.span)
        self._output = OutputFolder(Path(out), of, resume=options.resume)
        self.finished = self._output.finished
        self.narrations = self._output.narrations
        self._journals = {
            name: resources.enter_context(Journal(self._output.journal, name, fsync=options.out is not None))
            for name in self._footage
        }
        left = [
            replace(plan, name=each.camera, url=str(each.paths[0]))
            for each in footage
            if each.camera not in self.finished
        ]
        self._queue = WorkQueue([plan.name for plan in left], capacity=BATCH)
        store = EvidenceStore(self._output.evidence, fsync=False)
        keeper = EvidenceKeeper(store) if options.out else None
        self._narrator = Narrator(
            captioner, left, self._journals, live=False, evidence=keeper, counters=self._queue.counters
        )
        publisher = Publisher(options.redis_url) if options.redis_url else None
        self._publishing = Publishing(self._journals, publisher) if publisher else None
        self._threads = [CameraThread(plan, self._queue, self._open, span=options.span) for plan in left]

    def main_loop(self, progress: ReplayProgress) -> None:
        """Narrate camera after camera, each of which can be resumed behind once it is finished."""
        if self._publishing:
            self._publishing.loop.start()
        with ThreadPoolExecutor(1, "detector") as pool:
            for thread in self._threads:
                thread.loop.start()
                self._narrate(thread.plan.name, pool, progress)
                self._report(self._narrator.finish(thread.plan.name))
                self._output.finish_camera(thread.plan.name, self._outcome(thread))

    def _narrate(self, camera: str, pool: ThreadPoolExecutor, progress: ReplayProgress) -> None:
        """Narrate batch after batch; meanwhile, objects are detected in the next one."""
        ahead = deque[tuple[list[Work], Future[list[Detections | None]]]]()
        while ahead or not self._queue.ended(camera):
            if batch := self._queue.take_camera(BATCH, _LOOK_S if ahead else POLL_S):
                ahead.append((batch, pool.submit(self._narrator.detect, batch)))
            if ahead and (len(ahead) > 1 or ahead[0][1].done()):
                batch, detections = ahead.popleft()
                self._report(self._narrator.process(batch, detections.result()))
            if self._publishing:
                self._publishing.loop.raise_error()
            self._update(progress)

    def _update(self, progress: ReplayProgress) -> None:
        threads = self._threads
        read_s = sum(thread.read_s for thread in threads)
        known = [thread.duration_s for thread in threads if thread.duration_s is not None]
        # Footage that is not open yet is taken to be as long as the rest.
        total_s = max(sum(known) * len(threads) / len(known), read_s) if known else None
        ended = sum(thread.loop.started and not thread.loop.alive for thread in threads)
        progress.show(f"{ended} of {many(len(threads), 'camera')}", read_s, total_s, self.narrations)

    def _report(self, records: list[Record]) -> None:
        self.narrations += len(records)
        for record in records if self._options.out else ():
            self._output.records.setdefault(record.camera, []).append(record)
        # All are in the report by now: Ctrl-C costs lines on the terminal.
        show_records(records, {thread.plan.name: thread.first_time for thread in self._threads}, self._show)
        if self._publishing and records:
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
        self._report(self._narrator.finish())
        outcomes = self.finished | {thread.plan.name: self._outcome(thread) for thread in self._threads}
        problems += [line for outcome in outcomes.values() for line in outcome.problems]
        if failed := self._narrator.captioning.fallbacks.total():
            problems.append(
                f"{many(failed, 'narration')}: only where something changed, because the captioner failed"
            )
        limit_s = _INTERRUPTED_LIMIT_S if interrupted else _PUBLISH_LIMIT_S
        if self._publishing and not self._publishing.finish(limit_s):
            reasons = sorted(set(self._publishing.failing.values())) or ["the server did not answer in time"]
            problems += [f"not everything is published: {reason}" for reason in reasons]
        if self._options.out and self._options.report:
            if any(outcome.first for outcome in outcomes.values()):
                spans = {name: (o.first, o.last) for name, o in outcomes.items() if o.first and o.last}
                self._output.finish(self._head(outcomes, problems), spans, complete=not interrupted)
            else:
                self._output.discard()
        return problems

    def _left_out(self) -> str:
        """The footage that an interruption left out, in words."""
        threads = [thread for thread in self._threads if not self._queue.ended(thread.plan.name)]
        begun = [thread for thread in threads if thread.first_time]
        parts = [f"{thread.plan.name} after {format_offset(thread.read_s)}" for thread in begun]
        if unbegun := len(threads) - len(begun):
            parts.append(f"{unbegun} of {many(len(self._threads), 'camera')} altogether")
        left = f"interrupted, so incomplete: {', '.join(parts) or 'the end'} was not narrated"
        return f"{left}; --resume continues" if self._options.out else left

    def _head(self, outcomes: Mapping[str, Outcome], problems: list[str]) -> Head:
        plan, names = self._options.plan, list(self._footage)
        footage = [str(p) for each in self._footage.values() for p in each.paths[:_PATHS_SHOWN]]
        bounds = [("lower", plan.lower), ("upper", plan.upper)]
        thresholds = ", ".join(f"{k} auto" if v is None else f"{k} {v:g}" for k, v in bounds)
        repeated = sum(sum(outcome.unreported.values()) for outcome in outcomes.values())
        sentences = counted(repeated, "sentence")
        again = (
            [tell("Repetition of what was reported: {sentences}.", sentences=sentences)] if repeated else []
        )
        cameras = names[0] if len(names) == 1 else counted(len(names), "camera")
        return Head(
            title=tell("What changed: {cameras}", cameras=cameras),
            facts=(
                (_("Footage"), ", ".join(footage)),
                (_("Length looked at"), format_offset(sum(outcome.read_s for outcome in outcomes.values()))),
            ),
            missing=[*problems, *again],
            audit=(
                (_("Sampled"), f"{plan.source.sample_hz:g}/s, thresholds {thresholds}"),
                (_("Captioner"), f"{self._captioner.name}, {self._captioner.sha256[:12]}"),
            ),
        )

    def _outcome(self, thread: CameraThread) -> Outcome:
        if thread.loop.error is not None:
            problems = [format_error(thread.loop.error)]
        else:
            problems = list(thread.report.errors)
            if corrupt := thread.report.corrupt:
                problems.append(f"{thread.plan.url}: {corrupt} damaged frames or packets were skipped")
        return Outcome(
            first=thread.first_time,
            last=thread.last_time,
            read_s=thread.read_s,
            problems=tuple(problems),
            unreported=self._narrator.unreported(thread.plan.name),
        )

    def _open(self, plan: CameraPlan) -> Source:
        return open_files(self._footage[plan.name].paths, plan.source, plan.name)


@contextmanager
def _without_interruption() -> Iterator[None]:
    """Ignore Ctrl-C: a second one, while files are finished, must not leave half of one."""
    is_main = threading.current_thread() is threading.main_thread()  # no other thread gets signals
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
