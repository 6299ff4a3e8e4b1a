"""The verb that asks the journals: query, also called search."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from daemon.commands.options import Json
from daemon.config.configuration import load_configuration
from daemon.config.settings import Configuration
from daemon.search.errors import NoJournalsError, SearchError
from daemon.search.filters import GROUPINGS, Filters, Question, merged, options_of
from daemon.search.folders import default_state, journal_folder

if TYPE_CHECKING:
    from daemon.search.found import FoundRecord
    from daemon.search.local_time import LocalTime
    from daemon.search.search import Search

_SHOWN = 50
_TOLD_EVERY = 20_000
_EVERY_S = 0.5
_FAILED, _USAGE = 1, 2


class OutputFormat(StrEnum):
    """How an answer looks."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    SRT = "srt"
    VTT = "vtt"
    HTML = "html"


Words = Annotated[list[str] | None, typer.Argument(help="A question in plain English; see docs/query.md.")]


def query(
    question: Words = None,
    *,
    journal: Annotated[
        Path | None,
        typer.Option(
            "-j", "--journal", help="Folder of journals, or a replay's --out; else the state folder."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="Take the state folder from it.")
    ] = None,
    camera: Annotated[
        list[str] | None, typer.Option(help="Only this camera; several are alternatives.")
    ] = None,
    zone: Annotated[list[str] | None, typer.Option(help='Told to be there: entrance, "on the left".')] = None,
    thing: Annotated[
        list[str] | None, typer.Option("--object", help="person, car, vehicle, somebody, ...; also plurals.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="came, left, moved, appeared, light_changed, ...")
    ] = None,
    colour: Annotated[list[str] | None, typer.Option("--colour", "--color", help="Of the object.")] = None,
    text: Annotated[str, typer.Option(help='Words of the sentence: driv*, "driven off".')] = "",
    confidence: Annotated[float | None, typer.Option(min=0, max=1, help="At least so sure.")] = None,
    since: Annotated[
        str | None, typer.Option(help="7d, 90m, yesterday, monday, 2026-05-01, 2026-05-01T22:00.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before then; written like --since.")] = None,
    between: Annotated[
        tuple[str, str] | None, typer.Option(help="Hours of the day, over midnight too: 22:00 06:00.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest alone, or the newest of --limit.")] = False,
    first: Annotated[
        bool, typer.Option("--first", help="The oldest alone, or the oldest of --limit.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, help="So many at most; 0 is all. A table shows the newest 50.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Count them.")] = False,
    by: Annotated[list[str] | None, typer.Option(help=f"Count by {', '.join(GROUPINGS)}.")] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    shape: Annotated[
        OutputFormat, typer.Option("--format", help="How the answer looks.")
    ] = OutputFormat.TABLE,
    json: Json = False,
    pictures: Annotated[bool, typer.Option("--pictures", help="Name the pictures in the table.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the answer there.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Of days and hours; else this machine's.")] = None,
    evidence: Annotated[
        Path | None, typer.Option(help="Folder of the pictures; else evidence in or beside the journal's.")
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build the index anew first.")] = False,
) -> None:
    """Ask what was narrated: with filters, or in plain English."""
    shape = OutputFormat.JSONL if json else shape
    with _complaints():
        from daemon.search.local_time import LocalTime  # noqa: PLC0415
        from daemon.search.search import Search  # noqa: PLC0415
        from daemon.search.time_of_day import parse_time_of_day  # noqa: PLC0415

        local, now = LocalTime.named(timezone), _now()
        filters = Filters(
            cameras=tuple(camera or ()),
            zones=tuple(zone or ()),
            objects=tuple(thing or ()),
            kinds=tuple(kind or ()),
            colours=tuple(colour or ()),
            text=text,
            confidence=confidence,
            since=local.parse(since, now) if since else None,
            until=local.parse(until, now) if until else None,
            between=(parse_time_of_day(between[0]), parse_time_of_day(between[1])) if between else None,
        )
        given = Question(filters, "last" if last else "first" if first else "all", limit, count or bool(by))
        given = replace(given, by=_groupings(by or ()))
        _check(given, shape, follow=follow, both=first and last)
        folder = journal_folder(journal or _state(config))
        with Search.opened(folder, local, evidence, _progress()) as search:
            if rebuild:
                search.index.rebuild()
            _look(search)
            asked = _understood(search, " ".join(question), given, now) if question else given
            with _written(out) as file:
                if asked.count:
                    _tell_counts(search, asked, shape, file)
                    return
                _tell(search, asked, shape, file, pictures=pictures, follow=follow)
                if follow:
                    _follow(search, asked, shape, file, pictures=pictures)


def _state(config: Path | None) -> Path:
    usual = Configuration.model_fields["state"].get_default(call_default_factory=True)
    return load_configuration(config).state if config else default_state(usual)


def _groupings(by: Iterable[str]) -> tuple[str, ...]:
    names = tuple("colour" if name == "color" else name for name in by)
    for name in names:
        if name not in GROUPINGS:
            raise SearchError(f"--by {name}: write one of {', '.join(GROUPINGS)}")
    return names


def _check(question: Question, shape: OutputFormat, *, follow: bool, both: bool) -> None:
    """Refuse what cannot be done at the same time."""
    if both:
        raise SearchError("--first and --last: give one of them")
    if follow and shape not in (OutputFormat.TABLE, OutputFormat.JSONL):
        raise SearchError(f"--follow with --format {shape} has no end: write table or jsonl")
    if follow and question.count:
        raise SearchError("--follow cannot count: leave one of them out")
    if question.count and shape in (OutputFormat.SRT, OutputFormat.VTT, OutputFormat.HTML):
        raise SearchError(f"counts have no --format {shape}: write table, jsonl or csv")


def _look(search: Search) -> None:
    """Catch up, and say what should be known."""
    look = search.look()
    if sys.stderr.isatty() and look.records >= _TOLD_EVERY:
        typer.echo("", err=True)
    if search.said:
        _say(search.said)
    for name, reason in look.left_out.items():
        _say(f"{search.folder / name} is left out: {reason}")
    for fault in search.faults():
        _say(f"does not verify: {fault}")


def _understood(search: Search, words: str, given: Question, now: datetime) -> Question:
    """The question in words, with the options beside it; how it was understood goes to stderr."""
    asked = merged(given, search.asker().read(words, now))
    typer.echo(f"understood as: narrated query {options_of(asked, search.local)}", err=True)
    for zone in asked.filters.zones:
        if not search.selection.tells_of(zone):
            _say(f"no narration tells of a place {zone!r}")
    return asked


def _tell_counts(search: Search, question: Question, shape: OutputFormat, file: TextIO) -> None:
    from daemon.search import output  # noqa: PLC0415
    from daemon.search.counts import Group  # noqa: PLC0415

    groups = search.count(question)
    if not question.by and not groups:
        groups = [Group((), 0, 0)]
    writers = {OutputFormat.JSONL: output.count_json, OutputFormat.CSV: output.count_comma_separated}
    _write(file, writers.get(shape, output.count_table)(groups, question.by))
    if not groups:
        typer.echo("nothing was found", err=True)


def _tell(
    search: Search, question: Question, shape: OutputFormat, file: TextIO, *, pictures: bool, follow: bool
) -> None:
    from daemon.search import output  # noqa: PLC0415

    if shape is OutputFormat.TABLE and not follow and question.order == "all":
        answer = search.answer(question, _SHOWN)
    else:
        answer = search.answer(question, _SHOWN if follow else None)
    found = answer.found
    if shape in (OutputFormat.SRT, OutputFormat.VTT):
        write = output.plain_subtitles if shape is OutputFormat.SRT else output.web_subtitles
        file.write(write(list(found), question.filters.since))
    elif shape is OutputFormat.HTML:
        file.writelines(_page(search, question, found, answer.shown))
    else:
        _write(file, _lines(found, search.local, shape, pictures=pictures))
    if not answer.shown and not follow:
        typer.echo("nothing was found", err=True)
    elif answer.more and question.order == "all" and not follow:
        typer.echo(
            f"these are the newest {answer.shown} (--limit 0 shows all, --count counts them)", err=True
        )
    if search.reader.gone:
        _say(f"{search.reader.gone} of them were deleted by retention meanwhile")
    if search.reread():
        _say("a journal was changed since it was read; ask again, and `narrated verify` says more")


def _page(search: Search, question: Question, found: Iterable[FoundRecord], shown: int) -> Iterator[str]:
    from daemon.search.output import local_words  # noqa: PLC0415
    from daemon.search.page import page  # noqa: PLC0415

    facts = [
        ("Asked", options_of(question, search.local) or "everything"),
        ("Found", f"{shown:,}"),
        ("Journals", str(search.folder)),
        ("Written", local_words(_now(), search.local)),
    ]
    return page("What was narrated", facts, search.faults(), found, search.local)


def _lines(
    found: Iterable[FoundRecord], local: LocalTime, shape: OutputFormat, *, pictures: bool
) -> Iterator[str]:
    from daemon.search import output  # noqa: PLC0415

    if shape is OutputFormat.CSV:
        return output.comma_separated(found, local)
    if shape is OutputFormat.JSONL:
        return output.json_lines(found, local)
    return output.table(found, local, pictures=pictures)


def _follow(search: Search, question: Question, shape: OutputFormat, file: TextIO, *, pictures: bool) -> None:
    stop = threading.Event()
    kept = {
        number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        for found in search.follow(question, stop, _EVERY_S):
            _write(file, _lines([found], search.local, shape, pictures=pictures))
            file.flush()
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


def _write(file: TextIO, lines: Iterable[str]) -> None:
    file.writelines(chain.from_iterable((line, "\n") for line in lines))


@contextmanager
def _written(out: Path | None) -> Iterator[TextIO]:
    """The file of the answer, replaced as a whole, or stdout."""
    if out is None:
        yield sys.stdout
        return
    fresh = out.with_name(f".{out.name}.tmp")
    try:
        with fresh.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        fresh.replace(out)
    except OSError as error:
        raise NoJournalsError(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def _complaints() -> Iterator[None]:
    """What cannot be answered is told in our own words; to redact it would load the decoders."""
    try:
        yield
    except SearchError as error:
        _say(str(error))
        raise typer.Exit(_FAILED if isinstance(error, NoJournalsError) else _USAGE) from None


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


def _now() -> datetime:
    return datetime.now(UTC)


def _say(text: str) -> None:
    typer.echo(f"narrated: {text}", err=True)
