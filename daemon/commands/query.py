import json as json_format
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from daemon.commands import selection
from daemon.commands.options import Journals, Json, OptionalFile, TimeZone, warn
from daemon.questions.asker import read_span
from daemon.questions.facts import place_name
from daemon.questions.question import (
    GROUPINGS,
    Filters,
    Measure,
    NoJournalsError,
    Question,
    SearchError,
    not_here,
)
from daemon.search import output
from daemon.search.occupancy import count
from daemon.search.search import Search
from pipeline.disk import replacing
from pipeline.report.words import many

_SHOWN = 50
_NAMED = 100  # records of a count


@selection.takes_selection
def query(
    chosen: selection.Filters,
    *,
    count: Annotated[bool, Option("--count", help="Count visits and narrations.")] = False,
    by: Annotated[list[str] | None, Option(help=f"Count by {', '.join(GROUPINGS)}.")] = None,
    rule: Annotated[str | None, Option(help="Say when a rule would have fired: 'a van in the lot'.")] = None,
    json: Json = False,
) -> None:
    """Search narrations with filters or plain-English questions; the table shows the newest 50."""
    with chosen.search(count=count, by=by) as (search, asked):
        if rule is not None:
            if chosen.question or asked != Question(Filters(asked.filters.cameras), asked.span):
                raise SearchError("--rule goes with --camera, --since, --until and --between only")
            _write(_try_rule(search, rule, asked, json=json))
            return
        lines, found = _answer(search, asked, json=json)
        _write(lines)
        if missing := search.missing:
            warn(f"{missing} were deleted or changed meanwhile; `narrated verify` says which")
        if not found:
            typer.echo("there was no such time" if asked.of_intervals else "nothing was found", err=True)
            asker = search.asker()
            for zone in map(place_name, asked.filters.zones):
                if not asker.names_place(zone):
                    warn(not_here(zone, "place", asker.places()))
        for caveat in output.caveats(search, asked):
            warn(caveat)
        if counted := output.counted_how_well(asked):
            typer.echo(counted, err=True)


def digest(
    span: Annotated[list[str] | None, Argument(help="yesterday, since 8 am, ...; by default today.")] = None,
    *,
    journal: Journals = None,
    config: OptionalFile = None,
    timezone: TimeZone = None,
    html: Annotated[Path | None, Option(help="Write a page with two pictures to this file.")] = None,
    json: Json = False,
) -> None:
    """Sum up what happened in a dozen sentences, and what was unusual compared with four weeks before."""
    from daemon.digest.digest import members, page, text_lines, write_digest  # noqa: PLC0415

    chosen = selection.Selection(journal=journal, config=config, timezone=timezone)
    with chosen.search() as (search, _):
        now = selection.present()
        summary = write_digest(search, read_span(" ".join(span or ["today"]), now, search.local), now)
        if html:
            try:
                is_device = html.exists() and not html.is_file()  # /dev/stdout, say, is never replaced
                with html.open("wb") if is_device else replacing(html.resolve(), durable=False) as file:
                    file.write(page(summary, search.local).encode())
            except OSError as error:
                raise NoJournalsError(f"cannot write {html}: {error.strerror or error}") from None
        if json:
            typer.echo(json_format.dumps(members(summary, search.local), ensure_ascii=False, indent=1))
        elif not html:
            typer.echo("\n".join(text_lines(summary)))


def _try_rule(search: Search, words: str, asked: Question, *, json: bool) -> Iterator[str]:
    from daemon.rules.rule import read_rule  # noqa: PLC0415 - most ask for no rule
    from daemon.search.trial import trial_members, trial_table, try_rule  # noqa: PLC0415

    rule = read_rule("tried", words, search.asker(), between=asked.span.between)
    if asked.filters.cameras:
        rule = replace(rule, filters=replace(rule.filters, cameras=asked.filters.cameras))
    typer.echo(f"understood as: {rule.restate(search.local)}", err=True)
    found = try_rule(search, rule, asked.span, selection.present())
    typer.echo(f"it would have fired {many(len(found), 'time')}", err=True)
    if json:
        return _json_lines(trial_members(search, found))
    return trial_table(search, found[-_SHOWN:])


def _answer(search: Search, asked: Question, *, json: bool) -> tuple[Iterator[str], int]:
    """The lines of an answer, and how many records, groups or visits it has."""
    if asked.measure.count:
        by, named = asked.measure.by, _NAMED if json else 0
        groups = count(search.selection, asked, named)
        records = {number for group in groups for number in group.records}
        found = sum(bool(group.narrations) for group in groups) or not by
        table: Iterator[str] = chain(output.count_table(groups, by), output.records_line(search, records))
        members = output.count_members(search, groups, by)
    elif asked.of_intervals or asked.of_visits:
        rows = output.span_rows(search, asked, named=json)
        every = replace(asked, measure=Measure())
        ends = [each for new in (False, True) for each in search.selection.records(every, 1, newest=new)]
        table = chain(output.span_table(rows), output.records_line(search, ends) if rows else ())
        members, found = (row.members for row in rows), len(rows)
    else:
        in_order = asked.measure.order == "all"
        answer = search.answer(asked, _SHOWN if in_order and not json else None)
        if answer.more and in_order:
            shown = f"these are the newest {answer.count} (--limit 0 shows all, --count counts them)"
            typer.echo(shown, err=True)
        found, table = answer.count, output.table(answer.results, search)
        members = output.record_members(answer.results, search.local)
    return _json_lines(members) if json else table, found


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (json_format.dumps(row, ensure_ascii=False) for row in rows)


def _write(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
