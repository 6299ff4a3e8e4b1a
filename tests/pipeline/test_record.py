import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import rfc8785
from narrations import MOVED, fullest, narration

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import FrameStamp
from pipeline.record import ChainEnd, Evidence, Record, build_record, next_stream_id, read_record
from pipeline.record_format import RecordError, check_camera, hash_holds

CAR = Sentence("A car has appeared on the left.", "appeared", "car", (0.41, 0.22, 0.18, 0.5), 0.77, 0.81)
PERSON = Sentence("A person has left.", "disappeared", "person", (0.1, 0.5, 0.05, 0.2), 0.5, 0.6)
MS = 1714521600000  # of the narration at second 0


def record(**changed: Any) -> Record:
    """The first record of a chain; any field of its narration may be replaced."""
    return build_record(narration(**{"sentences": (CAR, PERSON), **changed}), ChainEnd())


def test_a_record_has_the_specified_members():
    pictures = Evidence(before="sha256:" + "1" * 64, after="sha256:" + "2" * 64)
    told = narration(sentences=(CAR, PERSON), l2=12.34567)
    made = build_record(told, ChainEnd(), suppressed=3, latency_ms={"changes": 1.23456}, evidence=pictures)
    members = json.loads(made.line())
    digest = members.pop("hash")
    assert members == {
        "schema": "narrated/2",
        "id": "yard-0",
        "camera": "yard",
        "seq": 1,
        "before": {"time": "2024-04-30T23:59:59.000000Z", "pts": 0, "sha256": "a" * 64},
        "after": {"time": "2024-05-01T00:00:00.000000Z", "pts": 1, "sha256": "b" * 64},
        "clock": "file",
        "event": "change",
        "text": "A car has appeared on the left. A person has left.",
        "sentences": [
            {
                "text": "A car has appeared on the left.",
                "type": "appeared",
                "object": "car",
                "box": [0.41, 0.22, 0.18, 0.5],
                "salience": 0.77,
                "confidence": 0.81,
            },
            {
                "text": "A person has left.",
                "type": "disappeared",
                "object": "person",
                "box": [0.1, 0.5, 0.05, 0.2],
                "salience": 0.5,
                "confidence": 0.6,
            },
        ],
        "l2": 12.346,
        "suppressed": 3,
        "model": {"name": "ddla", "sha256": "c" * 64},
        "config_sha256": "d" * 64,
        "stream_id": f"{MS}-0",
        "latency_ms": {"changes": 1.2},
        "evidence": {"before": "sha256:" + "1" * 64, "after": "sha256:" + "2" * 64},
        "prev": "0" * 64,
    }
    assert digest == hashlib.sha256(rfc8785.dumps(members)).hexdigest()
    assert made.objects == ("car", "person")


GROUNDED = replace(
    MOVED, after=(0.5, 0.2, 0.2, 0.30000001), outline_after=((0.5, 0.2), (0.7, 0.2), (0.6, 0.49996))
)


def test_a_sentence_that_says_more_is_recorded_with_what_it_says():
    made = record(sentences=(GROUNDED,), abstained="unsure")
    members = json.loads(made.line())
    [sentence] = members["sentences"]
    assert members["abstained"] == "unsure"
    assert sentence["count"] == 2
    assert (sentence["box_before"], sentence["box_after"]) == ([0.1, 0.2, 0.2, 0.3], [0.5, 0.2, 0.2, 0.3])
    assert sentence["outline_before"] == [[0.1, 0.2], [0.3, 0.2], [0.2, 0.5]]
    assert sentence["outline_after"][2] == [0.6, 0.5]
    assert sentence["time"] == "2024-04-30T23:59:59.250000Z"
    assert made.sentences[0].before == GROUNDED.before
    partly = replace(GROUNDED, count=1, before=None, outline_before=(), moment_s=None)
    [sentence] = json.loads(record(sentences=(partly,)).line())["sentences"]
    assert sentence.keys() & {"count", "box_before", "outline_before", "time"} == set()
    assert sentence.keys() >= {"box_after", "outline_after"}


TRICKY = Sentence('A "hash":"' + "f" * 64 + '", was seen.', "unknown", "unknown", None, 0.0, 1.0)


@pytest.mark.parametrize("said", [(CAR, PERSON), (GROUNDED,), (TRICKY,)])
def test_a_record_reads_back_and_its_hash_holds(said):
    made = record(sentences=said)
    line = made.line()
    assert read_record(line) == made
    assert read_record(line).line() == line
    assert hash_holds(line)
    assert not hash_holds(line.replace(b"text", b"test", 1))
    second = build_record(narration(1), ChainEnd.of(made))
    assert (second.seq, second.prev) == (2, made.hash)


def test_a_record_of_the_first_schema_is_read_as_it_was_written():
    members = json.loads(record().line()) | {"schema": "narrated/1"}
    del members["hash"]
    members["hash"] = hashlib.sha256(rfc8785.dumps(members)).hexdigest()
    line = rfc8785.dumps(members)
    assert hash_holds(line)
    assert read_record(line).line() == line


def test_the_same_narration_gives_the_same_bytes_whatever_the_noise_in_the_last_digits():
    noisy = replace(CAR, salience=0.1 + 0.2, box=(1e-9, -1e-9, 0.3, 1.00000001))
    plain = replace(CAR, salience=0.3, box=(0.0, 0.0, 0.3, 1.0))
    assert record(sentences=(noisy,), l2=12.00000001).line() == record(sentences=(plain,), l2=12.0).line()


