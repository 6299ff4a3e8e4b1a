"""The table of questions: each is understood as was meant and finds what is there, or is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from daemon.questions.asker import MEANT, REWRITES
from daemon.questions.question import LocalTime, Question, SearchError
from daemon.questions.restatement import restate
from daemon.questions.words import Reading
from daemon.search.occupancy import count, find_intervals
from daemon.search.search import Search

from .made_record import CORNER, RAMP, SHOP, SITE, STORE, VISITS, write_record

TABLE = Path(__file__).with_name("questions.txt")
LENGTHS = {"s": 1, "min": 60, "h": 3600}


def table() -> list[tuple[str, str, str, str, str]]:
    """Record and zone, time, question, reading, result."""
    found, zone, now = [], "", ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            zone, now = line.strip("[]").rsplit(maxsplit=1)
        elif " | " in line:
            question, reading, *result = line.split(" | ")
            found.append((zone, now, question, reading, result[0] if result else ""))
    return found


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Search, dict[str, str]]]]:
    """Each made record, open in each zone, and the names of its records."""
    folder = tmp_path_factory.mktemp("made")
    visits = {"house": VISITS, "depot": SITE, "ramp": RAMP, "shop": SHOP, "store": STORE, "corner": CORNER}
    names = {name: write_record(folder / name, rows) for name, rows in visits.items()}
    with ExitStack() as stack:
        opened = {}
        for head in {row[0] for row in table()}:
            record, zone = head.split()
            search = stack.enter_context(Search(folder / record, LocalTime.named(zone)))
            search.index.update()
            opened[head] = search, names[record]
        yield opened


def reading_of(asked: Question, local: LocalTime) -> set[str]:
    """The question in the words of the table."""
    filters, span, measure, said = asked.filters, asked.span, asked.measure, set[str]()
    said |= {word for word in ("count", "durations", "most", "fewest", "none") if getattr(measure, word)}
    said |= {f"marked={filters.marked}".replace(" ", "_")} if filters.marked else set()
    said |= {word for word in ("open", "ended") if getattr(filters, word)}
    if measure.there:
        said.add("there={}-{}".format(*measure.there).removesuffix("-inf"))
    said = {{"open": "now", "durations": "howlong"}.get(word, word) for word in said}
    if measure.order != "all":
        said.add(measure.order.replace(" and ", "_"))
    if said & {"most", "fewest"}:
        said.discard("count")
    if not said & {"count", "howlong", "first", "last", "longest", "most", "fewest"}:
        said.add("list")
    said |= {f"by={name}" for name in measure.by} | ({f"limit={measure.limit}"} if measure.limit else set())
    names = {"obj": "objects", "kind": "kinds", "cam": "cameras", "zone": "zones", "colour": "colours"}
    said |= {
        f"{short}={value}".replace(" ", "_")
        for short, name in names.items()
        for value in getattr(filters, name)
    }
    numbers = {"longer": filters.longer_s, "shorter": filters.shorter_s, "sure": filters.confidence}
    said |= {f"{name}={value:g}" for name, value in numbers.items() if value is not None}
    if filters.other:
        said.add(f"vehicle={'_'.join((*filters.other.colours, *filters.other.objects))}")
    if filters.text:
        said.add(f"text={filters.text}")
    if span.since or span.until:
        pieces = span.pieces or [(span.since, span.until)]
        ends = [[f"{local.of(at):%Y-%m-%dT%H:%M}" if at else "" for at in each] for each in pieces]
        said.add("span=" + "+".join("..".join(each) for each in ends))
    if span.between:
        said.add("hours=" + "-".join(f"{m // 60:02d}:{m % 60:02d}" for m in span.between))
    return said


def meant(reading: str) -> set[str]:
    """A reading of the table; days without a month are of November 2026."""
    words = set(re.findall(r'text="[^"]*"(?:\|"[^"]*")*|\S+', reading))
    spans = {word for word in words if word.startswith("span=")}
    return words - spans | {re.sub(r"(?<![\d-])(\d\dT)", r"2026-11-\1", span) for span in spans}


def result_of(search: Search, asked: Question, names: dict[str, str]) -> set[str]:
    """What is found, in the words of the table."""
    if asked.of_intervals and not asked.measure.count:
        found = find_intervals(search.selection, asked)
        clocks = [[f"{search.local.of(at):%dT%H:%M}" for at in (each.begin, each.end)] for each in found]
        return {f"{a}..{b}={each.number}" for (a, b), each in zip(clocks, found, strict=True)} or {"-"}
    if asked.measure.count:
        groups = count(search.selection, asked)
        if asked.measure.by:
            blank, fewest = "_" if "span" in asked.measure.by else " ", asked.measure.fewest
            found = {" ".join(g.labels): g.visits for g in groups if g.narrations or fewest}
            return {f"{label.replace(' ', blank)}={visits}" for label, visits in found.items()} or {"0"}
        return {str(groups[0].visits)}
    if asked.measure.durations or asked.measure.order == "longest":
        return {f"{visit.track}={visit.seconds:.0f}" for visit in search.selection.visits(asked)} or {"-"}
    return {names[found.record.id] for found in search.answer(asked).results} or {"-"}


def expected(result: str) -> set[str]:
    """A result of the table, lengths in seconds."""

    def seconds(length: str) -> str:
        parts = re.findall(r"(\d+)(h|min|s)?", length)
        units = ["h", "min"] if len(parts) > 1 else [parts[0][1] or "s"]
        return str(sum(int(n) * LENGTHS[unit or units[i]] for i, (n, unit) in enumerate(parts)))

    parts = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d=\d+|\S+", result)
    return {
        f"{part.split('=')[0]}={seconds(part.split('=')[1])}" if re.search(r"=\d+(h|min)", part) else part
        for part in parts
    }


@pytest.mark.parametrize(("zone", "now", "question", "reading", "result"), table())
def test_a_question_means_what_it_says(searches, zone, now, question, reading, result):
    search, names = searches[zone]
    moment = datetime.fromisoformat(now).replace(tzinfo=ZoneInfo(zone.split()[1])).astimezone(UTC)
    if reading.startswith("REFUSED"):
        with pytest.raises(SearchError) as refusal:
            search.asker().read(question, moment)
        reason = str(refusal.value).split("cannot be answered: ", 1)[1].split(" Understood here")[0].lower()
        assert reading.removeprefix("REFUSED ").lower() in reason
        return
    asked = search.asker().read(question, moment)
    assert reading_of(asked, search.local) == meant(reading), restate(asked, search.local)
    if result != "*":
        assert result_of(search, asked, names) == expected(result)
    assert restate(asked, search.local)


_MEASURES = {
    "how many {people}": "count",
    "when was the first {person}": "first",
    "what time did the last {person} leave": "last kind=left",
    "how long were {people}": "howlong",
    "which {person} stayed the longest": "longest",
    "number of {people} by hour": "count by=hour",
    "which camera had the fewest {people}": "fewest by=camera",
    "busiest hour for {people}": "most by=hour",
    "were there more than three {people} at once": "list there=4",
    "the most {people} at once": "most there=1",
    "when were there no {people}": "list there=0-0",
    "did any {people} come": "list kind=came",
    "{people} longer than 10 minutes": "list longer=600",
}
_NOUNS = {"people": ("person", "obj=person"), "red cars": ("red car", "obj=car colour=red")}
_PLACES = {"": "", "in the lobby": "cam=lobby", "at the desk": "zone=desk", "on camera street": "cam=street"}
_SPANS = {
    "last night": "17T22:00..2026-06-18T06:00",
    "since Monday": "15T00:00..",
    "between 9 and 11 yesterday": "17T09:00..2026-06-17T11:00",
    "just after 3 pm yesterday": "17T15:00..2026-06-17T15:30",
    "in the week of 8 June": "08T00:00..2026-06-15T00:00",
    "in the last 3 hours": "18T11:30..",
    "yesterday evening": "17T18:00..2026-06-18T00:00",
}


@pytest.mark.parametrize("measure", _MEASURES)
def test_a_measure_goes_with_every_thing_place_and_time_in_any_order(searches, measure):
    search, _ = searches["depot Europe/London"]
    asker, now = search.asker(), datetime(2026, 6, 18, 13, 30, tzinfo=UTC)
    for people, place, span in product(_NOUNS, _PLACES, _SPANS):
        person, thing = _NOUNS[people]
        asks = measure.format(people=people, person=person)
        wanted = f"{_MEASURES[measure]} {thing} {_PLACES[place]} span=2026-06-{_SPANS[span]}"
        for question in (f"{asks} {place} {span}", f"{asks} {span} {place}", f"{span} {asks} {place}"):
            assert reading_of(asker.read(question, now), search.local) == {*wanted.split()}, question


def test_no_cue_hides_what_would_be_read_otherwise():
    always = [("", pattern, instead) for _, pattern, instead in REWRITES]
    for _, _, question, *_ in table():
        assert Reading.of(question, REWRITES, MEANT) == Reading.of(question, always, MEANT)
