"""What stands beside an answer: gaps, what is not known, and errors that name a word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daemon import cli
from daemon.questions.asker import Asker
from daemon.questions.question import LocalTime, Question, SearchError, parse_time_of_day
from daemon.questions.restatement import restate
from daemon.search.occupancy import count
from daemon.search.output import caveats
from daemon.search.search import Search
from pipeline.camera_state import CAMERA_MEMORY, CameraMemory
from pipeline.feedback import FILE, FeedbackStore
from pipeline.narration.narration import FrameStamp

from .made_record import VISITS, moment, write_record

BERLIN = LocalTime.named("Europe/Berlin")
NOW = moment("2026-11-23T19:05")


@contextmanager
def made(state: Path, visits: str = VISITS) -> Iterator[Search]:
    """The made record in a state folder, to be asked."""
    if not (state / "journal").exists():
        write_record(state / "journal", visits)
    with Search(state / "journal", BERLIN) as search:
        search.index.update()
        yield search


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Search]:
    with made(tmp_path_factory.mktemp("made")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "gap"),
    [
        ("how many cars in the last hour", "yard Mon 2026-11-23 18:52:00 to 18:55:00 (overload)"),
        ("people today between 18:50 and 18:53", "(overload)"),
        ("who is still there", "(overload)"),
        ("what happened on 14 November", "yard Sat 2026-11-14 13:00:00 to 14:00:00 (hourly limit)"),
        ("how many people on camera door today", ""),
        ("cars today", "(overload)"),
        ("cars yesterday", "more: lobby Sun 2026-11-22 00:00:00 to 11:00:00 (before its first record)"),
        ("people on camera yard and camera lobby on Saturday", "lobby Sat 2026-11-21 00:00:00 to Sun"),
        ("was the yard camera offline today", ""),  # the answer itself
        ("cars every day between 3 am and 4 am", ""),
        ("cars every day between 6 pm and 7 pm", "(overload)"),
        ("cars in October 2025", "nobody watched then: the first record is of Sun 2026-03-29 01:50:00"),
    ],
)
def test_an_answer_says_what_was_not_recorded_in_one_line(search, question, gap):
    said = caveats(search, search.asker().read(question, NOW))
    assert len(said) == bool(gap)
    assert gap in "".join(said)


def test_an_outage_after_a_visit_leaves_open_what_is_there_now(tmp_path):
    with made(tmp_path) as search:
        still = search.asker().read("which cars are still there", NOW)
        assert [visit.track for visit in search.selection.visits(still)] == ["c4"]
        begin, end = (int(moment(f"2026-11-23T{clock}").timestamp() * 1e6) for clock in ("17:00", "17:10"))
        add = "INSERT INTO gaps VALUES (1, 'yard', ?, ?, 'outage')"
        search.index.connection.execute(add, (begin, end))
        assert search.selection.visits(still) == []
        there = search.asker().read("cars today at 16:30", NOW)
        assert "c4" in {visit.track for visit in search.selection.visits(there)}
        later = search.asker().read("which cars are still there", NOW + timedelta(days=3))
        with pytest.raises(SearchError, match="not known since Mon 2026-11-23 18:54:59"):
            search.selection.visits(later)


def test_what_users_marked_is_found(tmp_path):
    with made(tmp_path) as search:

        def found(question: str) -> set[str]:
            asked = search.asker().read(question, NOW)
            return {each.record.id for each in search.answer(asked).results}

        assert found("what did I mark") == set()
        cars = sorted(found("cars"))
        with closing(FeedbackStore(tmp_path / FILE)) as store:
            store.set_opinion(cars[0], 0, "wrong")
            store.set_note(cars[1], "the landlord's")
            store.set_opinion(cars[2], 0, "corrected", object="van")
        assert found("what did I mark") == {*cars[:3]}
        assert found("which events were marked as wrong") == {cars[0]}
        assert found("what was corrected by users") == {cars[2]}
        assert found("marked people") == set()


def test_now_is_not_known_since_narrated_stopped(tmp_path):
    def watch(camera: str, clock: str) -> None:
        seen = FrameStamp(moment(f"2026-11-23T{clock}"), 1, "a" * 64)
        CameraMemory(tmp_path / CAMERA_MEMORY / f"{camera}.json").save(seen, None)

    for camera in ("yard", "lobby", "door"):
        watch(camera, "19:04:50")
    with made(tmp_path) as search:
        still = search.asker().read("how many people are there now", NOW)
        assert search.selection.count(still)[0].visits == 1
        assert not any("not known" in said for said in caveats(search, still))
        longer = search.asker().read("who was in the lobby for longer than 1 minute", NOW)
        watched = search.selection.visits(longer)[-1]
        watch("lobby", "19:00")
        left_alone = search.selection.visits(longer)[-1]
        assert (watched.track, watched.there, left_alone.there) == (left_alone.track, True, False)
        assert watched.seconds - left_alone.seconds == (NOW - moment("2026-11-23T19:00")).total_seconds()
        assert search.selection.count(still)[0].visits == 0
        unknown = "now is not known of camera lobby since Mon 2026-11-23 19:00:00"
        assert [unknown in said for said in caveats(search, still)][-1]
        for camera in ("yard", "door"):
            watch(camera, "19:01")
        with pytest.raises(SearchError, match="not known since Mon 2026-11-23 19:01:00"):
            search.selection.count(still)
        lobby = search.asker().read("how many people are there now on camera lobby", NOW)
        with pytest.raises(SearchError, match="not known since Mon 2026-11-23 19:00:00"):
            search.selection.count(lobby)


def test_a_class_asked_for_may_be_recorded_as_the_open_one(tmp_path):
    open_classes = VISITS.replace("v2 | van", "v2 | vehicle").replace("b1 | cyclist", "b1 | rider")
    with made(tmp_path, open_classes) as search:
        for question, said in (
            ("when did the last car leave", "1 more visit recorded as vehicle"),
            ("how many vans or trucks today", "may be of a van or truck: Mon 2026-11-23 14:10:00"),
            ("how many vehicles today", ""),
            ("how many people today", ""),
            ("when did the last car leave on Sunday", ""),
        ):
            found = caveats(search, search.asker().read(question, NOW))
            doubts = [each for each in found if "may be of" in each]
            assert len(doubts) == bool(said), question
            assert said in "".join(doubts)
        riders = search.asker().read("did anyone come between 17:15 and 17:25", NOW)
        assert search.answer(riders).count == 1  # who is somebody for certain


def test_without_tracks_it_is_refused_to_say_who_is_there(tmp_path):
    write_record(tmp_path / "journal")
    for path in (tmp_path / "journal").glob("*.jsonl"):
        lines = [line for line in path.read_bytes().splitlines() if b'"track"' not in line]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    with made(tmp_path) as search:
        asked = search.asker().read("who is still there", NOW)
        with pytest.raises(SearchError, match="no tracks"):
            search.answer(asked)
        (group,) = search.selection.count(search.asker().read("how many people on 14 November", NOW))
        assert group.visits == 2


def test_a_slip_is_mended_and_said(search):
    for question, word, meant in (
        ("how many peple came yesterday", "peple", "people"),
        ("people at the entrence", "entrence", "entrance"),
        ("people on camera yrad", "yrad", "yard"),
        ("how many people came on thrusday", "thrusday", "thursday"),
        ("how many customers came today", "customers", "people"),
    ):
        asked = search.asker().read(question, NOW)
        assert f'"{word}" read as {meant}' in restate(asked, search.local)
        assert replace(asked, mended=()) == search.asker().read(question.replace(word, meant), NOW)
    with pytest.raises(SearchError, match=r"'vna' is not understood; did you mean van\? Understood"):
        search.asker().read("was there a vna yesterday", NOW)  # too short to be sure


@pytest.mark.parametrize(
    ("question", "cameras", "zones"),
    [
        # All that sound alike are meant, unless one is named.
        ("cars on front door", ("front_door", "front-door"), ()),
        ("cars on front-door", ("front-door",), ()),
        ("cars on yard", ("Yard", "yard"), ()),
        # One that is named like a thing or a place needs the word.
        ("cars on camera person", ("person",), ()),
        ("cars on camera 7", ("7",), ()),
        ("who was at the entrance", (), ("entrance",)),
        ("who was on camera entrance", ("entrance",), ()),
        # The longest name is meant.
        ("who was at the yard gate", (), ("yard gate",)),
        ("who was in the yard", ("Yard", "yard"), ()),
        # "Car park" is a place, but not after "did a"; a site is everywhere unless a place is called so.
        ("cars in the car park", (), ("car park",)),
        ("did a car park in the yard", ("Yard", "yard"), ()),
        ("people on site", (), ()),
        ("is anyone in the building", (), ("building",)),
    ],
)
def test_cameras_and_places_are_called_by_their_words(question, cameras, zones):
    names = ["front_door", "front-door", "Yard", "yard", "person", "7", "entrance"]
    places = ("entrance", "yard gate", "parking lot", "car park", "building")
    filters = Asker(names, frozenset(), BERLIN, places.__contains__).read(question, NOW).filters
    assert (filters.cameras, filters.zones) == (cameras, zones)


WORDS = (
    "when did a the last first person red cars came left to at on lot yesterday between and 6 9 pm by "
    "hour since monday night camera yard 7 days how many long is there still now busiest which most "
    "saw 80 % sure ? 3 May in dark clothes before gate longer than minutes 22.11.2026 18:19 "
    "every day from until parked 23.11. week"
)


@settings(deadline=None, max_examples=200)
@given(st.one_of(st.lists(st.sampled_from(WORDS.split()), max_size=9).map(" ".join), st.text(max_size=40)))
@example("a person at s")
def test_no_question_is_worse_than_not_understood(question):
    asker = Asker(["yard", "door"], frozenset({"gate"}), BERLIN, lambda name: name in ("lot", "entrance"))
    try:
        asked = asker.read(question, NOW)
    except SearchError:
        return
    assert restate(asked, BERLIN)
    span = asked.span
    assert not (span.since and span.until) or span.since < span.until


def test_lengths_and_presence_are_printed(search, capsys, monkeypatch):
    monkeypatch.setattr("daemon.commands.selection.present", lambda: NOW)
    at = ["query", "--journal", str(search.folder), "--timezone", "Europe/Berlin"]
    assert cli.main([*at, "how long was the white car there"]) == 0
    out, err = capsys.readouterr()
    shown, named = out.splitlines()
    assert shown.split() == ["Mon", "2026-11-23", "08:05:00", "to", "17:05:00", "yard", "car", "9", "hours"]
    assert named == "from the records yard-27 to yard-39"
    assert "understood as: White cars" in err
    assert "not everything was recorded" in err
    assert cli.main([*at, "how long did people stay on average yesterday"]) == 0
    assert "on average 10 minutes 42 seconds, over 5 visits" in capsys.readouterr().err
    assert cli.main([*at, "--json", "is anybody in the lobby"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["track"], answer["records"]) == ("p13", ["lobby-9"])
    assert cli.main([*at, "--json", "when was nobody at the desk yesterday"]) == 0
    spans = [json.loads(line)["records"] for line in capsys.readouterr().out.splitlines()]
    assert spans == [["lobby-2"]]


def test_a_count_by_day_has_the_empty_and_the_unwatched_ones(search):
    for question, counts in (
        ("how many people per day on camera lobby from 20 to 23 November", [None, None, 1, 2]),
        ("how many people per day on camera yard from 20 to 22 November", [0, 0, 1]),
        ("how many dogs on camera lobby today by hour of the day", [0] * 13 + [1] + [0] * 6),
        ("more people on camera lobby on Saturday than on Sunday", [None, 1]),
    ):
        assert [each.visits for each in count(search.selection, search.asker().read(question, NOW))] == counts
    minutes = search.asker().read("people per minute today", NOW)  # too many rows
    assert 0 not in {each.visits for each in count(search.selection, minutes)}


@pytest.mark.parametrize(("people", "crowd"), [(5, False), (6, True)])
def test_a_count_in_a_crowd_says_at_least(tmp_path, people, crowd):
    rows = (
        f"lobby | p{n} | person | 2026-11-23T10:0{n} | 2026-11-23T10:30 | person | -" for n in range(people)
    )
    with made(tmp_path, "\n".join(rows)) as search:
        for question, told in (("how many people today", crowd), ("how many cars today", False)):
            said = caveats(search, search.asker().read(question, NOW))
            said = [
                each
                for each in said
                if each.startswith("of a crowd some are not counted, so there were at least so many")
            ]
            assert bool(said) == told
            assert "lobby Mon 2026-11-23 10:05:00 to 10:30:00 (6 at once)" in "".join(said) or not told


def test_days_and_hours_are_by_the_time_zone_of_the_configuration(search, tmp_path, capsys):
    file = tmp_path / "narrated.yaml"
    file.write_text("version: 1\ntimezone: Asia/Tokyo\ncameras: {yard: {url: yard.mp4}}\n")
    at = ["query", "--journal", str(search.folder), "--limit", "1", "--json"]
    for zone, hours in (((), "+09:00"), (("--timezone", "Europe/Berlin"), "+01:00")):
        assert cli.main([*at, "-c", str(file), *zone]) == 0
        assert hours in json.loads(capsys.readouterr().out)["local_time"]


def test_times_of_options():
    for texts, minutes in (
        (("6", "6am"), 360),
        (("12am",), 0),
        (("12pm",), 720),
        (("6.30 pm", "18:30"), 1110),
        (("24:00",), 1440),
    ):
        assert {parse_time_of_day(text) for text in texts} == {minutes}
    for text in ("25", "24:30", "13pm", "0am", "6:70", "soon", ""):
        with pytest.raises(SearchError, match="22:00"):
            parse_time_of_day(text)
    for text, local in (
        ("7d", "2026-11-16T19:05"),
        ("yesterday", "2026-11-22T00:00"),
        ("Monday", "2026-11-23T00:00"),
        ("2026-05-01", "2026-05-01T00:00"),
        ("2026-05-01 22:15", "2026-05-01T22:15"),
        ("2026-05-01T22:15:00Z", "2026-05-02T00:15"),
    ):
        assert f"{BERLIN.of(BERLIN.parse(text, NOW)):%Y-%m-%dT%H:%M}" == local


def test_a_question_without_words_finds_everything(search):
    assert restate(Question(), BERLIN) == "Everything"
    assert restate(search.asker().read("boxes put down", NOW), BERLIN) == "Boxes that were put down"
    assert search.answer(Question()).count == len(list(search.answer(Question()).results)) > 40
    for now, hours in (("2026-03-29T12:00", 23), ("2026-10-25T12:00", 25)):  # clocks change
        today = search.asker().read("cars today", moment(now)).span
        assert today.until - today.since == timedelta(hours=hours)
