"""An event's narration: its own frames, what they show, and what is said of it."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from still import NOON, shown

from models.boxes import Box
from models.captioner import DescribeOptions
from pipeline.changes import ChangeOptions
from pipeline.narration.events import (
    EventContext,
    RuleMet,
    gap_narration,
    narrate_event,
    rule_narration,
    summary_narration,
)
from pipeline.narration.narration import ModelStamp, Narration, RecordEvent, stamp
from pipeline.pairs import FramePair
from pipeline.record import ChainEnd, build_record
from pipeline.record_format import format_time
from pipeline.sources import Clock, Frame
from pipeline.tracking import Event

CONTEXT = EventContext(
    ChangeOptions(size=(144, 192), eps=3, min_samples=10, min_area=0.001),
    DescribeOptions(),
    (),
    ModelStamp("grounded", "c" * 64),
    "d" * 64,
    5.0,
)
DOOR: Box = (0.1, 0.3, 0.15, 0.5)
HALL: Box = (0.6, 0.3, 0.15, 0.5)


def frame(second: float, *boxes: Box, colour: tuple[int, int, int] = (200, 30, 30)) -> Frame:
    image = np.full((288, 384, 3), 110, np.uint8)
    for x, y, w, h in boxes:
        image[int(y * 288) : int((y + h) * 288), int(x * 384) : int((x + w) * 384)] = colour
    return shown(image, second, "hall")


def event(kind: str, before: Box | None, after: Box | None, **members: object) -> Event:
    begin = NOON.timestamp()
    facts: dict[str, object] = {
        "kind": kind,
        "track": "a-1",
        "object": "car",
        "class_p": 0.9,
        "time_s": begin + 1.5,
        "confidence": 0.87,
        "before_time_s": begin,
        "after_time_s": begin + 2.5,
        "box_before": before,
        "box_after": after,
    }
    return Event(**facts | members)  # type: ignore[arg-type]


def narrate(
    happened: Event, colour: str = "", origin: str = "", zone: str = "", **more: object
) -> tuple[Narration, FramePair]:
    frames = tuple(
        frame(s, *([box] if box else [])) for s, box in ((0, happened.box_before), (2.5, happened.box_after))
    )
    context = replace(CONTEXT, timezone=zone)
    return narrate_event(happened, (frames[0], frames[1]), context, colour, origin, **more)


def test_a_camera_whose_resolution_has_changed_in_between_is_narrated_all_the_same():
    before, after = frame(0), frame(2.5, DOOR)
    larger = shown(np.repeat(np.repeat(before.image, 2, axis=0), 2, axis=1), 0, "hall")
    told = [
        narrate_event(event("entered", None, DOOR, edge="left"), (first, after), CONTEXT)[0]
        for first in (before, larger)
    ]
    assert told[0].text == told[1].text
    assert told[0].l2 == pytest.approx(told[1].l2)


def test_an_entrance_is_shown_by_its_own_frames():
    narration, pair = narrate(
        event("entered", None, DOOR, edge="left", way="left", since_s=NOON.timestamp() + 1.5), "red"
    )
    (sentence,) = narration.sentences
    assert (sentence.type, sentence.action, sentence.track) == ("appeared", "entered", "a-1")
    assert (sentence.before, sentence.after, sentence.box) == (None, DOOR, DOOR)
    assert sentence.moment_s == pytest.approx(1.5)
    assert sentence.since_s == pytest.approx(1.5)
    assert (sentence.salience, sentence.confidence) == (1.0, 0.87)
    assert sentence.outline_after
    assert not sentence.outline_before
    assert (pair.before.pts, pair.after.pts) == (0, 2500)
    assert "red car" in sentence.text
    assert "from the left" in sentence.text


def test_a_departure_says_who_it_was_and_for_how_long():
    gone = event(
        "left", HALL, None, edge="right", way="right", duration_s=14.0, since_s=NOON.timestamp() - 12.5
    )
    (sentence,) = narrate(gone, "red", origin="left")[0].sentences
    assert (sentence.type, sentence.duration_s) == ("disappeared", 14.0)
    assert sentence.until_s == pytest.approx(1.5)
    for words in ("red car", "came in from the left at 11:59 UTC", "to the right", "14 s"):
        assert words in sentence.text


@pytest.mark.parametrize(
    ("zone", "since_s", "said"),
    [
        ("Europe/Berlin", 870, "left at 12:45 has"),
        ("Asia/Kolkata", 7200, "left at 15:30 has"),
        ("Europe/Berlin", 86_400, "left has"),  # of which day?
        ("Europe/Berlin", None, "left has"),  # nobody saw it come
        ("Europe/Berlin", NOON.timestamp(), "left has"),  # footage without a date
    ],
)
def test_a_departure_says_when_it_had_come_by_clocks_there(zone, since_s, said):
    undated = since_s == NOON.timestamp()
    ended = 900.0 if undated else NOON.timestamp() + 1.5
    since_s = since_s and (0.0 if undated else ended - 1.5 - since_s)
    gone = event("left", HALL, None, edge="right", way="right", since_s=since_s, time_s=ended)
    assert said in narrate(gone, origin="left", zone=zone)[0].text


BY_THE_RIGHT = {"edge": "right", "way": "right"}
GONE = event("left", HALL, None, **BY_THE_RIGHT)


@pytest.mark.parametrize(
    ("happened", "known", "text"),
    [
        (replace(GONE, duration_s=1.4), {}, "The car on the right has driven off to the right."),
        (GONE, {"colour": "red"}, "The red car on the right has driven off to the right."),
        (GONE, {"colour": "red", "among": True}, "A red car on the right has driven off to the right."),
        (
            event("stopped", DOOR, HALL, duration_s=3.0),
            {},
            "A car has stopped on the right.",
        ),  # for how long?
        (event("parked", HALL, HALL, duration_s=20.0), {}, "The car on the right has parked."),
        (event("entered", None, DOOR, edge="left"), {}, "A car has come in on the left."),
        (event("met", DOOR, DOOR, object="person"), {"colour": "red"}, "Two people have met on the left."),
        (
            event("met", DOOR, HALL, object="person", duration_s=4.0),
            {},
            "Two people have been standing together on the right for 4 s.",
        ),
    ],
)
def test_a_sentence_says_what_is_sure(happened, known, text):
    (sentence,) = narrate(happened, **known)[0].sentences
    assert sentence.text == text
    assert sentence.duration_s == (happened.duration_s or None)


@pytest.mark.parametrize(("seen_s", "said"), [(12.6, ", after at least 12 s."), (3.0, "right.")])
def test_who_was_not_seen_to_come_was_there_for_at_least_so_long(seen_s, said):
    gone = event("left", HALL, None, edge="right", way="right", seen_s=seen_s)
    (sentence,) = build_record(narrate(gone)[0], ChainEnd()).sentences
    begin = datetime.fromisoformat(sentence.until) - timedelta(seconds=seen_s)
    assert (sentence.since, sentence.duration_s) == (f"before {format_time(begin)}", seen_s)
    assert sentence.text.endswith(said)


def test_a_narration_names_the_one_that_it_completes():
    stopped = narrate(event("stopped", DOOR, HALL, duration_s=3.0))[0]
    parked = narrate(event("parked", HALL, HALL, duration_s=20.0), continues=stopped.id)[0]
    assert build_record(parked, ChainEnd()).continues == stopped.id


@pytest.mark.parametrize(("after", "kind"), [(HALL, "moved"), (DOOR, "unknown")])
def test_what_stays_in_view_has_moved_only_where_its_frames_show_it(after, kind):
    (sentence,) = narrate(event("stopped", DOOR, after, rests=True))[0].sentences
    (met,) = narrate(event("met", DOOR, after, object="person"))[0].sentences
    assert (sentence.type, met.type) == (kind, "unknown")


def test_events_that_share_their_frames_have_ids_of_their_own_and_the_same_every_time():
    first, second = (event("entered", None, DOOR, edge="left", track=track) for track in ("a-1", "a-2"))
    stopped = event("stopped", None, DOOR, edge="left")  # also of one track
    ids = [narrate(each)[0].id for each in (first, second, stopped, first)]
    assert ids[0] == ids[3]
    assert len(set(ids)) == 3


def test_every_kind_of_narration_is_a_record():
    narration, _ = narrate(event("entered", None, DOOR, edge="left"))
    gap = gap_narration(stamp(frame(0)), frame(600), "camera_down", CONTEXT)
    summary = summary_narration(narration, gap.sentences[0], ("hall-1", "hall-2"))
    met = RuleMet("hall", Clock.FILE, NOON, ("hall-1",), "vehicle", 0.9, maybe=True)
    now = stamp(frame(0))
    rules = [
        rule_narration("gate", "a van", (now, now), each, CONTEXT)
        for each in (met, replace(met, maybe=False))
    ]
    records = [build_record(each, ChainEnd()) for each in (narration, gap, summary, *rules)]
    assert [record.event for record in records] == ["change", "gap", "summary", "rule", "rule"]
    assert records[3].text == 'Rule "gate" may be met: a van (its kind was not sure).'
    assert records[4].text == 'Rule "gate" was met: a van.'
    assert (records[1].reason, records[1].since, records[1].until) == (
        "camera_down",
        "2024-03-01T12:00:00.000000Z",
        "2024-03-01T12:10:00.000000Z",
    )
    assert records[2].covers == ("hall-1", "hall-2")
    assert len({record.id for record in records[:4]}) == 4
    assert summary.event is RecordEvent.SUMMARY
    assert replace(summary, covers=()).covers == ()
