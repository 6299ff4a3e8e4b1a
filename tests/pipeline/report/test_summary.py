"""The report's summary: every number of it comes from the records, in words for people."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.record import ChainEnd, Record, build_record
from pipeline.report.facts import ReportFacts
from pipeline.report.summary import summary
from pipeline.report.words import duration_words, happened, plural, sureness
from pipeline.sources import Clock

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CAR = Sentence("A car has left.", "disappeared", "car", None, 0.9, 0.95)


def record(
    *sentences: Sentence, camera: str = "yard", at: datetime = START, suppressed: int = 0, **changed: object
) -> Record:
    stamps = (FrameStamp(at - timedelta(seconds=1), 0, "a" * 64), FrameStamp(at, 1, "b" * 64))
    told = Narration(
        "id",
        camera,
        *stamps,
        Clock.FILE,
        SceneEvent.NONE,
        sentences or (CAR,),
        1.0,
        ModelStamp("ddla", "c" * 64),
        "d" * 64,
    )
    built = build_record(replace(told, **changed), ChainEnd())
    return built.model_copy(update={"suppressed": suppressed})


def test_what_happened_is_counted_by_objects_not_by_sentences() -> None:
    people = replace(CAR, type="appeared", object="person", count=11)
    person = replace(people, count=None)
    crowd = replace(CAR, type="more", object="person", count=30)
    light = replace(CAR, type="none", object="scene")
    told = [record(people, CAR), record(person, crowd), record(light, event=SceneEvent.LIGHT)]
    happenings = summary(told, ReportFacts()).happenings
    assert happenings == [
        ("12 people came", "type=appeared&object=person"),
        ("1 car left", "type=disappeared&object=car"),
        ("the light changed once", "type=light_changed"),
        ("more people once", "type=more&object=person"),
    ]


@pytest.mark.parametrize(
    ("kind", "noun", "count", "words"),
    [
        ("appeared", "bag", 2, "2 bags appeared"),  # nobody says that a bag came
        ("disappeared", "bus", 3, "3 buses left"),
        ("disappeared", "object", 1, "1 object disappeared"),
        ("moved", "person", 2, "2 people moved"),
        ("fewer", "car", 2, "fewer cars twice"),
        ("replaced", "car", 2, "2 cars were replaced"),
        ("unknown", "something", 5, "something changed 5 times"),
        ("unknown", "car", 1, "1 car changed"),
        ("none", "scene", 1, "no change once"),
        ("appeared", "tree", 1, "1 tree appeared"),
        ("appeared", "person", 1200, "1,200 people came"),
        ("obstructed", "", 2, "the view was blocked twice"),
    ],
)
def test_what_happened_reads_as_english(kind: str, noun: str, count: int, words: str) -> None:
    assert happened(kind, noun, count) == words


def test_nouns_have_the_plural_that_the_sentences_use() -> None:
    from train.papers.generated.captions import NOUNS

    assert {name: plural(name) for name in NOUNS} == {name: forms[0][1] for name, forms in NOUNS.items()}


def test_which_cameras_and_the_time_covered() -> None:
    told = [record(at=START + timedelta(hours=13)), record(camera="lot")]
    starts = {"yard": START, "gate": START - timedelta(minutes=1), "lot": START}
    ends = {"yard": START + timedelta(hours=14)}
    rows = dict(summary(told, ReportFacts(starts=starts, ends=ends)).facts)
    assert rows["Cameras"] == "gate, lot and yard (nothing to report from gate)"
    assert rows["Time"] == "1 May 2024, 11:59:00 to 2 May 2024, 02:00:00 UTC"
    undated = [record(at=EPOCH + timedelta(seconds=75))]
    assert dict(summary(undated, ReportFacts(starts={"yard": EPOCH})).facts) == {
        "Camera": "yard",
        "Time": "1 minute 15 seconds of footage without a date",
        "Narrations": "1",
        "How sure": "0 of 1 sentence less than 90% sure",
    }


def test_only_what_the_captioner_told_can_be_less_than_sure() -> None:
    sentences = [replace(CAR, confidence=value) for value in (0.9, 0.8999, 0.2)]
    light = record(replace(CAR, confidence=0.1), event=SceneEvent.LIGHT)
    late = record(replace(CAR, confidence=0.0), fallback="late")
    rows = dict(summary([record(*sentences), light, late], ReportFacts()).facts)
    assert rows["How sure"] == "2 of 3 sentences less than 90% sure"
    assert (sureness(0.8999), sureness(0.9), sureness(0.29)) == ("89% sure", "90% sure", "29% sure")


def test_what_was_not_reported() -> None:
    found = [record(suppressed=3, abstained="unsure"), record(fallback="late", suppressed=8)]
    counted = ReportFacts(untold={"cooldown": 1, "there already": 1200}, gaps=("clip.mp4: no such file",))
    assert summary(found, counted).missing == [
        "clip.mp4: no such file",
        "It was there already: 1,200 sentences.",
        "Something like it had been reported shortly before: 1 sentence.",
        "Perhaps more in 1 narration, not sure enough to be reported.",
        "What it was that changed, in 1 narration: the computer could not keep up.",
    ]
    assert "Repetition, or more than the hourly limit: 11 narrations." in (
        summary(found, ReportFacts()).missing or ()
    )
    assert summary([record()], ReportFacts()).missing == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (61, "1 minute 1 second"),
        (3599.6, "1 hour"),
        (7265, "2 hours 1 minute"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words
