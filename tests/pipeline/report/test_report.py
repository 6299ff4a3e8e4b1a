import base64
import html
import re
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import cv2
import numpy as np
import pytest
import webvtt

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal, verify
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.record import ChainEnd, Evidence, build_record
from pipeline.report.facts import ReportFacts
from pipeline.report.picture import Mark, draw_marks, encode, marks, side_by_side
from pipeline.report.words import clock_time
from pipeline.report.writer import write_report
from pipeline.sources import Clock

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
CAR = Sentence("A car has appeared.", "appeared", "car", (0.5, 0.5, 0.25, 0.25), 0.9, 0.875)


def narration(second=0.0, camera="yard", sentences=(CAR,), **changed):
    after = START + timedelta(seconds=second)
    made = Narration(
        id=f"{camera}-{second:g}",
        camera=camera,
        before=FrameStamp(after - timedelta(seconds=1.5), 0, "a" * 64),
        after=FrameStamp(after, 1, "b" * 64),
        clock=Clock.FILE,
        event=SceneEvent.NONE,
        sentences=tuple(sentences),
        l2=12.3,
        model=ModelStamp("ddla", "c" * 64),
        settings_sha256="d" * 64,
    )
    return replace(made, **changed)


def image(value=120, width=800, height=450):
    return np.full((height, width, 3), value, np.uint8)


@pytest.fixture
def report(tmp_path):
    """Writes a report of narrations; gives its folder and the page's text."""

    def write(narrations, facts=None):
        cameras, out = {}, tmp_path / "out"
        out.mkdir(exist_ok=True)
        store = EvidenceStore(tmp_path / "evidence", fsync=False)
        before, after = (store.put(encode(image(value), kind="jpg"), "jpg") for value in (90, 150))
        for told in narrations:
            records = cameras.setdefault(told.camera, [])
            end = ChainEnd.of(records[-1]) if records else ChainEnd()
            records.append(build_record(told, end, evidence=Evidence(before=before, after=after)))
        write_report(out, cameras, facts or ReportFacts(), tmp_path / "evidence")
        return out, (out / "report.html").read_text()

    return write


def test_the_head_sums_up_what_the_records_hold(report):
    light = Sentence("The light has changed.", "none", "scene", None, 1, 1)
    facts = ReportFacts(
        "What changed in yard",
        (("Footage", "yard.mp4"),),
        {"yard": START - timedelta(hours=1)},
        audit=(("Sampled", "2/s"),),
    )
    person = Sentence("A person has left.", "disappeared", "person", (0, 0, 0.1, 0.2), 0.5, 0.5)
    out, text = report(
        [narration(2.34, sentences=(CAR, person)), narration(9, sentences=(light,), event=SceneEvent.LIGHT)],
        facts,
    )
    shown = re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", " ", text.partition("<main")[2])))
    assert "What changed in yard Camera yard Time 1 May 2024, 11:00:00 to 12:00:09 UTC" in shown
    assert "Narrations 2, with 3 sentences How sure 2 of 2 sentences less than 90% sure" in shown
    assert "Footage yard.mp4 What happened 1 car came 1 person left the light changed once" in shown
    assert f"ddla (sha256 {'c' * 64})" in shown
    assert "12:00:02 yard Wednesday 1 May 2024, 1:00:02.3 into the footage" in shown
    lines = re.findall(r"<pre[^>]*>([^<]+)</pre>", text)
    assert [html.unescape(line) for line in lines] == (out / "narrations.jsonl").read_text().splitlines()


def test_nothing_narrated_gives_an_empty_report(report):
    out, text = report([])
    assert "Nothing was found." in text
    assert (out / "narrations.jsonl").read_bytes() == b""
    assert webvtt.read(str(out / "narrations.vtt")).captions == []


