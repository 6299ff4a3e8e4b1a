"""A rule in words, tried on the past, and its lines for the configuration file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from daemon.config.values import parse_duration
from daemon.questions.local_time import parse_hours
from daemon.questions.question import SearchError, Span
from daemon.rules.reading import read_rule
from daemon.search.output import local_words
from daemon.search.search import Search
from daemon.search.trial import records_of, try_rule

SPANS = {"1d": "the last day", "7d": "the last 7 days", "30d": "the last 30 days", "": "all that is there"}
SHOWN = 50
"""Firings on the page, the newest."""


@dataclass(frozen=True, slots=True)
class TriedFiring:
    """When and where the rule would have fired, and the records: time, text and address."""

    clock: str
    camera: str
    maybe: bool
    records: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class TriedRule:
    """A rule as it was understood, how often it would have fired, when lately, and its lines of YAML."""

    understood: str
    times: int
    found: tuple[TriedFiring, ...]
    lines: str


def tried(search: Search, given: Mapping[str, str], now: datetime) -> TriedRule:
    """Try the rule of the fields ``when``, ``hours``, ``cooldown`` and ``since``.

    Raises:
        SearchError: one is not understood.
    """
    when, hours, cooldown = (given.get(name, "").strip() for name in ("when", "hours", "cooldown"))
    between = parse_hours(hours) if hours else None
    try:
        cooldown_s = parse_duration(cooldown) if cooldown else 0.0
    except ValueError as error:
        raise SearchError(str(error)) from None
    rule = read_rule(when[:60], when, search.asker(), between=between, cooldown_s=cooldown_s)
    since = given.get("since", "7d")
    span = Span(search.local.parse(since, now) if since else None)
    found = try_rule(search, rule, span, now)
    newest = found[: -SHOWN - 1 : -1]
    firings = tuple(
        TriedFiring(
            local_words(each.at, search.local),
            each.camera,
            each.maybe,
            tuple(
                (local_words(r.after.moment, search.local), r.text, f"/record/{quote(r.id, safe='')}")
                for r in records
            ),
        )
        for each, records in zip(newest, records_of(search, newest), strict=True)
    )
    if between:
        hours = "-".join(f"{minutes // 60 % 24:02d}:{minutes % 60:02d}" for minutes in between)
    written = {"name": when[:60].strip(), "when": when, "hours": hours, "cooldown": cooldown}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in written.items() if value]
    lines[0] = lines[0].replace('\\"', "")
    return TriedRule(
        rule.restated(search.local), len(found), firings, "rules:\n  - " + "\n    ".join(lines) + "\n"
    )
