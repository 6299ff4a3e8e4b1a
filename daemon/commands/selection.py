"""What verbs share that choose narrations: the options of `narrated query`, and how they are understood."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from daemon.config.state import usual_state
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

if TYPE_CHECKING:
    from daemon.questions.local_time import LocalTime
    from daemon.search.search import Search

_TOLD_EVERY = 20_000
_FAILED, _USAGE = 1, 2

Words = Annotated[list[str] | None, typer.Argument(help="A question in plain English; see docs/query.md.")]
StateOf = Annotated[
    Path | None, typer.Option("-c", "--config", help="Configuration file that names the state folder.")
]
Cameras = Annotated[list[str] | None, typer.Option(help="Only this camera; may be given several times.")]
Zones = Annotated[list[str] | None, typer.Option(help='Reported there: entrance, "on the left".')]
Objects = Annotated[
    list[str] | None, typer.Option("--object", help="person, car, vehicle, somebody, ...; also plurals.")
]
Kinds = Annotated[list[str] | None, typer.Option(help="came, left, moved, appeared, light_changed, ...")]
Colours = Annotated[list[str] | None, typer.Option("--colour", "--color", help="Colour of the object.")]
Text = Annotated[str, typer.Option(help='Words of the sentence: driv*, "driven off".')]
Confidence = Annotated[float | None, typer.Option(min=0, max=1, help="Lowest confidence, 0 to 1.")]
Since = Annotated[str | None, typer.Option(help="7d, 90m, yesterday, monday, 2026-05-01, 2026-05-01T22:00.")]
Until = Annotated[str | None, typer.Option(help="Before then; written like --since.")]
Between = Annotated[
    tuple[str, str] | None, typer.Option(help="Hours of the day; may cross midnight: 22:00 06:00.")
]
Last = Annotated[bool, typer.Option("--last", help="Only the newest, or the --limit newest.")]
First = Annotated[bool, typer.Option("--first", help="Only the oldest, or the --limit oldest.")]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Rebuild the index first.")]


@dataclass(frozen=True, slots=True)
class Given:
    """The options above as they were given, but for the place, see there."""

    camera: Sequence[str] | None
    zone: Sequence[str] | None
    thing: Sequence[str] | None
    kind: Sequence[str] | None
    colour: Sequence[str] | None
    text: str
    confidence: float | None
    since: str | None
    until: str | None
    between: tuple[str, str] | None
    last: bool
    first: bool
    limit: int | None

    def question(self, local: LocalTime, now: datetime) -> Question:
        """What they ask.

        Raises:
            SearchError: a value is none, or two contradict each other.
        """
        from daemon.questions.local_time import parse_time_of_day  # noqa: PLC0415

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
        order: Literal["last", "first", "all"] = "last" if self.last else "first" if self.first else "all"
        return Question(filters, span, Measure(order, self.limit))


@contextmanager
def opened_search(
    journal: Path | None, config: Path | None, local: LocalTime, evidence: Path | None, *, rebuild: bool
) -> Iterator[Search]:
    """The journals that the options mean, caught up with; what should be known of them goes to stderr.

    Raises:
        NoJournalsError: there are none.
    """
    from daemon.search.search import Search  # noqa: PLC0415

    with Search(journal_folder(journal or _state(config)), local, evidence, _progress()) as search:
        if rebuild:
            search.index.rebuild()
        _look(search)
        yield search


def understood(search: Search, words: Sequence[str], given: Question, now: datetime) -> Question:
    """The question in words, with the options beside it; how it was understood goes to stderr."""
    asked = merged(given, search.asker().read(" ".join(words), now))
    typer.echo(f"understood as: {restate(asked, search.local)}", err=True)
    return asked


@contextmanager
def complaints() -> Iterator[None]:
    """What cannot be answered is told in our own words; to redact it would load the decoders."""
    try:
        yield
    except SearchError as error:
        complain(str(error))
        raise typer.Exit(_FAILED if isinstance(error, NoJournalsError) else _USAGE) from None


def present() -> datetime:
    """The time at which is asked."""
    return datetime.now(UTC)


def complain(text: str) -> None:
    """Say something on stderr."""
    typer.echo(f"narrated: {text}", err=True)


def _state(config: Path | None) -> Path:
    if config is None:
        return default_state(usual_state())
    from daemon.config.configuration import load_configuration  # noqa: PLC0415 - half of the time to start

    return load_configuration(config).state


def _look(search: Search) -> None:
    look = search.look()
    if sys.stderr.isatty() and look.records >= _TOLD_EVERY:
        typer.echo("", err=True)
    if search.notice:
        complain(search.notice)
    for name, reason in look.left_out.items():
        complain(f"{search.folder / name} is left out: {reason}")
    for fault in search.faults():
        complain(f"does not verify: {fault}")


def _progress() -> Callable[[int], None]:
    """Tells how far the index is, on a terminal."""
    shown = 0

    def told(records: int) -> None:
        nonlocal shown
        if records - shown >= _TOLD_EVERY and sys.stderr.isatty():
            shown = records
            sys.stderr.write(f"\rnarrated: reading the journals into the index, {records:,} records")
            sys.stderr.flush()

    return told
