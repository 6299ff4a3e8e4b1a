"""When it happened: bars, lanes and labels."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.questions.local_time import LocalTime, microseconds
from daemon.serve.review import day_bounds
from daemon.serve.timeline import timeline

LONDON, HERE = LocalTime.named("Europe/London"), LocalTime.named("UTC")
START = datetime(2026, 5, 1, tzinfo=UTC)


def spread(*moments: tuple[datetime, int]) -> list[tuple[int, str]]:
    return [(microseconds(moment), f"cam{camera}") for moment, camera in sorted(moments)]


def test_a_day_has_a_bar_for_each_quarter_of_an_hour() -> None:
    moments = ((START + timedelta(hours=6, minutes=14), 0), (START + timedelta(hours=6, minutes=1), 0))
    drawn = timeline(spread(*moments), START, START + timedelta(days=1), HERE)
    ((camera, count, (bar,)),) = drawn.lanes
    assert (camera, count, bar.height) == ("cam0", 2, 1)
    assert bar.title == "1 May 2026, 06:00:00: 2 narrations"
    assert (bar.begin, bar.end) == (START + timedelta(hours=6), START + timedelta(hours=6, minutes=15))
    assert [words for _, words in drawn.labels] == [f"{hour:02d}:00" for hour in range(0, 24, 3)]


@pytest.mark.parametrize(
    ("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 5, 1), 24)]
)
def test_a_day_is_as_long_as_clocks_say(day: date, hours: int) -> None:
    begin, end = day_bounds(day, LONDON)
    assert end - begin == timedelta(hours=hours)
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=LONDON.zone)
    drawn = timeline(spread((noon, 1)), begin, end, LONDON)
    bar = drawn.lanes[0][2][0]
    assert bar.begin <= noon < bar.end
    x, words = drawn.labels[4]
    assert words == f"{(begin + x * (end - begin)).astimezone(LONDON.zone):%H:%M}"


MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@settings(max_examples=60)
@given(st.lists(st.tuples(MOMENTS, st.integers(0, 9)), min_size=1, max_size=30))
def test_every_narration_is_in_a_bar(moments: list[tuple[datetime, int]]) -> None:
    drawn = timeline(spread(*moments), None, None, HERE)
    assert sum(count for _, count, _ in drawn.lanes) == len(moments)
    for camera, count, bars in drawn.lanes:
        assert all(0 <= bar.x < 1 and 0 < bar.height <= 1 for bar in bars)
        own = [moment for moment, n in moments if f"cam{n}" == camera]
        assert sum(bar.begin <= moment < bar.end for bar in bars for moment in own) == count
