"""Options of the verbs that select narrations."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from daemon.commands.options import Cameras, Journals, Pictures, TimeZone
from daemon.config.state import usual_state
from daemon.questions.local_time import LocalTime, parse_time_of_day
from daemon.questions.question import (
    Filters,
    Measure,
    NoJournalsError,
    Question,
    SearchError,
    Span,
    merged,
)
from daemon.questions.restatement import restate
from daemon.search.folders import default_state, journal_folder
from daemon.search.search import Search

_PROGRESS_EVERY = 20_000
_FAILED, _USAGE = 1, 2

_Words = Annotated[list[str] | None, typer.Argument(help="A question in plain English; see docs/query.md.")]
_StateOf = Annotated[
    Path | None, typer.Option("-c", "--config", help="Configuration file that names the state folder.")
]
_Zones = Annotated[list[str] | None, typer.Option(help='Reported there: entrance, "on the left".')]
_Objects = Annotated[
    list[str] | None, typer.Option("--object", help="person, car, vehicle, somebody, ...; also plurals.")
]
_Kinds = Annotated[list[str] | None, typer.Option(help="came, left, moved, appeared, light_changed, ...")]
_Colours = Annotated[list[str] | None, typer.Option("--colour", "--color", help="Colour of the object.")]
_Text = Annotated[str, typer.Option(help='Words of the sentence: driv*, "driven off".')]
_Confidence = Annotated[float | None, typer.Option(min=0, max=1, help="Lowest confidence, 0 to 1.")]
_Since = Annotated[str | None, typer.Option(help="7d, 90m, yesterday, monday, 2026-05-01, 2026-05-01T22:00.")]
_Until = Annotated[str | None, typer.Option(help="Before then; written like --since.")]
_Between = Annotated[
    tuple[str, str] | None, typer.Option(help="Hours of the day; may cross midnight: 22:00 06:00.")
]
_Last = Annotated[bool, typer.Option("--last", help="Only the newest, or the --limit newest.")]
_First = Annotated[bool, typer.Option("--first", help="Only the oldest, or the --limit oldest.")]
_Limit = Annotated[int | None, typer.Option(min=0, help="At most this many, the newest; 0: all.")]


@dataclass(frozen=True, slots=True)
class Selection:
    """The options that choose narrations, as they were given."""

    question: _Words = None
    journal: Journals = None
    config: _StateOf = None
    camera: Cameras = None
    zone: _Zones = None
    thing: _Objects = None
    kind: _Kinds = None
    colour: _Colours = None
    text: _Text = ""
    confidence: _Confidence = None
    since: _Since = None
    until: _Until = None
    between: _Between = None
    last: _Last = False
    first: _First = False
    limit: _Limit = None
    timezone: TimeZone = None
    evidence: Pictures = None

    @contextmanager
    def search(self, *, count: bool = False, by: tuple[str, ...] = ()) -> Iterator[tuple[Search, Question]]:
        """The journals, caught up with, and the question to them; what should be known goes to stderr.

        What cannot be answered ends the command with a line and an exit code.
        """
        with complaints():
            local, now = LocalTime.named(self.timezone), present()
            asked = self._options(local, now, count=count, by=by)
            folder = journal_folder(self.journal or self._state())
            with Search(folder, local, self.evidence, _progress()) as search:
                _look(search)
                if self.question:
                    asked = merged(asked, search.asker().read(" ".join(self.question), now))
                    typer.echo(f"understood as: {restate(asked, local)}", err=True)
                yield search, asked

    def _options(self, local: LocalTime, now: datetime, *, count: bool, by: tuple[str, ...]) -> Question:

        if self.first and self.last:
            raise SearchError("--first and --last: give one of them")
        hours = self.between and (parse_time_of_day(self.between[0]), parse_time_of_day(self.between[1]))
        filters = Filters(
            cameras=tuple(self.camera or ()),
            zones=tuple(self.zone or ()),
            objects=tuple(self.thing or ()),
            kinds=tuple(self.kind or ()),
            colours=tuple(self.colour or ()),
            text=self.text,
            confidence=self.confidence,
        )
        span = Span(
            since=local.parse(self.since, now) if self.since else None,
            until=local.parse(self.until, now) if self.until else None,
            between=hours or None,
        )
        measure = Measure(
            "last" if self.last else "first" if self.first else "all",
            self.limit,
            count=count or bool(by),
            by=by,
        )
        return Question(filters, span, measure)

    def _state(self) -> Path:
        if self.config is None:
            return default_state(usual_state())
        from daemon.config.configuration import load_configuration  # noqa: PLC0415 - half of the time to start

        return load_configuration(self.config).state


def takes_selection(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of `Selection`; it takes them as its first argument."""
    hints = get_type_hints(Selection, include_extras=True)
    names = [field.name for field in fields(Selection)]
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(Selection)
    ]
    _, *own = inspect.signature(verb, eval_str=True).parameters.values()

    def command(**given: Any) -> None:
        verb(Selection(**{name: given.pop(name) for name in names}), **given)

    command.__doc__ = verb.__doc__
    command.__signature__ = inspect.Signature([*options, *own])  # type: ignore[attr-defined]
    return command


@contextmanager
def complaints() -> Iterator[None]:
    """End the command with a line where something cannot be answered; redacting would load the decoders."""
    try:
        yield
    except SearchError as error:
        complain(str(error))
        raise typer.Exit(_FAILED if isinstance(error, NoJournalsError) else _USAGE) from None


def present() -> datetime:
    """Now; tests replace it."""
    return datetime.now(UTC)


def complain(text: str) -> None:
    """Say something on stderr."""
    typer.echo(f"narrated: {text}", err=True)


def _look(search: Search) -> None:
    look = search.look()
    if sys.stderr.isatty() and look.records >= _PROGRESS_EVERY:
        typer.echo("", err=True)
    if search.notice:
        complain(search.notice)
    for name, reason in look.left_out.items():
        complain(f"{search.folder / name} is left out: {reason}")
    for fault in search.faults():
        complain(f"does not verify: {fault}")


def _progress() -> Callable[[int], None]:
    """Shows how far the index is, on a terminal."""
    shown = 0

    def show(records: int) -> None:
        nonlocal shown
        if records - shown >= _PROGRESS_EVERY and sys.stderr.isatty():
            shown = records
            sys.stderr.write(f"\rnarrated: reading the journals into the index, {records:,} records")
            sys.stderr.flush()

    return show
