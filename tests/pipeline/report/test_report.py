"""What a replay leaves: records in one file, subtitles, and a page whose numbers come from the records."""

import base64
import html
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import cv2
import numpy as np
import pytest
import webvtt
from narrations import narration

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.evidence import EvidenceStore
from pipeline.feedback import Feedback, Remarks
from pipeline.journal import Journal
from pipeline.journal.verification import verify
from pipeline.narration.narration import FrameStamp, Narration
from pipeline.record import ChainEnd, Evidence, Record, build_record
from pipeline.report.page import Card, Head, environment, records_page, summarize, write_report
from pipeline.report.picture import COLOURS, encode
from pipeline.report.words import duration_words, format_offset

START = datetime(2024, 5, 1, tzinfo=UTC)
CAR = Sentence("A car has left.", "disappeared", "car", (0.5, 0.5, 0.25, 0.25), 0.9, 0.95)
COME = Sentence("A red car has come in.", "appeared", "car", (0.5, 0.5, 0.2, 0.2), 0.9, 0.95)
GONE = Sentence("A person has left.", "disappeared", "person", None, 0.5, 0.5, before=(0.1, 0.1, 0.1, 0.2))
PICTURES = {"before": "data:image/webp;base64,AA==", "after": "data:image/webp;base64,AA=="}
HEAD = Head("What changed")
LIGHT = Sentence("The light has changed.", "none", "scene", None, 1, 1)

Report = Callable[..., tuple[Path, str]]


def record(*sentences: Sentence, at_s: float = 0, camera: str = "yard", **changed: Any) -> Record:
    members = {name: changed.pop(name) for name in ("continues", "covers", "reason") if name in changed}
    members |= {"event": changed.pop("event")} if isinstance(changed.get("event"), str) else {}
    told = narration(at_s, camera, sentences=sentences or (CAR,), **changed)
    return build_record(told, ChainEnd()).model_copy(update=members)


@pytest.fixture
def report(tmp_path) -> Report:
    """Writes a report of narrations; gives its folder and the page's text."""

    def write(
        narrations: list[Narration], head: Head = HEAD, start: datetime | None = None
    ) -> tuple[Path, str]:
        cameras: dict[str, list[Record]] = {}
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        store = EvidenceStore(tmp_path / "evidence", fsync=False)
        pictures = (np.full((450, 800, 3), value, np.uint8) for value in (90, 150))
        before, after = (store.put(encode(picture), "jpg") for picture in pictures)
        for told in narrations:
            records = cameras.setdefault(told.camera, [])
            end = ChainEnd.of(records[-1]) if records else ChainEnd()
            records.append(build_record(told, end, evidence=Evidence(before=before, after=after)))
        ends = max((told.after.time for told in narrations), default=START)
        write_report(out, cameras, head, tmp_path / "evidence", {"yard": (start, ends)} if start else {})
        return out, (out / "report.html").read_text()

    return write


def test_the_page_sums_up_and_shows_what_the_records_hold(report):
    head = Head("What changed in yard", (("Footage", "yard.mp4"),))
    person = Sentence("A person has left.", "disappeared", "person", (0, 0, 0.1, 0.2), 0.5, 0.5)
    out, text = report(
        [narration(2, sentences=(CAR, person)), narration(9, sentences=(LIGHT,), event=SceneEvent.LIGHT)],
        head,
        START - timedelta(hours=1),
    )
    shown = re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", " ", text.partition("<main")[2])))
    time = "30 April 2024, 23:00:00 to 1 May 2024, 00:00:09 UTC"
    assert f"What changed in yard Footage yard.mp4 yard 2 narrations (3 sentences), {time}" in shown
    assert f"ddla (sha256 {'c' * 64})" in shown
    assert "00:00:02 yard Wednesday 1 May 2024, 01:00:02 into the footage" in shown
    lines = re.findall(r"<pre[^>]*>([^<]+)</pre>", text)
    assert [html.unescape(line) for line in lines] == (out / "narrations.jsonl").read_text().splitlines()
    for source, value in zip(re.findall(r'src="([^"]+)"', text), (90, 150, 90, 150), strict=True):
        raw = np.frombuffer(base64.b64decode(source.partition(",")[2]), np.uint8)
        decoded = cv2.imdecode(raw, cv2.IMREAD_COLOR)
        assert decoded is not None
        assert decoded.shape[1] == 600
        assert np.median(decoded) == pytest.approx(value, abs=3)


