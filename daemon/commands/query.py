"""The verb that asks the journals: query, also called search."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from daemon.commands import selection
from daemon.commands.options import Journals, Json, Pictures, TimeZone
from daemon.questions.errors import NoJournalsError, SearchError
from daemon.questions.question import GROUPINGS, Question
from daemon.questions.restatement import restate
from pipeline.disk import replacing

if TYPE_CHECKING:
    from daemon.questions.local_time import LocalTime
    from daemon.search.found import FoundRecord
    from daemon.search.search import Search

_SHOWN = 50
_EVERY_S = 0.5


class OutputFormat(StrEnum):
    """How an answer looks."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    SRT = "srt"
    VTT = "vtt"
    HTML = "html"


def query(
    question: selection.Words = None,
    *,
    journal: Journals = None,
    config: selection.StateOf = None,
    camera: selection.Cameras = None,
    zone: selection.Zones = None,
    thing: selection.Objects = None,
    kind: selection.Kinds = None,
    colour: selection.Colours = None,
    text: selection.Text = "",
    confidence: selection.Confidence = None,
    since: selection.Since = None,
    until: selection.Until = None,
    between: selection.Between = None,
    last: selection.Last = False,
    first: selection.First = False,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="At most this many; 0: all. By default a table shows the newest 50."),
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Count them.")] = False,
    by: Annotated[list[str] | None, typer.Option(help=f"Count by {', '.join(GROUPINGS)}.")] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with new narrations as they come, until Ctrl-C.")
    ] = False,
    shape: Annotated[
        OutputFormat, typer.Option("--format", help="Format of the answer.")
    ] = OutputFormat.TABLE,
    json: Json = False,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Show the names of the pictures in the table.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="File to write the answer to.")] = None,
    timezone: TimeZone = None,
    evidence: Pictures = None,
    rebuild: selection.Rebuild = False,
) -> None:
    """Ask what was narrated: with filters, or in plain English."""
    shape = OutputFormat.JSONL if json else shape
    with selection.complaints():
        from daemon.questions.local_time import LocalTime  # noqa: PLC0415
        from daemon.search import output  # noqa: PLC0415

        local, now = LocalTime.named(timezone), selection.present()
        filters = (camera, zone, thing, kind, colour, text, confidence, since, until, between)
        given = selection.Given(*filters, last, first, limit).question(local, now)
        given = replace(given, count=count or bool(by), by=_groupings(by or ()))
        with selection.opened_search(journal, config, local, evidence, rebuild=rebuild) as search:
            asked = selection.understood(search, question, given, now) if question else given
            _check(asked, shape, follow=follow)
            with _written(out) as file:
                if asked.count:
                    _print_counts(search, asked, shape, file)
                elif asked.of_visits and shape in (OutputFormat.TABLE, OutputFormat.JSONL):
                    _print_visits(search, asked, shape, file)
                else:
                    _print_narrations(search, asked, shape, file, pictures=pictures, follow=follow)
                for gap in output.gap_sentences(search, asked):
                    selection.complain(gap)
                if follow:
                    _follow(search, asked, shape, file, pictures=pictures)


def _groupings(by: Iterable[str]) -> tuple[str, ...]:
    names = tuple("colour" if name == "color" else name for name in by)
    for name in names:
        if name not in GROUPINGS:
            raise SearchError(f"--by {name}: write one of {', '.join(GROUPINGS)}")
    return names


def _check(question: Question, shape: OutputFormat, *, follow: bool) -> None:
    """Refuse what cannot be done at the same time."""
    if follow and shape not in (OutputFormat.TABLE, OutputFormat.JSONL):
        raise SearchError(f"--follow with --format {shape} has no end: write table or jsonl")
    if follow and question.count:
        raise SearchError("--follow cannot count: leave one of them out")
    if follow and question.of_visits:
        raise SearchError("--follow tells of what comes, not of visits: leave one of them out")
    if question.count and shape in (OutputFormat.SRT, OutputFormat.VTT, OutputFormat.HTML):
        raise SearchError(f"counts have no --format {shape}: write table, jsonl or csv")


def _print_counts(search: Search, question: Question, shape: OutputFormat, file: TextIO) -> None:
    from daemon.search import output  # noqa: PLC0415

    groups = search.count(question)
    writers = {OutputFormat.JSONL: output.count_json, OutputFormat.CSV: output.count_comma_separated}
    _write(file, writers.get(shape, output.count_table)(groups, question.by))
    if not groups:
        typer.echo("nothing was found", err=True)


def _print_visits(search: Search, question: Question, shape: OutputFormat, file: TextIO) -> None:
    from daemon.search import output  # noqa: PLC0415

    visits = search.visits(question)
    write = output.visit_json if shape is OutputFormat.JSONL else output.visit_table
    _write(file, write(visits, search.local))
    if not visits:
        typer.echo("nothing was found", err=True)


def _print_narrations(
    search: Search, question: Question, shape: OutputFormat, file: TextIO, *, pictures: bool, follow: bool
) -> None:
    from daemon.search import output  # noqa: PLC0415

    some = follow or (shape is OutputFormat.TABLE and question.order == "all")
    answer = search.answer(question, _SHOWN if some else None)
    found = answer.found
    if shape in (OutputFormat.SRT, OutputFormat.VTT):
        srt = shape is OutputFormat.SRT
        file.write(output.subtitles_of(list(found), question.filters.since, srt=srt))
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
        selection.complain(f"{search.reader.gone} of them were deleted by retention meanwhile")
    if search.reread():
        selection.complain(
            "a journal was changed since it was read; ask again, and `narrated verify` says more"
        )


def _page(search: Search, question: Question, found: Iterable[FoundRecord], shown: int) -> Iterator[str]:
    from daemon.search.output import gap_sentences, local_words  # noqa: PLC0415
    from daemon.search.page import card_of  # noqa: PLC0415
    from pipeline.report.pages import Head, records_page  # noqa: PLC0415

    facts = [
        ("Asked", restate(question, search.local)),
        ("Found", f"{shown:,}"),
        ("Journals", str(search.folder)),
        ("Written", local_words(selection.present(), search.local)),
    ]
    notices = [f"It does not verify: {fault}." for fault in search.faults()]
    notices += gap_sentences(search, question)
    cards = (card_of(each, search.local) for each in found)
    return records_page(Head("What was narrated", facts, notices), cards)


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
    try:
        with replacing(out, durable=False) as raw, TextIOWrapper(raw, "utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise NoJournalsError(f"cannot write {out}: {error.strerror or error}") from None
