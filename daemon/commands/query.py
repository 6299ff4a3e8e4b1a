"""The verb that asks the journals: query, also called search."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Annotated, TextIO

import typer

from daemon.commands import selection
from daemon.commands.options import Json, stop_at_signal
from daemon.questions.local_time import LocalTime
from daemon.questions.question import GROUPINGS, NoJournalsError, Question, SearchError
from daemon.questions.restatement import restate
from daemon.search import output
from daemon.search.found import FoundRecord
from daemon.search.search import Search
from pipeline.disk import replacing

_SHOWN = 50
_EVERY_S = 0.5


class OutputFormat(StrEnum):
    """Formats of an answer."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    SRT = "srt"
    VTT = "vtt"
    HTML = "html"


@selection.takes_selection
def query(
    chosen: selection.Selection,
    *,
    count: Annotated[bool, typer.Option("--count", help="Count them.")] = False,
    by: Annotated[list[str] | None, typer.Option(help=f"Count by {', '.join(GROUPINGS)}.")] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with new narrations as they come, until Ctrl-C.")
    ] = False,
    shape: Annotated[
        OutputFormat, typer.Option("--format", help="Format of the answer.")
    ] = OutputFormat.TABLE,
    json: Json = False,
    out: Annotated[Path | None, typer.Option(help="File to write the answer to.")] = None,
) -> None:
    """Search narrations, with filters or questions in plain English. A table shows the newest 50."""
    shape = OutputFormat.JSONL if json else shape
    with selection.complaints():
        groupings = _groupings(by or ())
    with chosen.search(count=count, by=groupings) as (search, asked):
        _check(asked, shape, follow=follow)
        with _open_output(out) as file:
            if asked.measure.count:
                _print_counts(search, asked, shape, file)
            elif asked.of_visits and shape in (OutputFormat.TABLE, OutputFormat.JSONL):
                _print_visits(search, asked, shape, file)
            else:
                _print_narrations(search, asked, shape, file, follow=follow)
            for gap in output.gap_sentences(search, asked):
                selection.complain(gap)
            if follow:
                _follow(search, asked, shape, file)


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
    if follow and question.measure.count:
        raise SearchError("--follow cannot count: leave one of them out")
    if follow and question.of_visits:
        raise SearchError("--follow shows narrations as they come, not visits: leave one of them out")
    if question.measure.count and shape in (OutputFormat.SRT, OutputFormat.VTT, OutputFormat.HTML):
        raise SearchError(f"counts have no --format {shape}: write table, jsonl or csv")


def _print_counts(search: Search, question: Question, shape: OutputFormat, file: TextIO) -> None:

    groups = search.selection.count(question)
    by = question.measure.by
    if shape is OutputFormat.JSONL:
        _write(file, output.json_lines(output.count_members(groups, by)))
    elif shape is OutputFormat.CSV:
        _write(file, output.csv_lines(output.count_members(groups, by), (*by, "visits", "narrations")))
    else:
        _write(file, output.count_table(groups, by))
    if not groups:
        typer.echo("nothing was found", err=True)


def _print_visits(search: Search, question: Question, shape: OutputFormat, file: TextIO) -> None:

    visits = search.selection.visits(question)
    if shape is OutputFormat.JSONL:
        _write(file, output.json_lines(output.visit_members(visits, search.local)))
    else:
        _write(file, output.visit_table(visits, search.local))
    if not visits:
        typer.echo("nothing was found", err=True)


def _print_narrations(
    search: Search, question: Question, shape: OutputFormat, file: TextIO, *, follow: bool
) -> None:

    some = follow or (shape is OutputFormat.TABLE and question.measure.order == "all")
    answer = search.answer(question, _SHOWN if some else None)
    found = answer.found
    if shape in (OutputFormat.SRT, OutputFormat.VTT):
        srt = shape is OutputFormat.SRT
        file.write(output.subtitles_of(list(found), question.span.since, srt=srt))
    elif shape is OutputFormat.HTML:
        file.writelines(_page(search, question, found, answer.shown))
    else:
        _write(file, _lines(found, search.local, shape))
    if not answer.shown and not follow:
        typer.echo("nothing was found", err=True)
    elif answer.more and question.measure.order == "all" and not follow:
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


def _lines(found: Iterable[FoundRecord], local: LocalTime, shape: OutputFormat) -> Iterator[str]:

    if shape is OutputFormat.CSV:
        return output.record_csv(found, local)
    if shape is OutputFormat.JSONL:
        return output.json_lines(output.record_members(found, local))
    return output.table(found, local)


def _follow(search: Search, question: Question, shape: OutputFormat, file: TextIO) -> None:
    with stop_at_signal() as stop:
        for found in search.follow(question, stop, _EVERY_S):
            _write(file, _lines([found], search.local, shape))
            file.flush()


def _write(file: TextIO, lines: Iterable[str]) -> None:
    file.writelines(chain.from_iterable((line, "\n") for line in lines))


@contextmanager
def _open_output(out: Path | None) -> Iterator[TextIO]:
    """The file of the answer, replaced as a whole, or stdout."""
    if out is None:
        yield sys.stdout
        return
    try:
        with replacing(out, durable=False) as raw, TextIOWrapper(raw, "utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise NoJournalsError(f"cannot write {out}: {error.strerror or error}") from None
