"""Options of the command line, or parameters of a page's address, as a question."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from daemon.questions.local_time import LocalTime, parse_time_of_day
from daemon.questions.question import GROUPINGS, TIME_GROUPINGS, Question, SearchError

LISTS = ("camera", "zone", "object", "kind", "colour")
"""Options that may be given several times."""
EVERYTHING = Question()


def question_of(
    options: Mapping[str, Any], local: LocalTime, now: datetime, asked: Question = EVERYTHING
) -> Question:
    """The question of options by the names of `narrated query`; those absent, None or empty ask for nothing.

    Args:
        options: lists for `LISTS` and ``by``, a pair of times of day for ``between``.
        local: the time zone of times and days.
        now: the present.
        asked: in words, beside the options, which take precedence.

    Raises:
        SearchError: a time cannot be read, or two options do not go together.
    """
    given = {
        name: value
        for name, value in options.items()
        if value not in ("", (), []) and value is not None and value is not False
    }
    if "first" in given and "last" in given:
        raise SearchError("--first and --last: give one of them")
    by = tuple("colour" if name == "color" else name for name in given.get("by", ()))
    for name in by:
        if name not in GROUPINGS:
            raise SearchError(f"--by {name}: write one of {', '.join(GROUPINGS)}")
    filters: dict[str, Any] = {f"{name}s": tuple(given[name]) for name in LISTS if name in given}
    filters |= {name: given[name] for name in ("text", "confidence") if name in given}
    span: dict[str, Any] = {n: local.parse(given[n], now) for n in ("since", "until") if n in given}
    if "between" in given:
        begin, end = map(parse_time_of_day, given["between"])
        span["between"] = begin, end
    span |= {"pieces": ()} if span else {}
    measure: dict[str, Any] = {name: given[name] for name in ("limit", "count") if name in given}
    if order := next((name for name in ("first", "last") if name in given), None):
        measure["order"] = order
    if by:
        measure |= {"count": True, "by": by}
    timed = bool({*by} & {*TIME_GROUPINGS})
    return replace(
        asked,
        filters=replace(asked.filters, **filters),
        span=replace(asked.span, **span),
        measure=replace(asked.measure, **measure),
        presence=asked.presence and "kind" not in given and not timed,
    )
