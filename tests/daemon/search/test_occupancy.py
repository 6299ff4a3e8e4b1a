"""How many were there at once, and the fewest, against what a plain loop over the visits says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest

from daemon.questions.question import Filters, LocalTime, Measure, Question, SearchError, Span, microseconds
from daemon.search.occupancy import count, find_intervals
from daemon.search.output import caveats
from daemon.search.search import Search
from tests.daemon.questions.made_record import BERLIN, moment, write_record

MIDNIGHT, NOW = moment("2026-11-22T00:00"), moment("2026-11-23T18:00")
DAY = 24 * 60


@dataclass(frozen=True)
class Stay:
    """Minutes since midnight of the first day; without an end it is still there."""

    camera: str
    thing: str
    begin: int
    end: int | None
    place: str

    def line(self, n: int) -> str:
        begin, end = (
            "-"
            if at is None
            else f"{(MIDNIGHT + timedelta(minutes=at)).astimezone(BERLIN):%Y-%m-%dT%H:%M:%S}"
            for at in (self.begin, self.end)
        )
        return f"{self.camera} | k{n} | {self.thing} | {begin} | {end} | {self.thing} | {self.place}"


LAST = Stay("yard", "dog", 41 * 60, 41 * 60 + 1, "on the left")


@contextmanager
def told(folder: Path, stays: list[Stay], gaps: list[tuple[str, int, int]]) -> Iterator[Search]:
    write_record(folder / "journal", "\n".join(each.line(n) for n, each in enumerate(stays)), others=False)
    with Search(folder / "journal", LocalTime(BERLIN)) as search:
        search.index.update()
        for n, (camera, *ends) in enumerate(gaps, 1):
            begin, end = (microseconds(MIDNIGHT + timedelta(minutes=at)) for at in ends)
            add = "INSERT INTO gaps VALUES (?, ?, ?, ?, 'overload')"
            search.index.connection.execute(add, (n, camera, begin, end))
        yield search


def made(rng: random.Random) -> list[Stay]:
    """Visits of two days, of each camera some at both ends."""
    stays = [Stay(camera, "person", 5, 9, "at the desk") for camera in ("yard", "lobby")]
    stays += [LAST, replace(LAST, camera="lobby")]
    for _ in range(rng.randrange(25)):
        begin = rng.randrange(10, 41 * 60)
        end = begin + rng.choice((1, 7, 60, 300)) if rng.random() < 0.93 else None
        end = end if end is None or end < 42 * 60 else None
        place = rng.choice(("at the desk", "in the lot"))
        stays.append(Stay(rng.choice(("yard", "lobby")), rng.choice(("person", "car")), begin, end, place))
    return stays


def minutes(search: Search, asked: Question) -> dict[int, int]:
    """The minutes of intervals, since midnight, to the highest number in each."""
    found = {}
    for each in find_intervals(search.selection, asked):
        first, last = ((at - MIDNIGHT) // timedelta(minutes=1) for at in (each.begin, each.end))
        found |= dict.fromkeys(range(first, last), each.number)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_intervals_are_those_of_a_plain_loop(tmp_path, seed):
    rng = random.Random(seed)
    stays = made(rng)
    first = rng.randrange(1000)
    gap = (rng.choice(("yard", "lobby")), first, first + rng.choice((30, 400)))
    since, until = sorted(rng.sample(range(10, 42 * 60), 2))
    between = rng.choice((None, (9 * 60, 17 * 60), (22 * 60, 6 * 60)))
    span = Span(*(MIDNIGHT + timedelta(minutes=at) for at in (since, until)), between)

    def there(at: int, filters: Filters) -> Counter[str]:
        return Counter(
            each.camera
            for each in stays
            if each.begin <= at < (each.end or 42 * 60)
            and (not filters.cameras or each.camera in filters.cameras)
            and each.thing in filters.objects
            and (not filters.zones or each.place.endswith(filters.zones[0]))
        )

    def within(at: int) -> bool:
        clock = at % DAY
        low, high = between or (0, DAY)
        return low <= clock < high if low < high else clock >= low or clock < high

    span_minutes = [at for at in range(since, until) if within(at)]
    with told(tmp_path, stays, [gap]) as search:
        for filters in (
            Filters(objects=("person",)),
            Filters(objects=("person", "car"), cameras=("yard",)),
            Filters(objects=("car",), zones=("lot",)),
        ):
            asked = Question(filters, span, asked_at=NOW)
            seen_by = filters.cameras or {
                each.camera for each in stays if "lot" in each.place or not filters.zones
            }
            none = minutes(search, replace(asked, measure=Measure(there=(0, 0))))
            dark = range(gap[1], gap[2]) if gap[0] in seen_by else range(0)
            assert none.keys() == {at for at in span_minutes if not there(at, filters) and at not in dark}
            two = minutes(search, replace(asked, measure=Measure(there=(2, float("inf")))))
            assert two.keys() == {
                at for at in span_minutes if max(there(at, filters).values(), default=0) > 1
            }
            counts = {at: max(there(at, filters).values(), default=0) for at in span_minutes}
            top = max(counts.values(), default=0)
            most = minutes(search, replace(asked, measure=Measure(there=(1, float("inf")), most=True)))
            assert most == {at: top for at, number in counts.items() if number == top and top}


@pytest.mark.parametrize("seed", range(6))
def test_the_quietest_hours_are_those_that_were_watched(tmp_path, seed):
    rng = random.Random(seed)
    stays = made(rng)
    gap = ("yard", 8 * 60 + 30, 9 * 60 + 10)
    arrivals = Counter(each.begin // 60 for each in stays if each.thing == "person")
    with told(tmp_path, stays, [gap]) as search:
        day = Span(MIDNIGHT, MIDNIGHT + timedelta(days=1))
        asked = Question(
            Filters(objects=("person",)), day, Measure(count=True, by=("hour",), fewest=True), asked_at=NOW
        )
        watched = [hour for hour in range(1, 24) if hour not in (8, 9)]  # the first record is of 0:05
        least = min(arrivals[hour] for hour in watched)
        found = {group.labels[0]: group.visits for group in count(search.selection, asked)}
        assert found == {f"2026-11-22 {hour:02d}:00": least for hour in watched if arrivals[hour] == least}


def test_what_a_camera_saw_last_may_still_be_there(tmp_path):
    stays = [Stay("yard", "car", 60, None, "in the lot"), Stay("yard", "person", 300, 301, "at the gate")]
    with told(tmp_path, [*stays, LAST], []) as search:
        down = [microseconds(MIDNIGHT + timedelta(minutes=at)) for at in (120, 180)]
        search.index.connection.execute("INSERT INTO gaps VALUES (1, 'yard', ?, ?, 'camera_down')", down)
        asked = search.asker().read("when was no car in the yard between 1 and 9 am yesterday", NOW)
        assert minutes(search, asked) == {}
        (said,) = caveats(search, asked)
        assert said.endswith("absent then: yard Sun 2026-11-22 02:00:00 to 03:00:00 (camera down)")


def test_a_stay_of_weeks_and_a_walk_away_are_seen(tmp_path):
    stays = [
        Stay("yard", "van", -20 * DAY, None, "in the dock"),
        Stay("yard", "person", 60, 90, "at the desk"),
    ]
    with told(tmp_path, [*stays, LAST], []) as search:
        dock = search.asker().read("was the dock free of vans yesterday", NOW)
        assert minutes(search, dock) == {}
        desk = search.asker().read("when was nobody at the desk between midnight and 3 am yesterday", NOW)
        assert minutes(search, desk).keys() == {*range(60), *range(90, 180)}


def test_without_tracks_it_is_not_known_who_was_there_at_once(tmp_path):
    write_record(tmp_path / "journal")
    with Search(tmp_path / "journal", LocalTime(BERLIN)) as search:
        search.index.update()
        asked = search.asker().read("was nobody in the yard on 14 November", moment("2026-11-23T19:05"))
        with pytest.raises(SearchError, match="name no tracks"):
            find_intervals(search.selection, asked)


def test_a_few_sentences_without_a_track_leave_the_others_an_answer(tmp_path):
    stays = [Stay("yard", "person", at, at + 1, "at the gate") for at in (60, 200, 300)]
    with told(tmp_path, [*stays, LAST], []) as search:
        (visit,) = search.index.connection.execute("SELECT id FROM visits WHERE track = 'k2'").fetchone()
        for change in (
            "UPDATE sentences SET visit = NULL WHERE visit = ?",
            "DELETE FROM visits WHERE id = ?",
        ):
            search.index.connection.execute(change, (visit,))
        asked = search.asker().read("when was nobody in the yard yesterday between 2 am and 9 am", NOW)
        assert minutes(search, asked).keys() == {*range(120, 540)} - {200} - {*range(295, 306)}
        said = "2 sentences without a track, so there may be more: Sun 2026-11-22 05:00:00 to 05:01:00"
        assert caveats(search, asked)[0] == said
        asked = search.asker().read("most people at once yesterday", NOW)
        assert minutes(search, asked) == {60: 1, 200: 1}
        assert said in caveats(search, asked)


def test_a_camera_that_was_not_there_yet_hides_nothing(tmp_path):
    stays = [
        Stay("yard", "person", 60, 61, "at the gate"),
        Stay("lobby", "person", 2 * DAY - 600, None, "at the desk"),
    ]
    with told(tmp_path, [*stays, LAST], []) as search:
        asked = search.asker().read("when was nobody there yesterday between 2 am and 4 am", NOW)
        (interval,) = find_intervals(search.selection, asked)
        assert (interval.cameras, interval.seconds) == (("yard",), 7200)
        asked = search.asker().read("was nobody in the lobby yesterday", NOW)
        with pytest.raises(SearchError, match="nobody watched then"):
            find_intervals(search.selection, asked)


def test_what_a_mask_hides_is_said_beside_who_was_absent(tmp_path):
    with told(tmp_path, [Stay("yard", "person", 60, 61, "at the gate"), LAST], []) as search:
        hidden = [microseconds(MIDNIGHT + timedelta(minutes=at)) for at in (120, 180)]
        search.index.connection.execute("INSERT INTO gaps VALUES (1, 'yard', ?, ?, 'mask')", hidden)
        asked = search.asker().read("when was nobody in the yard yesterday between 2 am and 4 am", NOW)
        assert minutes(search, asked).keys() == {*range(120, 240)}
        (said,) = caveats(search, asked)
        assert said.endswith("may be more: yard Sun 2026-11-22 02:00:00 to 03:00:00 (mask)")


@pytest.mark.parametrize("fewest", [False, True])
def test_footage_without_a_date_does_not_make_hours_of_the_day_slow(tmp_path, fewest):
    """It is of 1970, and half a million hours ago."""
    lines = [
        f"yard | a{year} | car | {year}-11-22T08:10:00 | {year}-11-22T17:30:00 | car | -"
        for year in (1970, 2026)
    ]
    write_record(tmp_path / "journal", "\n".join(lines), others=False)
    asked = Question(measure=Measure(count=True, by=("hour-of-day",), fewest=fewest), asked_at=NOW)
    with Search(tmp_path / "journal", LocalTime(BERLIN)) as search:
        search.update()
        began = monotonic()
        found = {group.labels[0]: group.visits for group in count(search.selection, asked)}
        assert monotonic() - began < 3.0
    seen = {hour for hour, visits in found.items() if visits}
    assert seen == (set() if fewest else {"08:00"})
    assert len(found) == (23 if fewest else 24)
