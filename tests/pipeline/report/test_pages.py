"""Cards and the page of one file: what they show of a record, and that nothing else is needed to see it."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from narrations import narration

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.feedback import Feedback, Mark, Remarks
from pipeline.record import ChainEnd, Record, build_record
from pipeline.report.card import COLOURS, Card
from pipeline.report.pages import Head, environment, records_page
from pipeline.report.summary import ReportFacts, summarize

CHROMIUM = shutil.which("chromium")
CAR = Sentence("A red car has come in.", "appeared", "car", (0.5, 0.5, 0.2, 0.2), 0.9, 0.95)
GONE = Sentence("A person has left.", "disappeared", "person", None, 0.5, 0.5, before=(0.1, 0.1, 0.1, 0.2))
PICTURES = {"before": "data:image/webp;base64,AA==", "after": "data:image/webp;base64,AA=="}


def record(
    second: float = 1.0, *sentences: Sentence, members: dict[str, Any] | None = None, **changed: Any
) -> Record:
    built = build_record(
        narration(second, **({"sentences": sentences} if sentences else {}), **changed), ChainEnd()
    )
    return built.model_copy(update=members or {})


def test_sentences_stand_in_the_order_of_their_times() -> None:
    """Numbers follow the order shown; feedback keeps to the place in the record."""
    told = record(9, CAR, GONE, replace(CAR, text="A van."))
    times = ("2024-05-01T00:00:08.000000Z", "2024-05-01T00:00:07.000000Z", None)
    extra = {"since": "before 2024-05-01T00:00:00.000000Z", "duration_s": 14.0}
    sentences = [
        s.model_copy(update={"time": t, **(extra if t == times[1] else {})})
        for s, t in zip(told.sentences, times, strict=True)
    ]
    told = told.model_copy(update={"sentences": tuple(sentences)})
    opinion = Feedback("corrected", None, "dog", "ann", datetime.now(UTC))
    card = Card(
        told, ZoneInfo("Europe/Berlin"), remarks=Remarks(Mark("ann", datetime.now(UTC)), None, {1: opinion})
    )
    shown = card.sentences
    assert [(s.number, s.place, s.sentence.text) for s in shown] == [
        (1, 1, "A person has left."),
        (2, 0, "A red car has come in."),
        (3, 2, "A van."),
    ]
    assert shown[0].about == "02:00:07 · since before 02:00:00 · for 14 seconds · 50% sure"
    assert shown[0].feedback == opinion
    assert card.clock == "02:00:09"
    assert [shape.number for shape in card.shapes("before")] == [1, 2, 3]
    assert [shape.number for shape in card.shapes("after")] == [2, 3]


def test_the_page_is_whole_and_escapes_what_it_shows() -> None:
    evil = replace(CAR, text='<script>alert("x")</script> & "more"', object="<b>")
    cards = [Card(record(1, evil), pictures=PICTURES), Card(record(2, event=SceneEvent.LIGHT))]
    head = Head("<i>title</i>", [("<u>", "</dl>")], ["It does not verify: <x>."])
    page = "".join(records_page(head, cards))
    assert page.count("<script") == 1  # its own
    assert not re.search(r"https?:|<link|url\(|@import|<i>|<u>|<x>", page)
    assert page.count('src="data:image/webp') == 2
    assert page.count('class="card') == 2
    assert "light changed" in page


def test_marks_have_the_colours_of_the_pictures() -> None:
    style = environment().globals["style"]
    found = [re.search(rf"\.c{n} {{ --mark: #([0-9a-f]{{6}})", style) for n in range(len(COLOURS))]
    assert [tuple(bytes.fromhex(match[1])) for match in found if match] == list(COLOURS)


def test_what_was_not_recorded_is_said_in_one_sentence_each() -> None:
    span = {"since": "2024-05-01T10:00:00.000000Z", "until": "2024-05-01T10:12:30.000000Z"}
    gap = record(members={"event": "gap", "reason": "camera_down", **span, "sentences": (), "text": ""})
    assert summarize([record(), gap], ReportFacts()).missing == [
        "Nothing was recorded of yard from 1 May 2024, 10:00:00 to 1 May 2024, 10:12:30: the camera was down."
    ]
    page = "".join(records_page(Head(""), [Card(gap)]))
    assert "Nothing was recorded of yard from 1 May 2024, 10:00:00" in page


def test_footage_without_a_date_shows_the_time_into_it() -> None:
    moment = datetime(1970, 1, 1, 0, 1, 2, tzinfo=UTC)
    stamps = {
        "after": replace(narration().after, time=moment),
        "before": replace(narration().before, time=moment - timedelta(seconds=3)),
    }
    card = Card(record(0, CAR, **stamps), start=moment)
    assert (card.clock, card.day, card.gap) == ("1:02.0", "footage without a date", "3.0 s earlier")
