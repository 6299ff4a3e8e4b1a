"""`narrated replay`: archives in, narrations out, as fast as the machine allows; the same at every run."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from daemon.config.plan import CameraPlan
from daemon.replay.files import Outcome, OutputFolder, ReplayInput, identity, locked
from daemon.threads.camera_narrator import EvidenceKeeper
from daemon.threads.cameras import CameraThread, Span, format_error
from daemon.threads.narrator import Narrator
from daemon.threads.publication import Publishing
from daemon.threads.work_queue import POLL_S, WorkQueue
from models.captioner import Captioner
from models.language.catalogue import _, tell
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal
from pipeline.publisher import RedisServer
from pipeline.record import Record
from pipeline.report.page import Head
from pipeline.report.words import counted, format_offset, many
from pipeline.sources import open_files

BATCH = 4  # frames and pairs of a camera narrated together; one more batch waits with its pictures
_PUBLISH_LIMIT_S, _INTERRUPTED_LIMIT_S = 60.0, 5.0
_PATHS_SHOWN = 20
_LOOK_S = 0.02  # longest wait for another batch while objects are detected in one

Elsewhere = Iterator[tuple[str, Outcome, dict[str, bytes]]]


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    plan: CameraPlan  # settings of every camera; its name and URL are not used
    span: Span = field(default_factory=Span)  # the part of each camera's footage to narrate
    redis_url: str = ""  # of the server that narrations are published to; empty publishes none
    out: Path | None = None  # folder of the journal, subtitles and report; None writes none
    resume: bool = False  # continue an interrupted replay in `out`
    states: Mapping[str, bytes] = field(default_factory=dict)  # what cameras had learnt, see `CameraMemory`
    # narrates cameras on other machines until the event is set: the name of each that is finished, its
    # outcome, and the contents of its journal and pictures by their paths in `out`. What it leaves is
    # narrated here
    elsewhere: Callable[[Sequence[ReplayInput], ReplayOptions, threading.Event], Elsewhere] | None = None


@dataclass(frozen=True, slots=True)
class ReplayReport:
    narrations: int  # records journalled, also by the replay that was resumed
    problems: tuple[str, ...]  # one line per input not read (entirely) or published, and of an interruption
    interrupted: bool
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)  # of the finished cameras


class ReplayProgress(Progress):
    """Progress of a replay: one bar on stderr, on a terminal only; a context manager around it.

    `line` is that of a record on stdout, so many seconds after the first frame; None writes none.
    """

    def __init__(self, console: Console, line: Callable[[Record, float], str] | None = None) -> None:
        super().__init__(
            console=console,
            transient=True,
            disable=not console.is_terminal,
            redirect_stdout=False,  # narrations that are piped somewhere must not end up on the terminal
        )
        self.add_task("reading", total=None)
        self._line = line

    def show(self, record: Record, offset_s: float) -> None:
        if self._line:
            self.write(self._line(record, offset_s))

    def write(self, line: str) -> None:
        """Print a line to stdout: above the bar where both are on a terminal; from any thread."""
        if self.console.is_terminal and sys.stdout.isatty():
            self.console.print(Text(line), soft_wrap=True)
            return
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def replay(
    footage: Sequence[ReplayInput],
    captioner: Captioner,
    options: ReplayOptions,
    progress: ReplayProgress,
    stop: threading.Event,
) -> ReplayReport:
    """Narrate footage, until `stop` is set: what was narrated until then is written and published."""
    with ExitStack() as resources:
        run = _Replay(footage, captioner, options, progress, stop, resources)
        run.main_loop()
        interrupted = stop.is_set()
        problems = run.shutdown(interrupted=interrupted)
        return ReplayReport(run.narrations, tuple(problems), interrupted, run.output.finished)


@dataclass(eq=False)
class _Replay:
    footage: Sequence[ReplayInput]
    captioner: Captioner
    options: ReplayOptions
    progress: ReplayProgress
    stop: threading.Event
    resources: ExitStack

    def __post_init__(self) -> None:
        footage, captioner, options = self.footage, self.captioner, self.options
        self._journals = dict[str, Journal]()
        out = options.out or self.resources.enter_context(tempfile.TemporaryDirectory(prefix="narrated-"))
        self.resources.enter_context(locked(Path(out)))
        of = identity(footage, captioner, options.plan, options.span, options.states)
        self.output = OutputFolder(Path(out), of, resume=options.resume)
        self.narrations = sum(map(len, self.output.records.values()))
        self._outcomes = self.output.finished.copy()  # also of a camera that was interrupted
        for name in self._outcomes:
            self._open_journal(name)
        store = EvidenceStore(self.output.evidence, fsync=False)
        self._keeper = EvidenceKeeper(store) if options.out else None
        self._narrator = Narrator(
            captioner, [], self._journals, live=False, evidence=self._keeper, states=options.states
        )
        self.resources.callback(self._narrator.detecting.shutdown)
        server = RedisServer(options.redis_url) if options.redis_url else None
        self._publishing = Publishing(self._journals, server) if server else None

    def main_loop(self) -> None:
        if self._publishing:
            self._publishing.loop.start()
        left = [each for each in self.footage if each.camera not in self.output.finished]
        elsewhere = self.options.elsewhere
        for name, outcome, files in elsewhere(left, self.options, self.stop) if elsewhere else ():
            records = self.output.adopt(name, outcome, files)
            self._outcomes[name] = outcome
            self._open_journal(name)
            self._report(records, outcome.first)
            self._update(0.0)
        for each in left:
            if each.camera not in self.output.finished and not self.stop.is_set():
                self._narrate(each)

    def _open_journal(self, name: str) -> None:
        journal = Journal(self.output.journal, name, fsync=self.options.out is not None)
        self._journals[name] = self.resources.enter_context(journal)

    def _narrate(self, footage: ReplayInput) -> None:
        """Narrate batch after batch of a camera; meanwhile, objects are detected in the next one."""
        name, paths = footage.camera, footage.paths
        plan = replace(self.options.plan.for_captioner(self.captioner), name=name, url=str(paths[0]))
        queue = WorkQueue([name], capacity=BATCH)
        self._open_journal(name)
        self._narrator.add(plan)
        thread = CameraThread(
            plan, queue, lambda plan: open_files(paths, plan.source, name), span=self.options.span
        )
        thread.loop.start()
        ahead = self._narrator.ahead
        while not self.stop.is_set() and (ahead or not queue.is_exhausted):
            if batch := queue.take_full(BATCH, _LOOK_S if ahead else POLL_S):
                self._narrator.detect_ahead(batch)
            if ahead and (len(ahead) > 1 or ahead[0][1].done()):
                self._report(self._narrator.process_next(), thread.first_time)
            if self._publishing:
                self._publishing.loop.raise_error()
            self._update(thread.read_s / thread.duration_s if thread.duration_s else 0.0)
        finished = not ahead and queue.is_exhausted
        queue.close()
        thread.stop()
        thread.loop.join(_PUBLISH_LIMIT_S)
        queue.abandon()
        self._report(self._narrator.finish(name, ended=finished), thread.first_time)
        self._outcomes[name] = self._outcome(thread)
        self._narrator.remove(name)
        if finished:
            self.output.finish_camera(name, self._outcomes[name])

    def _update(self, share: float) -> None:
        done, every = len(self._outcomes), len(self.footage)
        words = f"{many(self.narrations, 'narration')}, {done} of {many(every, 'camera')}"
        total = every if share or done else None
        task = self.progress.task_ids[0]
        self.progress.update(task, completed=done + share, total=total, description=words)

    def _report(self, records: Sequence[Record], begin: datetime | None) -> None:
        self.narrations += len(records)
        for record in records:
            if self.options.out:
                self.output.records.setdefault(record.camera, []).append(record)
            if not record.held:
                offset = record.after.moment - (begin or record.before.moment)
                self.progress.show(record, offset.total_seconds())
        if self._publishing and records:
            self._publishing.loop.wake()

    def shutdown(self, *, interrupted: bool) -> list[str]:
        problems = [self._left_out()] if interrupted else []
        outcomes = {each.camera: self._outcomes.get(each.camera) for each in self.footage}
        problems += [line for outcome in outcomes.values() if outcome for line in outcome.problems]
        read = [(o.first, o.last) for o in outcomes.values() if o and o.first and o.last]
        if read and all(last < (self.options.span.since(first)[0] or last) for first, last in read):
            problems.append("all footage ends before --from")
        limit_s = _INTERRUPTED_LIMIT_S if interrupted else _PUBLISH_LIMIT_S
        if self._publishing and not self._publishing.finish(limit_s):
            reasons = sorted(set(self._publishing.failing.values())) or ["the server did not answer in time"]
            problems += [f"not everything is published: {reason}" for reason in reasons]
        if self.options.out:
            spans = {n: (o.first, o.last) for n, o in outcomes.items() if o and o.first and o.last}
            if spans:
                self.output.finish(self._head(problems), spans, complete=not interrupted)
            else:
                self.output.discard()
        return problems

    def _left_out(self) -> str:
        begun = self._outcomes.keys() - self.output.finished.keys()
        parts = [f"{name} after {format_offset(self._outcomes[name].read_s)}" for name in begun]
        if unbegun := len(self.footage) - len(self._outcomes):
            parts.append(f"{unbegun} of {many(len(self.footage), 'camera')} altogether")
        left = f"interrupted, so incomplete: {', '.join(parts) or 'the end'} was not narrated"
        return f"{left}; --resume continues" if self.options.out else left

    def _head(self, problems: Sequence[str]) -> Head:
        names = [each.camera for each in self.footage]
        paths = [str(path) for each in self.footage for path in each.paths[:_PATHS_SHOWN]]
        again = counted(repeated := sum(each.repeated for each in self._outcomes.values()), "sentence")
        repetition = [tell("Repetition of what was reported: {sentences}.", sentences=again)]
        read_s = sum(each.read_s for each in self._outcomes.values())
        cameras = names[0] if len(names) == 1 else counted(len(names), "camera")
        return Head(
            title=tell("What changed: {cameras}", cameras=cameras),
            facts=((_("Footage"), ", ".join(paths)), (_("Length looked at"), format_offset(read_s))),
            missing=[*problems, *(repetition if repeated else ())],
            audit=((_("Sampled"), f"{self.options.plan.source.sample_hz:g}/s"),),
        )

    def _outcome(self, thread: CameraThread) -> Outcome:
        name, failed = thread.plan.name, self._narrator.captioning.fallbacks[thread.plan.name]
        problems = [format_error(thread.loop.error)] if thread.loop.error else list(thread.report.errors)
        if (corrupt := thread.report.corrupt) and not thread.loop.error:
            problems.append(f"{thread.plan.url}: {corrupt} damaged frames or packets were skipped")
        if failed:
            what = "only where something changed, because the captioner failed"
            problems.append(f"{name}: {many(failed, 'narration')}: {what}")
        if missed := self._narrator.missed[name]:
            problems.append(f"{name}: {many(missed, 'frame')} not analysed, because the captioner failed")
        if self._keeper and self._keeper.failed:
            problems.append(f"{name}: {many(self._keeper.failed, 'narration')} without pictures, not stored")
            self._keeper.failed = 0
        return Outcome(
            first=thread.first_time,
            last=thread.last_time,
            read_s=thread.read_s,
            problems=tuple(each.encode(errors="replace").decode() for each in problems),
            repeated=self._narrator.unreported(name).total(),
        )