def test_each_sentence_is_a_subtitle_at_its_own_time(report):
    early = replace(CAR, text="A dog --> has left.", moment_s=0.5)
    facts = ReportFacts(starts={"yard": START})
    out, _ = report([narration(10, sentences=(CAR, early))], facts)
    captions = webvtt.read(str(out / "narrations.vtt")).captions
    assert [(c.start, c.text) for c in captions] == [
        ("00:00:09.000", "A dog --&gt; has left."),
        ("00:00:10.000", "A car has appeared."),
    ]


def test_subtitles_count_from_the_clips_start(report):
    two = (CAR, replace(CAR, text="A dog --> has left."))
    facts = ReportFacts(starts={"yard": START})
    out, _ = report([narration(s, sentences=two) for s in (1, 3.5, 3.6, 3700)], facts)
    assert [path.name for path in out.glob("*.vtt")] == ["narrations.vtt"]
    captions = webvtt.read(str(out / "narrations.vtt")).captions
    assert [(c.start, c.end) for c in captions] == [
        ("00:00:01.000", "00:00:03.500"),
        ("00:00:03.500", "00:00:05.000"),
        ("00:00:03.600", "00:00:08.600"),
        ("01:01:40.000", "01:01:45.000"),
    ]
    assert captions[0].lines == ["A car has appeared.", "A dog --&gt; has left."]


def test_several_cameras_are_merged_by_time_and_verify(tmp_path):
    """The yard's clock steps back: its chain must hold in the merged file all the same."""
    cameras = {}
    for camera, seconds in (("yard", (1, 5, 2, 9)), ("lot", (0, 1, 8))):
        with Journal(tmp_path, camera, fsync=False) as journal:
            cameras[camera] = [journal.append(narration(second, camera)) for second in seconds]
    out = tmp_path / "out"
    out.mkdir()
    write_report(out, cameras, ReportFacts(), tmp_path / "evidence")
    verification = verify([out / "narrations.jsonl"])
    assert verification.ok, verification.problems
    ids = re.findall(r'"id":"([a-z]+-\d)"', (out / "narrations.jsonl").read_text())
    assert ids == ["lot-0", "lot-1", "yard-1", "yard-5", "yard-2", "lot-8", "yard-9"]
    assert sorted(path.name for path in out.iterdir()) == [
        "lot.vtt",
        "narrations.jsonl",
        "report.html",
        "yard.vtt",
    ]
    assert "No pictures were kept of this." in (out / "report.html").read_text()


def test_a_failed_page_leaves_the_old_one(report, tmp_path):
    out, text = report([narration()])
    (tmp_path / "out" / "report.html.tmp").mkdir()
    with pytest.raises(OSError, match=r"report\.html"):
        write_report(out, {}, ReportFacts(), tmp_path)
    assert (out / "report.html").read_text() == text


def test_pictures_do_not_stay_in_memory(tmp_path):
    rng, store, records = np.random.default_rng(1), EvidenceStore(tmp_path / "evidence", fsync=False), []
    for second in range(12):
        noise = rng.integers(0, 255, (450, 800, 3), dtype=np.uint8)
        digest = store.put(encode(noise, kind="jpg"), "jpg")
        end = ChainEnd.of(records[-1]) if records else ChainEnd()
        records.append(build_record(narration(second), end, evidence=Evidence(before=digest, after=digest)))
    tracemalloc.start()
    write_report(tmp_path, {"yard": records}, ReportFacts(), tmp_path / "evidence")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "report.html").stat().st_size


def test_boxes_are_drawn_where_they_are():
    picture = image(100, 400, 200)
    drawn = draw_marks(picture, [Mark(1, (0.5, 0.25, 0.25, 0.5))])
    assert (picture == 100).all()
    assert drawn.shape == picture.shape
    assert drawn.dtype == np.uint8
    rows, columns = np.nonzero((drawn != 100).any(axis=2))
    assert (columns.min(), columns.max()) == pytest.approx((200, 300), abs=4)
    assert rows.max() == pytest.approx(150, abs=4)
    assert rows.min() < 48  # the number stands above the box
    assert (drawn[80:130, 230:280] == 100).all()