def test_nothing_narrated_gives_an_empty_report(report):
    out, text = report([])
    assert "Nothing was found." in text
    assert (out / "narrations.jsonl").read_bytes() == b""
    assert webvtt.read(str(out / "narrations.vtt")).captions == []


def test_each_sentence_is_a_subtitle_at_its_own_time(report):
    early = replace(CAR, text="A dog --> has left.", moment_s=0.0)
    out, _ = report([narration(s, sentences=(CAR, early)) for s in (2, 2.5, 3700)], start=START)
    captions = webvtt.read(str(out / "narrations.vtt")).captions
    assert [(c.start, c.end, c.text) for c in captions] == [
        ("00:00:01.000", "00:00:02.500", "A dog --&gt; has left."),
        ("00:00:01.500", "00:00:03.000", "A dog --&gt; has left."),
        ("00:00:02.000", "00:00:03.500", "A car has left."),
        ("00:00:02.500", "00:00:07.500", "A car has left."),
        ("01:01:39.000", "01:01:40.500", "A dog --&gt; has left."),
        ("01:01:40.000", "01:01:45.000", "A car has left."),
    ]


def test_several_cameras_are_merged_by_time_and_verify(tmp_path):
    """The yard's clock steps back: its records must stand in their order all the same."""
    cameras, out = {}, tmp_path / "out"
    for camera, seconds in (("yard", (1, 5, 2, 9)), ("lot", (0, 1, 8))):
        with Journal(out / "journal", camera, fsync=False) as journal:
            cameras[camera] = [journal.append(narration(second, camera)) for second in seconds]
    write_report(out, cameras, HEAD, tmp_path / "evidence", {})
    verification = verify([out / "narrations.jsonl"])
    assert verification.ok, verification.problems
    ids = re.findall(r'"id":"([a-z]+-\d)"', (out / "narrations.jsonl").read_text())
    assert ids == ["lot-0", "lot-1", "yard-1", "yard-5", "yard-2", "lot-8", "yard-9"]
    pages = {"lot.vtt", "yard.vtt", "narrations.jsonl", "report.html"}
    assert {path.name for path in out.iterdir()} == {"journal", *pages}
    assert "No pictures were kept of this." in (out / "report.html").read_text()


