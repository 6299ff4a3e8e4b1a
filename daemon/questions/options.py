"""Options of the command line, or parameters of a page's address, as a question."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from daemon.questions.local_time import LocalTime, parse_time_of_day
from daemon.questions.question import GROUPINGS, Filters, Measure, Question, SearchError, Span

LISTS = ("camera", "zone", "object", "kind", "colour")
"""Options that may be given several times."""


def question_of(options: Mapping[str, Any], local: LocalTime, now: datetime) -> Question:
    """The question of options by the names of `narrated query`; those absent, None or empty ask for nothing.

    Args:
        options: lists for `LISTS` and ``by``, a pair of times of day for ``between``.
        local: the time zone of times and days.
        now: the present.

    Raises:
        SearchError: a time cannot be read, or two options do not go together.
    """
    if options.get("first") and options.get("last"):
        raise SearchError("--first and --last: give one of them")
    by = tuple("colour" if name == "color" else name for name in options.get("by") or ())
    for name in by:
        if name not in GROUPINGS:
            raise SearchError(f"--by {name}: write one of {', '.join(GROUPINGS)}")
    lists: dict[str, Any] = {f"{name}s": tuple(options.get(name) or ()) for name in LISTS}
    hours = [parse_time_of_day(text) for text in options.get("between") or ()]
    return Question(
        Filters(**lists, text=options.get("text") or "", confidence=options.get("confidence")),
        Span(
            **{name: local.parse(text, now) for name in ("since", "until") if (text := options.get(name))},
            between=(hours[0], hours[1]) if hours else None,
        ),
        Measure(
            "last" if options.get("last") else "first" if options.get("first") else "all",
            options.get("limit"),
            count=bool(options.get("count") or by),
            by=by,
        ),
    )
