"""The verb `query`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Annotated, TextIO

import typer
from typer import Option

from daemon.commands import selection
from daemon.commands.options import Json, warn
from daemon.questions.question import GROUPINGS, Filters, NoJournalsError, Question, SearchError
from daemon.search import output
from daemon.search.results import SearchResult
from daemon.search.search import Search
from daemon.search.selection import Group
from daemon.service.process import Signals
from pipeline.disk import replacing
from pipeline.report.words import many

_SHOWN = 50
_EVERY_S = 0.5


class OutputFormat(StrEnum):
    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


@selection.takes_selection
def query(
    chosen: selection.Selection,
    *,
    count: Annotated[bool, Option("--count", help="Count them.")] = False,
    by: Annotated[list[str] | None, Option(help=f"Count by {', '.join(GROUPINGS)}.")] = None,
    rule: Annotated[
        str | None, Option(help="Say when a rule would have fired: --rule 'a van in the lot for 10 min'.")
    ] = None,
    follow: Annotated[
        bool, Option("-f", "--follow", help="Go on with new narrations as they come, until Ctrl-C.")
    ] = False,
    shape: Annotated[OutputFormat, Option("--format", help="Format of the answer.")] = OutputFormat.TABLE,
    json: Json = False,
    out: Annotated[Path | None, Option(help="File to write the answer to.")] = None,
) -> None:
    """Search narrations, with filters or questions in plain English. A table shows the newest 50."""
    shape = OutputFormat.JSONL if json else shape
    with chosen.search(count=count, by=by) as (search, asked):
        if rule is not None:
            if follow or chosen.question or asked != Question(Filters(asked.filters.cameras), asked.span):
                raise SearchError("--rule goes with --camera, --since, --until and --between only")
            with _open_output(out) as file:
                _write(file, _tried(search, rule, asked, shape))
            return
        if follow and (asked.measure.count or asked.of_visits or shape is OutputFormat.CSV):
            raise SearchError("--follow shows narrations as they come, as table or jsonl: it cannot count")
        with _open_output(out) as file:
            if asked.measure.count:
                groups = search.selection.count(asked)
                _write(file, _count_lines(groups, asked, shape))
                empty = not groups
            elif asked.of_visits and shape is not OutputFormat.CSV:
                visits, local = search.selection.visits(asked), search.local
                table = shape is OutputFormat.TABLE
                _write(
                    file,
                    output.visit_table(visits, local)
                    if table
                    else output.json_lines(output.visit_members(visits, local)),
                )
                empty = not visits
            else:
                empty = not _write_records(search, asked, shape, file, follow=follow)
            if empty and not follow:
                typer.echo("nothing was found", err=True)
            for caveat in output.caveats(search, asked):
                warn(caveat)
            if follow:
                with Signals() as signals:
                    signals.watching()
                    for result in search.follow(asked, signals.stop, _EVERY_S):
                        _write(file, _record_lines([result], search, shape))
                        file.flush()


def _tried(search: Search, words: str, asked: Question, shape: OutputFormat) -> Iterator[str]:
    """When a rule would have fired, as table or jsonl."""
    from daemon.rules.reading import read_rule  # noqa: PLC0415 - most ask for no rule
    from daemon.search.trial import try_rule  # noqa: PLC0415

    if shape is OutputFormat.CSV:
        raise SearchError("when a rule would have fired is told as table or jsonl")
    rule = read_rule("tried", words, search.asker(), between=asked.span.between)
    if asked.filters.cameras:
        rule = replace(rule, filters=replace(rule.filters, cameras=asked.filters.cameras))
    typer.echo(f"understood as: {rule.restated(search.local)}", err=True)
    found = try_rule(search, rule, asked.span, selection.present())
    typer.echo(f"it would have fired {many(len(found), 'time')}", err=True)
    if shape is OutputFormat.JSONL:
        return output.json_lines(output.trial_members(search, found))
    return output.trial_table(search, found[-_SHOWN:])


def _count_lines(groups: list[Group], asked: Question, shape: OutputFormat) -> Iterator[str]:
    by = asked.measure.by
    if shape is OutputFormat.TABLE:
        return output.count_table(groups, by)
    members = output.count_members(groups, by)
    if shape is OutputFormat.CSV:
        return output.csv_lines(members, (*by, "visits", "narrations"))
    return output.json_lines(members)


def _write_records(
    search: Search, asked: Question, shape: OutputFormat, file: TextIO, *, follow: bool
) -> int:
    some = follow or (shape is OutputFormat.TABLE and asked.measure.order == "all")
    answer = search.answer(asked, _SHOWN if some else None)
    _write(file, _record_lines(answer.results, search, shape))
    if answer.more and asked.measure.order == "all" and not follow:
        typer.echo(
            f"these are the newest {answer.count} (--limit 0 shows all, --count counts them)", err=True
        )
    if missing := search.reader.missing:
        warn(
            f"{missing} of them were deleted or changed meanwhile; `narrated verify` says whether that may be"
        )
    return answer.count


def _record_lines(results: Iterable[SearchResult], search: Search, shape: OutputFormat) -> Iterator[str]:
    if shape is OutputFormat.CSV:
        return output.record_csv(results, search.local)
    if shape is OutputFormat.JSONL:
        return output.json_lines(output.record_members(results, search.local))
    return output.table(results, search)


def _write(file: TextIO, lines: Iterable[str]) -> None:
    file.writelines(chain.from_iterable((line, "\n") for line in lines))


@contextmanager
def _open_output(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    try:
        with replacing(out, durable=False) as raw, TextIOWrapper(raw, "utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise NoJournalsError(f"cannot write {out}: {error.strerror or error}") from None
