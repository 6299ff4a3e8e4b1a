"""Plain questions: what each is understood as, and what is not understood."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.questions.asker import EXAMPLES, Asker
from daemon.questions.errors import SearchError
from daemon.questions.local_time import LocalTime
from daemon.questions.question import options_of
from daemon.questions.time_of_day import parse_time_of_day

LONDON = LocalTime.named("Europe/London")
NOW = datetime(2026, 5, 13, 15, 30, tzinfo=UTC)
"""A Wednesday, half past four in London."""
CAMERAS = ["front_door", "yard", "gate.2", "person", "entrance", "7", "Lot-1"]
ASKER = Asker(CAMERAS, frozenset({"umbrella", "drone"}), LONDON, lambda name: name == "entrance")

UNDERSTOOD = {
    "when did a person last come to the entrance": "--zone entrance --object person --kind came --last",
    "When did a PERSON last come to the entrance?": "--zone entrance --object person --kind came --last",
    "how many lorries yesterday between 6 and 9 by hour": "--object truck --since 2026-05-12T00:00 "
    "--until 2026-05-13T00:00 --between 06:00 09:00 --count --by hour",
    "which red cars left the lot last night": "--zone lot --object car --kind left --colour red "
    "--since 2026-05-12T22:00 --until 2026-05-13T06:00",
    "show the last 5 people in dark clothes on camera front_door": "--camera front_door --object person "
    "--colour dark --last --limit 5",
    "how many people in the last 7 days by day": "--object person --since 2026-05-06T16:30 --count --by day",
    "what happened since monday between 22:00 and 6:00": "--since 2026-05-11T00:00 --between 22:00 06:00",
    "who came last night": "--object somebody --kind came --since 2026-05-12T22:00 --until 2026-05-13T06:00",
    "people who walked to the gate before 6": "--zone gate --object person --kind came --between 00:00 06:00",
    "which cars drove from the ramp": "--zone ramp --object car --kind left",
    "who came from the ramp": "--zone ramp --object somebody --kind appeared --kind moved",
    "which people walked": "--object person --kind moved",
    "which cars came or left today": "--object car --kind came --kind left --since 2026-05-13T00:00 "
    "--until 2026-05-14T00:00",
    "how many cars and vans on front door today per hour": "--camera front_door --object car --object van "
    "--since 2026-05-13T00:00 --until 2026-05-14T00:00 --count --by hour",
    "what did the front door camera see yesterday evening": "--camera front_door --since 2026-05-12T18:00 "
    "--until 2026-05-12T22:00",
    "which cars were on camera person": "--camera person --object car",
    "who was on camera entrance": "--camera entrance --object somebody",
    "who was at the entrance": "--zone entrance --object somebody",
    "bicycles in the last hour on gate 2": "--camera gate.2 --object bicycle --since 2026-05-13T15:30",
    "what happened on camera 7": "--camera 7",
    "cars on lot-1 and yard": "--camera Lot-1 --camera yard --object car",
    "when did a person last come in": "--object person --kind came --last",
    "who came in yesterday": "--object somebody --kind came --since 2026-05-12T00:00 "
    "--until 2026-05-13T00:00",
    "did a dog come in the garden this morning": "--zone garden --object dog --kind came "
    "--since 2026-05-13T06:00 --until 2026-05-13T12:00",
    "when was the last time a bike left": "--object bicycle --kind left --last",
    "first person yesterday": "--object person --since 2026-05-12T00:00 --until 2026-05-13T00:00 --first",
    "show me all white lorries on the left between 6 and 9 pm": "--zone left --object truck --colour white "
    "--between 18:00 21:00",
    "cars between 11 and 2pm": "--object car --between 11:00 14:00",
    "cars from 6 to 9": "--object car --between 06:00 09:00",
    "what happened on 3 May": "--since 2026-05-03T00:00 --until 2026-05-04T00:00",
    "what happened on June 3": "--since 2025-06-03T00:00 --until 2025-06-04T00:00",
    "what happened on 2024-02-29": "--since 2024-02-29T00:00 --until 2024-03-01T00:00",
    "cars on 29 february": "--object car --since 2024-02-29T00:00 --until 2024-03-01T00:00",
    "cars on wednesday": "--object car --since 2026-05-13T00:00 --until 2026-05-14T00:00",
    "cars last wednesday": "--object car --since 2026-05-06T00:00 --until 2026-05-07T00:00",
    "cars last week": "--object car --since 2026-05-04T00:00 --until 2026-05-11T00:00",
    "cars this month": "--object car --since 2026-05-01T00:00 --until 2026-06-01T00:00",
    "cars last month": "--object car --since 2026-04-01T00:00 --until 2026-05-01T00:00",
    "cars last year": "--object car --since 2025-01-01T00:00 --until 2026-01-01T00:00",
    "cars three days ago": "--object car --since 2026-05-10T00:00 --until 2026-05-11T00:00",
    "cars the day before yesterday": "--object car --since 2026-05-11T00:00 --until 2026-05-12T00:00",
    "how many people between monday and wednesday by day": "--object person --since 2026-05-11T00:00 "
    "--until 2026-05-14T00:00 --count --by day",
    "cars after 22:00 yesterday": "--object car --since 2026-05-12T22:00",
    "cars after 22:00": "--object car --between 22:00 00:00",
    "cars since 6am": "--object car --since 2026-05-13T06:00",
    "cars since 18:00": "--object car --since 2026-05-12T18:00",
    "cars after monday": "--object car --since 2026-05-12T00:00",
    "cars before monday": "--object car --until 2026-05-11T00:00",
    "cars until monday": "--object car --until 2026-05-12T00:00",
    "cars before noon yesterday": "--object car --until 2026-05-12T12:00",
    "how many red cars at least 80% sure": "--object car --colour red --confidence 0.8 --count",
    "cars surer than 0.75": "--object car --confidence 0.75",
    "how often did the light change": "--kind light_changed --count",
    "when was the camera blocked": "--kind obstructed",
    "umbrella": "--object umbrella",
    'narrations saying "driven off" today': "--text '\"driven off\"' --since 2026-05-13T00:00 "
    "--until 2026-05-14T00:00",
    "how many people at night by hour of the day and camera": "--object person --between 22:00 06:00 --count "
    "--by hour-of-day --by camera",
    "how many vehicles daily": "--object vehicle --count --by day",
}

NOT_UNDERSTOOD = {
    "when did a person not come": "'not' is not understood",
    "how many lorries yesterday betwen 6 and 9": "'betwen' is not understood",
    "cars without drivers": "'without' is not understood",
    "": "it ends too soon",
    "the": "nothing that can be looked for",
    "cars at the bus stop by the river": r"two things of the same kind \(place\)",
    "cars on 31 february": "there is no 31 february",
    "cars between 25 and 26": "not a time of day",
    "two cars": "'two' is not understood",
    "where is my car": "'where' is not understood",
}


@pytest.mark.parametrize(("question", "options"), UNDERSTOOD.items())
def test_a_question_is_understood_as_options(question, options):
    assert options_of(ASKER.read(question, NOW), LONDON) == options


@pytest.mark.parametrize(("question", "reason"), NOT_UNDERSTOOD.items())
def test_what_is_not_understood_is_an_error(question, reason):
    with pytest.raises(SearchError, match=reason):
        ASKER.read(question, NOW)


def test_the_error_shows_examples_that_are_understood():
    with pytest.raises(SearchError) as caught:
        ASKER.read("quo vadis", NOW)
    for example in EXAMPLES:
        assert example in str(caught.value)
        ASKER.read(example, NOW)


def test_cameras_that_sound_alike_are_all_meant_unless_one_is_named():
    alike = Asker(["front_door", "front-door", "Yard", "yard"], frozenset(), LONDON, lambda _: False)
    assert alike.read("cars on front door", NOW).filters.cameras == ("front_door", "front-door")
    assert alike.read("cars on front-door", NOW).filters.cameras == ("front-door",)
    assert alike.read("cars on yard", NOW).filters.cameras == ("Yard", "yard")


def test_a_day_begins_at_midnight_also_when_clocks_change():
    spring = datetime(2026, 3, 30, 12, tzinfo=UTC)
    assert options_of(ASKER.read("cars yesterday", spring), LONDON) == (
        "--object car --since 2026-03-29T00:00 --until 2026-03-30T00:00"
    )
    asked = ASKER.read("cars yesterday", spring).filters
    assert (asked.until - asked.since).total_seconds() == 23 * 3600


WORDS = [
    *(
        "when",
        "did",
        "a",
        "the",
        "last",
        "first",
        "person",
        "red",
        "cars",
        "came",
        "left",
        "to",
        "at",
        "on",
        "lot",
    ),
    *(
        "yesterday",
        "between",
        "and",
        "6",
        "9",
        "pm",
        "by",
        "hour",
        "since",
        "monday",
        "night",
        "camera",
        "yard",
        "7",
    ),
    *(
        "days",
        "how many",
        '"x"',
        "80%",
        "sure",
        "?",
        "3",
        "May",
        "in dark clothes",
        "the last",
        "before",
        "gate 2",
    ),
]


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), st.text(max_size=40)))
def test_no_question_is_worse_than_not_understood(question):
    try:
        asked = ASKER.read(question, NOW)
    except SearchError:
        return
    options_of(asked, LONDON)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("22:00", 1320),
        ("6", 360),
        ("6am", 360),
        ("12am", 0),
        ("12pm", 720),
        ("6.30 pm", 1110),
        ("24:00", 1440),
    ],
)
def test_times_of_the_day(text, minutes):
    assert parse_time_of_day(text) == minutes


@pytest.mark.parametrize("text", ["25", "24:30", "13pm", "0am", "6:70", "soon", ""])
def test_what_is_no_time_of_the_day(text):
    with pytest.raises(SearchError, match="22:00"):
        parse_time_of_day(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("7d", "2026-05-06T16:30"),
        ("2w", "2026-04-29T16:30"),
        ("90m", "2026-05-13T15:00"),
        ("yesterday", "2026-05-12T00:00"),
        ("Monday", "2026-05-11T00:00"),
        ("2026-05-01", "2026-05-01T00:00"),
        ("2026-05-01T22:15", "2026-05-01T22:15"),
        ("2026-05-01 22:15", "2026-05-01T22:15"),
        ("2026-05-01T22:15:00Z", "2026-05-01T23:15"),
    ],
)
def test_moments_of_options(text, moment):
    assert f"{LONDON.of(LONDON.parse(text, NOW)):%Y-%m-%dT%H:%M}" == moment


def test_what_is_no_moment_or_zone():
    with pytest.raises(SearchError, match="write 7d"):
        LONDON.parse("a while ago", NOW)
    with pytest.raises(SearchError, match="Europe/London"):
        LocalTime.named("Middle/Earth")
