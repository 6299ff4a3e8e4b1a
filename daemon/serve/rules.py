"""A rule in words, tried on the past, and its lines for the configuration file."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from daemon.config.units import parse_duration
from daemon.questions.local_time import parse_hours
from daemon.questions.question import SearchError, Span
from daemon.rules.rule import read_rule
from daemon.search.output import local_words
from daemon.search.search import Search
from daemon.search.trial import records_of, try_rule
from models.language.catalogue import N_

SPANS = {
    "1d": N_("the last day"),
    "7d": N_("the last 7 days"),
    "30d": N_("the last 30 days"),
    "": N_("everything"),
}
FIELDS = ("when", "hours", "cooldown", "since")  # of the form, in words

_SHOWN = 50


def try_rule_on_past(search: Search, given: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Try the rule in `FIELDS`.

    Returns the rule as `understood`, how many `times` it would have fired, the newest of these (`found`) with
    its records, its `lines` of YAML, and `clock`, which puts a moment into words. Raises `SearchError`.
    """
    when, hours, cooldown, since = (given[name].strip() for name in FIELDS)
    between, local = parse_hours(hours) if hours else None, search.local
    try:
        cooldown_s = parse_duration(cooldown) if cooldown else 0.0
    except ValueError as error:
        raise SearchError(str(error)) from None
    rule = read_rule(when[:60], when, search.asker(), between=between, cooldown_s=cooldown_s)
    fired = try_rule(search, rule, Span(local.parse(since, now) if since else None), now)
    newest = fired[: -_SHOWN - 1 : -1]
    if between:
        hours = "-".join(f"{minutes // 60 % 24:02d}:{minutes % 60:02d}" for minutes in between)
    written = {"name": when[:60].strip().replace('"', ""), "when": when, "hours": hours, "cooldown": cooldown}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in written.items() if value]
    return {
        "understood": rule.restate(local),
        "times": len(fired),
        "found": list(zip(newest, records_of(search, newest), strict=True)),
        "clock": partial(local_words, local=local),
        "lines": "rules:\n  - " + "\n    ".join(lines) + "\n",
    }
