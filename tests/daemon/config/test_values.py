"""Durations, rates and moments, there and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from daemon.config.values import parse_duration, parse_moment, parse_rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("500ms", 0.5), ("2m", 120), ("2min", 120), ("1.5h", 5400), ("1d", 86400), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("parse", "texts", "example"),
    [
        (parse_duration, ["5", 5, 0.5, "-5s", "5 s", "s", "5S", "", None, "nan s", "1e3s"], "unit"),
        (parse_rate, ["2", 2, "2/day", "0/s", "-1/s", "two/s"], "2/s"),
    ],
)
def test_what_lacks_its_unit_is_refused(
    parse: Callable[[object], float], texts: list[object], example: str
) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=example):
            parse(text)


def test_moments() -> None:
    assert parse_moment("90s") == timedelta(seconds=90)
    assert parse_moment("01:30") == timedelta(seconds=90)
    assert parse_moment("1:00:00.5") == timedelta(hours=1, milliseconds=500)
    assert parse_moment("2026-05-01T12:00:00+02:00") == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert parse_moment("2026-05-01 12:00") == datetime(2026, 5, 1, 12, tzinfo=UTC)
    with pytest.raises(ValueError, match="is not a time"):
        parse_moment("noon")