def test_an_outline_is_drawn_instead_of_the_box():
    triangle = ((0.5, 0.75), (0.75, 0.75), (0.75, 0.25))
    drawn = draw_marks(image(100, 400, 200), [Mark(1, (0.5, 0.25, 0.25, 0.5), triangle)])
    assert (drawn[100, 250] != 100).any()  # on its slope, inside the box
    assert (drawn[60:90, 195:240] == 100).all()  # at the box's corner
    assert (drawn[148:152, 220:280] != 100).any(axis=2).any(axis=0).all()


def test_what_is_told_is_marked_on_the_side_where_it_is():
    corners = ((0.1, 0.1), (0.2, 0.1), (0.2, 0.2))
    gone = replace(CAR, before=(0.1, 0.1, 0.1, 0.1), outline_before=corners)
    come = replace(CAR, after=(0.6, 0.6, 0.1, 0.1))
    moved = replace(CAR, before=(0.1, 0.5, 0.1, 0.1), after=(0.5, 0.5, 0.1, 0.1))
    nowhere = replace(CAR, box=None)
    told = [CAR, gone, come, moved, nowhere]
    assert marks(told, "before") == [Mark(1, CAR.box), Mark(2, gone.before, corners), Mark(4, moved.before)]
    assert marks(told, "after") == [Mark(1, CAR.box), Mark(3, come.after), Mark(4, moved.after)]
    record = build_record(narration(sentences=told), ChainEnd())
    for side in ("before", "after"):
        assert marks(record.sentences, side) == marks(told, side)


def test_every_number_is_drawn_differently():
    one, two = (draw_marks(image(), [Mark(number, (0.2, 0.4, 0.3, 0.3))]) for number in (1, 7))
    assert (one != two).any()  # 1 and 7 share a colour: the digits differ
    assert (draw_marks(image(), []) == image()).all()


@pytest.mark.parametrize("box", [(0, 0, 1, 1), (0.99, 0.99, 0.5, 0.5), (0, 0, 0, 0), (0.5, 0, 0.1, 0.01)])
def test_boxes_at_the_edges_are_cut(box):
    for width, height in ((800, 450), (40, 30), (8, 8)):
        drawn = draw_marks(image(100, width, height), [Mark(12, box), Mark(13, box)])
        assert drawn.shape == (height, width, 3)
        assert (drawn != 100).any()


def test_side_by_side_shows_both_pictures_and_the_sentences():
    told = (CAR, replace(CAR, text="Ein Käfer " * 40, box=None))
    picture = side_by_side(image(60, 640, 360), image(200, 320, 180), told)
    short = side_by_side(image(60, 640, 360), image(200, 320, 180), (CAR,))
    assert picture.dtype == np.uint8
    assert 1280 < picture.shape[1] < 1340
    assert picture.shape[0] > short.shape[0] > 360 + 40
    middle = picture.shape[1] // 2
    assert (picture[300, 100] == 60).all()
    assert (picture[300, middle + 200] == 200).all()
    assert side_by_side(image(60, 4000, 2000), image(60, 4000, 2000), ()).shape[1] < 1960
    silent, unsure = (side_by_side(image(), image(), (), *words) for words in ((), ("Unsure.",)))
    assert (silent != unsure).any()


def test_the_page_shows_the_images_that_were_given(report):
    _, text = report([narration()])
    for source, value in zip(re.findall(r'src="([^"]+)"', text), (90, 150), strict=True):
        raw = np.frombuffer(base64.b64decode(source.partition(",")[2]), np.uint8)
        decoded = cv2.imdecode(raw, cv2.IMREAD_COLOR)
        assert decoded.shape[1] == 600
        assert np.median(decoded) == pytest.approx(value, abs=3)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00.0"), (59.96, "1:00.0"), (3661.25, "1:01:01.2"), (-2.5, "-0:02.5")]
)
def test_offsets_read_as_players_show_them(seconds, text):
    assert clock_time(seconds) == text
