"""The digest: what is unusual is named, nothing else is, everything rests on records; and the verb for it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pseudo_language import left_in_english, speaking, write_catalogue

from daemon import cli
from daemon.digest.digest import Digest, DigestSentence, members, page, text_lines, week, write_digest
from daemon.questions.question import LocalTime, Span
from daemon.search.search import Search
from pipeline.record_format import format_time

from . import planted

LOCAL = LocalTime.named("Europe/Berlin")
END = LOCAL.midnight(planted.FIRST + timedelta(days=planted.DAYS))
QUIET_DAY = date(2026, 10, 21)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Search, list[planted.Planted]]]:
    folder = tmp_path_factory.mktemp("planted") / "journal"
    visits, events = planted.made(seed=1)
    planted.write(folder, visits)
    with Search(folder, LOCAL) as search:
        search.index.update()
        yield search, events


def test_a_digest_is_in_the_language(record, tmp_path):
    search, _ = record
    with speaking(write_catalogue(tmp_path / "xx.mo")):
        digests = [
            digest_of_day(search, planted.FIRST + timedelta(days=n)) for n in range(10, planted.DAYS, 2)
        ]
        digests += week(search, END - timedelta(hours=10))
        told = [*(line for each in digests for line in text_lines(each))]
    ids = {identity for each in digests for sentence in each.sentences for identity in sentence.records}
    ids |= {digest for each in digests for _, digest in each.heads.values()}
    assert len(told) > 100
    data = (*ids, "door", "yard", "hall", "json", "horse", "cat", "bird", "suitcase")  # of papers' captioners
    assert not [line for line in told if left_in_english(line, data)]


def digest_of_day(search: Search, day: date) -> Digest:
    return write_digest(search, Span(LOCAL.midnight(day), LOCAL.midnight(day + timedelta(days=1))), END)


def is_about(sentence: DigestSentence, day: date, event: planted.Planted) -> bool:
    if event.day != day or event.camera not in sentence.text:
        return False
    if sentence.about == "stay":
        return event.kind == "stay"
    hours = re.search(r"between (\d+):00 and (\d+):00", sentence.text)
    assert hours
    during = any(int(hours[1]) <= hour < int(hours[2]) for hour in event.hours)
    return during and event.thing in sentence.query["object"] and event.kind != "stay"


def test_nine_of_ten_planted_events_are_named_and_none_is_invented(record):
    search, events = record
    named, invented = set(), []
    for n in range(7, planted.DAYS):
        day = planted.FIRST + timedelta(days=n)
        for sentence in digest_of_day(search, day).sentences:
            if sentence.about in ("unusual", "stay"):
                about = [event for event in events if is_about(sentence, day, event)]
                named.update(about)
                invented += [] if about else [(day, sentence.text)]
    assert len(events) == 40
    assert len(named) >= 36, [event for event in events if event not in named]
    assert not invented


def test_a_night_visit_is_told_with_its_numbers_and_records(record):
    search, events = record
    event = next(each for each in events if each.kind == "night")
    sentence = next(s for s in digest_of_day(search, event.day).sentences if is_about(s, event.day, event))
    begin = event.hours[0]
    assert f"between {begin}:00 and {begin + 1}:00 at night on {event.camera}" in sentence.text
    assert "usually none" in sentence.text
    assert sentence.records
    for identity in sentence.records:
        found = search.by_id(identity)
        assert found
        local = LOCAL.of(found.record.after.moment)
        assert (found.record.camera, local.date(), local.hour) == (event.camera, event.day, begin)


def test_the_same_record_gives_the_same_bytes(tmp_path):
    visits = [v for v in planted.made(seed=1)[0] if LOCAL.of(v.begin).date() == QUIET_DAY]
    written = []
    for name in ("one", "other"):
        planted.write(tmp_path / name, visits)
        with Search(tmp_path / name, LOCAL) as search:
            search.index.update()
            digest = digest_of_day(search, QUIET_DAY)
            written.append([json.dumps(members(digest, LOCAL)), [*text_lines(digest)], page(digest, LOCAL)])
            assert digest.heads["hall"][1] in written[-1][2]
    assert written[0] == written[1]
    people = sum(v.thing == "person" for v in visits)
    assert digest.sentences[0].text.startswith(f"{len(visits)} visits on 3 cameras: {people} people")


def test_a_week_says_of_each_day_what_its_digest_says(record):
    search, _ = record
    now = END - timedelta(hours=3)
    days = week(search, now)
    assert [LOCAL.of(day.since).date().day for day in days] == [1, 31, 30, 29, 28, 27, 26]
    for day in days:
        alone = write_digest(search, Span(day.since, day.until), now)
        assert (day.sentences, day.hours) == (alone.sentences, alone.hours)
    midnight = LOCAL.bounds(LOCAL.of(now).date())[0]
    assert [LOCAL.of(day.since).date().day for day in week(search, midnight)] == [31, 30, 29, 28, 27, 26, 25]


def told(folder: Path, visits: list[planted.Visit], span: Span, more=()) -> list[str]:
    planted.write(folder, visits, more)
    with Search(folder, LocalTime.named("UTC")) as search:
        search.index.update()
        return [sentence.text for sentence in write_digest(search, span, at(18)).sentences]


def at(hour: int, minute: int = 0, day: int = 24) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def gap(begin: datetime, end: datetime, reason: str) -> dict[str, object]:
    times = {name: format_time(each) for name, each in (("since", begin), ("until", end))}
    return {"event": "gap", "text": "Nothing was recorded.", "sentences": [], "reason": reason, **times}


def test_what_stands_there_and_what_was_not_seen(tmp_path):
    visits = [
        planted.Visit("yard", "car", at(15, day=23), 30 * 3600.0),
        planted.Visit("door", "person", at(9), 60.0),
    ]
    more = [
        ("door", at(12), gap(at(10), at(12), "camera_down")),
        ("door", at(12, 1), {"event": "obstructed", "text": "The view is blocked.", "sentences": []}),
    ]
    said = told(tmp_path / "journal", visits, Span(at(0)), more=more)
    assert told(tmp_path / "journal", [], Span(at(0, day=20), at(0, day=21))) == ["No camera was watched."]
    others = "; 1 car had come before or came unseen."  # as many as "how many today" counts
    assert said[0] == f"1 visit on 2 cameras: 1 person; all came between 9:00 and 10:00{others}"
    assert said[1] == "On door at 12:01: The view is blocked."
    assert "Still there at 18:00 on yard: a car since Mon 15:00." in said
    assert "Nothing is known of door before 09:00: no record is older." in said
    assert "Nothing was recorded on door for 2 hours between 10:00 and 12:00: the camera was down." in said


def test_a_camera_without_records_since_is_not_said_to_be_quiet(tmp_path):
    visits = [
        planted.Visit("hall", "person", at(hour, minute, day), 60.0)
        for day in range(8, 23)
        for hour in range(12, 18)
        for minute in range(0, 60, 5)
    ]
    said = told(tmp_path / "journal", visits, Span(at(0), at(18)))
    assert not any("usually" in each for each in said)
    assert "Nothing is known of hall since Sun 17:56, when it was last watched." in said


def test_a_busy_hour_is_no_surprise_on_a_weekday_alone(tmp_path):
    """Saturday's crowd is told against Saturdays, not against the quiet week."""
    visits = [
        planted.Visit("shop", "person", at(11, minute) - timedelta(days=back), 60.0)
        for back in range(29)
        for minute in range(0, 60, 2 if (at(11) - timedelta(days=back)).weekday() >= 5 else 20)
    ]
    saturday = at(0, day=21)
    whole, *others = told(tmp_path / "journal", visits, Span(saturday, saturday + timedelta(days=1)))
    assert "; usually 30 (6 weekend days); " in whole
    assert not any("usually" in each for each in others)


