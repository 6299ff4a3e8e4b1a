"""Options of the verbs that select narrations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Argument, Option

from daemon.commands.options import FAILED, USAGE, Cameras, Journals, OptionalFile, TimeZone, warn
from daemon.config.units import usual_state
from daemon.questions.question import LocalTime, NoJournalsError, Question, SearchError, question_of
from daemon.questions.restatement import restate
from daemon.search.index import default_state, journal_folder
from daemon.search.search import Search

if TYPE_CHECKING:
    from daemon.config.settings import Configuration
    from pipeline.sources import Polygon


Words = list[str] | None


@dataclass(frozen=True)
class Selection:
    """The options and the question that choose narrations, as they were given."""

    question: Annotated[Words, Argument(help="A question in plain English; see docs/query.md.")] = None
    journal: Journals = None
    config: OptionalFile = None
    camera: Cameras = None
    since: Annotated[str | None, Option(help="From then on: 7d, yesterday, monday, 2026-05-01T22:00.")] = None
    until: Annotated[str | None, Option(help="Before then; same format as --since.")] = None
    timezone: TimeZone = None

    @contextmanager
    def search(self, **measure: Any) -> Iterator[tuple[Search, Question]]:
        """The journals, caught up with, and the question to them; `measure` are options of `question_of`."""
        with errors_as_exits():
            local, now = self.local, present()
            options = {field.name: getattr(self, field.name) for field in fields(self)}
            with Search(self.folder, local, self._places()) as search, search.mending():
                _update(search)
                words = " ".join(self.question or ())
                asked = search.asker().read(words, now) if words else Question()
                asked = question_of(options | measure, local, now, asked)
                if words:
                    typer.echo(f"understood as: {restate(asked, local)}", err=True)
                yield search, asked

    def privacy(self) -> dict[str, tuple[Polygon, ...]]:
        cameras = self._configuration.cameras if self._configuration else {}
        return {name: tuple(camera.privacy.values()) for name, camera in cameras.items()}

    @property
    def folder(self) -> Path:
        state = self._configuration.state if self._configuration else default_state(usual_state())
        return journal_folder(self.journal or state)

    @property
    def local(self) -> LocalTime:
        written = self._configuration.timezone if self._configuration else None
        return LocalTime.named(self.timezone or written)

    def _places(self) -> Iterable[str]:
        if not self._configuration:
            return ()
        from daemon.rules.rule import places_of  # noqa: PLC0415 - as below

        return places_of(self._configuration.cameras.values())

    @cached_property
    def _configuration(self) -> Configuration | None:
        if self.config is None:
            return None
        from daemon.config.configuration import load_configuration  # noqa: PLC0415 - half of the time to start

        return load_configuration(self.config)


@dataclass(frozen=True)
class Filters(Selection):
    zone: Annotated[Words, Option(help='Reported at this place: entrance, "on the left".')] = None
    object: Annotated[Words, Option(help="person, car, vehicle, somebody, ...; also plurals.")] = None
    kind: Annotated[Words, Option(help="came, left, moved, appeared, light_changed, ...")] = None
    colour: Annotated[Words, Option("--colour", "--color", help="Colour of the object.")] = None
    text: Annotated[str, Option(help='Words in the sentence: driv*, "driven off".')] = ""
    confidence: Annotated[float | None, Option(min=0, max=1, help="Minimum confidence, 0 to 1.")] = None
    between: Annotated[tuple[str, str] | None, Option(help="Hours of the day, such as 22:00 06:00.")] = None
    last: Annotated[bool, Option("--last", help="Only the newest, or the --limit newest.")] = False
    first: Annotated[bool, Option("--first", help="Only the oldest, or the --limit oldest.")] = False
    limit: Annotated[int | None, Option(min=0, help="Only the newest N; 0 means all.")] = None


def takes_selection(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of the `Selection` that is its first argument."""
    first, *own = inspect.signature(verb, eval_str=True).parameters.values()
    kind = first.annotation
    hints = get_type_hints(kind, include_extras=True)
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(kind)
    ]

    def command(**given: Any) -> None:
        verb(kind(**{option.name: given.pop(option.name) for option in options}), **given)

    command.__doc__ = verb.__doc__
    command.__signature__ = inspect.Signature([*options, *own])  # type: ignore[attr-defined]
    return command


@contextmanager
def errors_as_exits() -> Iterator[None]:
    """End the command with a line where a question cannot be answered."""
    try:
        yield
    except SearchError as error:
        warn(str(error))
        raise typer.Exit(FAILED if isinstance(error, NoJournalsError) else USAGE) from None


def present() -> datetime:
    """Now; tests replace it."""
    return datetime.now(UTC)


def _update(search: Search) -> None:
    for name, reason in search.update().items():
        warn(f"{search.folder / name} is left out: {reason}")
    for fault in search.index.faults():
        warn(f"does not verify: {fault}")