def test_pictures_do_not_stay_in_memory(tmp_path):
    rng, store = np.random.default_rng(1), EvidenceStore(tmp_path / "evidence", fsync=False)
    records: list[Record] = []
    for second in range(24):
        noise = rng.integers(0, 255, (450, 800, 3), dtype=np.uint8)
        digest = store.put(encode(noise), "jpg")
        end = ChainEnd.of(records[-1]) if records else ChainEnd()
        records.append(build_record(narration(second), end, evidence=Evidence(before=digest, after=digest)))
    tracemalloc.start()
    write_report(tmp_path, {"yard": records}, HEAD, tmp_path / "evidence", {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "report.html").stat().st_size


def test_which_cameras_and_the_time_covered():
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    undated = record(after=FrameStamp(epoch + timedelta(seconds=75), 1, "b" * 64), camera="lot")
    spans = {
        "yard": (START, START + timedelta(hours=26)),
        "gate": (START, START),
        "lot": (epoch, undated.after.moment),
    }
    told = {"yard": [record(at_s=13 * 3600)], "lot": [undated]}
    assert summarize(told, HEAD, spans).facts == [
        ("gate", "nothing to report, 1 May 2024, 00:00:00 to 1 May 2024, 00:00:00 UTC"),
        ("lot", "1 narration (1 sentence), 00:00:00 to 00:01:15"),
        ("yard", "1 narration (1 sentence), 1 May 2024, 00:00:00 to 2 May 2024, 02:00:00 UTC"),
    ]


def test_numbers_read_as_people_say_them():
    durations = [duration_words(seconds) for seconds in (0, 61, 3599.6, 7265)]
    assert durations == ["0 seconds", "1 minute 1 second", "1 hour", "2 hours 1 minute"]
    offsets = [format_offset(seconds) for seconds in (0, 83.9, 3600 * 30, -2)]
    assert offsets == ["00:00:00", "00:01:23", "30:00:00", "-00:00:02"]
    cards = [Card(record(replace(CAR, confidence=value))) for value in (0.8999, 0.9, 0.29)]
    assert [card.sentences[0].about for card in cards] == ["89% sure", "90% sure", "29% sure"]


def test_a_visit_is_one_card_that_holds_its_earlier_records(report):
    come = replace(CAR, type="appeared", action="entered", track="c", moment_s=1.0)
    gone = replace(CAR, action="left", track="c", moment_s=1.0, until_s=1.0, since_s=-7.0)
    _, text = report([narration(n, sentences=(each,)) for n, each in ((1, come), (5, CAR), (9, gone))])
    assert text.count("<article") == 3
    assert re.search(r"00:00:01 came in<.a> → *\n?<a[^>]*>00:00:09 left<", text)
    visit, other = text.partition("<main")[2].split("1 earlier of this visit")
    assert visit.count("<article") == 1
    assert "00:00:05" in other


def test_sentences_stand_in_the_order_of_their_times():
    """Numbers follow the order shown; feedback keeps to the place in the record."""
    told = record(COME, GONE, replace(COME, text="A van."), at_s=9)
    early = "2024-05-01T00:00:07.000000Z"
    since = {"since": "before 2024-05-01T00:00:00.000000Z", "duration_s": 14.0}
    changes = ({"time": early.replace("7.", "8.")}, {"time": early, **since}, {"time": None})
    sentences = [s.model_copy(update=change) for s, change in zip(told.sentences, changes, strict=True)]
    told = told.model_copy(update={"sentences": tuple(sentences)})
    opinion = Feedback("corrected", None, "dog", "ann", datetime.now(UTC))
    card = Card(told, ZoneInfo("Europe/Berlin"), remarks=Remarks(feedback={1: opinion}))
    shown = card.sentences
    assert [(s.number, s.place, s.sentence.text) for s in shown] == [
        (1, 1, "A person has left."),
        (2, 0, "A red car has come in."),
        (3, 2, "A van."),
    ]
    assert shown[0].about == "02:00:07 · since before 02:00:00 · for at least 14 seconds · 50% sure"
    assert shown[0].feedback == opinion
    assert card.clock == "02:00:09"
    assert [shape.number for shape in card.shapes("before")] == [1, 2, 3]
    assert [shape.number for shape in card.shapes("after")] == [2, 3]


def test_the_page_is_whole_and_escapes_what_it_shows():
    evil = replace(COME, text='<script>alert("x")</script> & "more"', object="<b>")
    cards = [Card(record(evil, at_s=1), pictures=PICTURES), Card(record(COME, at_s=2, event="light_changed"))]
    head = Head("<i>title</i>", [("<u>", "</dl>")], missing=["It does not verify: <x>."])
    page = "".join(records_page(head, cards))
    assert page.count("<script") == 1  # its own
    assert not re.search(r"https?:|<link|url\(|@import|<i>|<u>|<x>", page)
    assert page.count('src="data:image/webp') == 2
    assert page.count('class="card') == 2
    assert "light changed" in page


def test_marks_have_the_colours_of_the_pictures():
    style = environment().globals["style"]
    found = [re.search(rf"\.c{n} {{ --mark: #([0-9a-f]{{6}})", style) for n in range(len(COLOURS))]
    assert [tuple(bytes.fromhex(match[1])) for match in found if match] == list(COLOURS)


def test_what_was_not_recorded_is_said_in_one_sentence_each():
    span = {"since": "2024-05-01T10:00:00.000000Z", "until": "2024-05-01T10:12:30.000000Z", "sentences": ()}
    gap = record().model_copy(update={"event": "gap", "reason": "camera_down", "text": "", **span})
    text, away = "Nothing was seen: not analysed.", "1 May 2024, 10:00:00 to 1 May 2024, 10:12:30"
    failed = gap.model_copy(update={"reason": "outage", "text": text})
    found = [record(), gap, failed, record(abstained="unsure"), record(fallback="late")]
    assert summarize({"yard": found}, Head("", missing=["clip.mp4: no such file"]), {}).missing == [
        "clip.mp4: no such file",
        f"Nothing was recorded of yard from {away}: the camera was down.",
        f"yard, {away}: {text}",
        "Possibly more in 1 narration, with too little confidence to be reported.",
        "What changed, in 1 narration: the computer could not keep up.",
    ]
    assert summarize({"yard": [record()]}, HEAD, {}).missing == []
    page = "".join(records_page(Head(""), [Card(gap)]))
    assert "Nothing was recorded of yard from 1 May 2024, 10:00:00" in page


def test_footage_without_a_date_shows_the_time_into_it():
    moment = datetime(1970, 1, 1, 0, 1, 2, tzinfo=UTC)
    before, after = (FrameStamp(moment - timedelta(seconds=s), 0, "a" * 64) for s in (3, 0))
    card = Card(record(COME, before=before, after=after), start=moment)
    assert (card.clock, card.day, card.gap) == ("00:01:02", "footage without a date", "3.0 s earlier")