def test_times_are_utc_with_microseconds():
    zone = timezone(timedelta(hours=2))
    stamp = FrameStamp(datetime(2024, 5, 1, 14, 0, 0, 120_000, tzinfo=zone), 1, "b" * 64)
    made = record(after=stamp)
    assert made.after.time == "2024-05-01T12:00:00.120000Z"
    assert made.after.moment == stamp.time
    with pytest.raises(RecordError, match="no time zone"):
        record(after=replace(stamp, time=datetime(2024, 5, 1)))  # noqa: DTZ001


def test_scene_events_keep_their_names():
    for event in SceneEvent:
        assert record(event=event).event == ("change" if event is SceneEvent.NONE else event.value)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "-rf", "a b", "käse", "x" * 65, "a\n", "a{b}", "a*"])
def test_camera_names_that_are_not(name):
    with pytest.raises(RecordError, match="A-Z a-z 0-9 _"):
        record(camera=name)
    for safe in ("front_door", "A", "cam-1.left", "x" * 64):
        assert check_camera(safe) == safe


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"l2": float("nan")}, "l2"),
        ({"settings_sha256": "short"}, "config_sha256"),
        ({"sentences": (replace(CAR, type="exploded"),)}, "sentences.0.type"),
        ({"sentences": (replace(CAR, box=(0.5, 0.5, 1.5, 0.1)),)}, "sentences.0.box.2"),
        ({"sentences": (replace(GROUNDED, count=0),)}, "sentences.0.count"),
        (
            {"sentences": (replace(GROUNDED, outline_after=((0.1, 0.1), (2, 0.2), (0, 0))),)},
            "outline_after.1.0",
        ),
        ({"sentences": (replace(CAR, text="\ud800"),)}, "text"),
    ],
)
def test_a_narration_that_does_not_fit_is_refused_by_field(changed, field):
    with pytest.raises(RecordError, match=re.escape(field)):
        record(**changed)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: m.update(extra=1), "extra"),
        (lambda m: m.update(seq="1"), "seq"),
        (lambda m: m.pop("prev"), "prev"),
        (lambda m: m.update(schema="narrated/3"), "schema"),
        (lambda m: m["after"].update(time="2024-13-01T00:00:00.000000Z"), "after.time"),
        (lambda m: m.update(camera="../x"), "camera"),
        (lambda m: m.update(stream_id=str(MS)), "stream_id"),
    ],
)
def test_reading_refuses_what_is_no_record_by_field(change, field):
    members = json.loads(record().line())
    change(members)
    with pytest.raises(RecordError, match=re.escape(field)):
        read_record(json.dumps(members))


def test_stream_ids_rise_even_if_the_clock_does_not():
    time = datetime(2024, 5, 1, tzinfo=UTC)
    assert next_stream_id(time, (0, 0)) == (MS, 0)
    assert next_stream_id(time, (MS, 0)) == (MS, 1)
    assert next_stream_id(time - timedelta(hours=1), (MS, 7)) == (MS, 8)
    for year in (1969, 1970):
        assert next_stream_id(datetime(year, 1, 1, tzinfo=UTC), (0, 0)) == (0, 1)  # 0-0 is no valid id


def test_a_held_record_has_few_bytes_and_everything_that_is_counted():
    contour = tuple((0.1 + k / 100, 0.2) for k in range(32))
    long = Sentence(
        "The white car that came in from the background has left towards the camera, after 3 s.",
        *("disappeared", "car", (0.1, 0.2, 0.3, 0.4), 0.77, 0.81),
        before=(0.1, 0.2, 0.3, 0.4),
        outline_before=contour,
        paths=(contour,),
        moment_s=0.5,
        action="left",
        track="front_door-20240501-17",
        since_s=-2.5,
        until_s=0.5,
        duration_s=3.0,
    )
    sent, held = (record(sentences=(long,), held=h) for h in ("", "hourly"))
    kept = {"text", "type", "object", "confidence", "action", "track", "since", "until", "duration_s"}
    (ours,), (theirs,) = sent.members()["sentences"], held.members()["sentences"]
    assert {name: ours[name] for name in kept} == {name: theirs[name] for name in kept}
    assert len(rfc8785.dumps([ours])) > 500 >= len(rfc8785.dumps([theirs]))
    assert held.abstained is None
    many = record(sentences=(long,) * 16, held="cooldown")
    assert len(rfc8785.dumps(many.members()["sentences"])) <= 16 * 500
    assert len(many.sentences) == 16


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "null", "1", '"a"', "[" * 100_000, '{"a":1}', "\ufeff{}", "1" * 5000, b"\xff"]
)
def test_what_is_no_object_is_refused(line):
    with pytest.raises(RecordError):
        read_record(line)


def test_half_a_character_is_refused_and_a_written_out_one_is_not():
    line = json.dumps(fullest() | {"text": "a car \U0001f697 came"})
    assert r"\ud83d\ude97" in line
    assert read_record(line).text == "a car \U0001f697 came"
    with pytest.raises(RecordError):
        read_record(line.replace(r"\ude97", ""))