@pytest.mark.parametrize("lost", [False, True])
def test_an_hour_that_was_not_recorded_is_compared_with_no_other(tmp_path, lost):
    visits = [
        planted.Visit("shop", "person", at(11, n, day), 60.0) for day in range(8, 24) for n in range(40)
    ]
    visits.append(planted.Visit("shop", "person", at(12, 30), 60.0))
    more = [("shop", at(12), gap(at(11), at(11, 30), "camera_down"))] * lost
    said = told(tmp_path / "journal", visits, Span(at(0), at(18)), more=more)
    assert any("Nobody between 11:00 and 12:00 on shop; usually 40" in each for each in said) != lost


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the verb on one visit a day, at seven and at ten."""
    visits = [planted.Visit("yard", "car", at(hour, 5, day), 60.0) for day in (23, 24) for hour in (7, 10)]
    planted.write(tmp_path / "journal", visits)
    monkeypatch.setattr("daemon.commands.selection.present", lambda: at(18))
    return lambda *words: cli.main(["digest", *words, "-j", str(tmp_path), "--timezone", "UTC"])


@pytest.mark.parametrize(
    ("words", "title", "visits"),
    [
        ((), "Tue 24 Nov 2026 00:00 to 18:00", 2),
        (("since", "I", "left", "at", "8"), "Tue 24 Nov 2026 08:00 to 18:00", 1),
        (("yesterday",), "Mon 23 Nov 2026", 2),
        (("last", "night"), "Mon 23 Nov 2026 22:00 to Tue 24 Nov 2026 06:00", 0),
        (("the night of 23 to 24 November",), "Mon 23 Nov 2026 22:00 to Tue 24 Nov 2026 06:00", 0),
    ],
)
def test_a_span_in_words(digest, capsys, words, title, visits):
    assert digest(*words) == 0
    first, whole, *_ = capsys.readouterr().out.splitlines()
    assert first == title
    assert whole.startswith(f"* {visits} visit" if visits else "* Nobody and nothing came")


@pytest.mark.parametrize(
    ("words", "blamed"),
    [("sometime", "'sometime' is no time"), ("at night", "one span"), ("in december 2027", "to come")],
)
def test_what_is_no_span_is_refused_by_its_word(digest, capsys, words, blamed):
    assert digest(*words.split()) == 2
    assert blamed in capsys.readouterr().err


def test_json_names_records_and_the_query_that_finds_all(digest, capsys):
    assert digest("--json") == 0
    told = json.loads(capsys.readouterr().out)
    whole = told["sentences"][0]
    assert whole["records"] == ["yard-5", "yard-7"]
    since, until = "2026-11-24T00:00:00+00:00", "2026-11-24T18:00:00+00:00"
    assert whole["query"] == {"since": since, "until": until, "object": ["car"]}
    assert told["heads"]["yard"]["seq"] == 8
    assert digest() == 0
    assert f"yard, 8: {told['heads']['yard']['hash']}" in capsys.readouterr().out


def test_a_page_of_its_own_goes_where_a_link_or_a_pipe_leads(digest, tmp_path, capsys):
    ours, theirs = os.pipe()
    link, page = tmp_path / "stdout", tmp_path / "page.html"
    for place in (Path(f"/dev/fd/{theirs}"), page):
        link.symlink_to(place)
        assert digest("--html", str(link)) == 0
        assert link.readlink() == place
        link.unlink()
    os.close(theirs)
    with open(ours, "rb") as pipe:  # noqa: PTH123 - a descriptor
        assert pipe.read() == page.read_bytes()
    assert "2 visits on 1 camera: 2 cars" in page.read_text()
    assert "default-src 'none'" in page.read_text()
    assert capsys.readouterr().out == ""
    assert digest("--html", str(tmp_path / "none" / "d.html")) == cli.FAILED
    assert "cannot write" in capsys.readouterr().err
