import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
import rfc8785
from jsonschema import Draft202012Validator

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.record import (
    ChainEnd,
    Evidence,
    RecordError,
    build_record,
    check_camera,
    hash_holds,
    json_schema,
    next_stream_id,
    read_record,
)
from pipeline.sources import Clock


@pytest.fixture(scope="module")
def make_narration():
    """Narrations as the narrator would hand them on; any field may be replaced."""

    def make(second=0.0, camera="front_door", **changed):
        after = datetime(2024, 5, 1, 12, tzinfo=UTC) + timedelta(seconds=second)
        narration = Narration(
            id=f"{camera}-{second:g}",
            camera=camera,
            before=FrameStamp(after - timedelta(seconds=1), 0, "a" * 64),
            after=FrameStamp(after, 90000, "b" * 64),
            clock=Clock.FILE,
            event=SceneEvent.NONE,
            sentences=(
                Sentence(
                    "A car has appeared on the left.", "appeared", "car", (0.41, 0.22, 0.18, 0.5), 0.77, 0.81
                ),
                Sentence("A person has left.", "disappeared", "person", (0.1, 0.5, 0.05, 0.2), 0.5, 0.6),
            ),
            l2=12.34567,
            model=ModelStamp("ddla", "c" * 64),
            settings_sha256="d" * 64,
        )
        return replace(narration, **changed)

    return make


def test_a_record_has_the_specified_members(make_narration):
    record = build_record(
        make_narration(),
        ChainEnd(),
        suppressed=3,
        latency_ms={"changes": 1.23456},
        evidence=Evidence(before="sha256:" + "1" * 64, after="sha256:" + "2" * 64),
    )
    members = json.loads(record.line())
    digest = members.pop("hash")
    assert members == {
        "schema": "narrated/2",
        "id": "front_door-0",
        "camera": "front_door",
        "seq": 1,
        "before": {"time": "2024-05-01T11:59:59.000000Z", "pts": 0, "sha256": "a" * 64},
        "after": {"time": "2024-05-01T12:00:00.000000Z", "pts": 90000, "sha256": "b" * 64},
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
        "stream_id": "1714564800000-0",
        "latency_ms": {"changes": 1.2},
        "evidence": {"before": "sha256:" + "1" * 64, "after": "sha256:" + "2" * 64},
        "prev": "0" * 64,
    }
    assert digest == hashlib.sha256(rfc8785.dumps(members)).hexdigest()
    assert record.objects == ("car", "person")


GROUNDED = Sentence(
    "Two cars have moved.",
    "moved",
    "car",
    (0.1, 0.2, 0.6, 0.3),
    0.9,
    0.8,
    count=2,
    before=(0.1, 0.2, 0.2, 0.3),
    after=(0.5, 0.2, 0.2, 0.30000001),
    outline_before=((0.1, 0.2), (0.3, 0.2), (0.2, 0.5)),
    outline_after=((0.5, 0.2), (0.7, 0.2), (0.6, 0.49996)),
    moment_s=0.25,
)


def test_a_sentence_that_says_more_is_recorded_with_what_it_says(make_narration):
    record = build_record(make_narration(sentences=(GROUNDED,), abstained="unsure"), ChainEnd())
    members = json.loads(record.line())
    [sentence] = members["sentences"]
    assert members["abstained"] == "unsure"
    assert sentence["count"] == 2
    assert (sentence["box_before"], sentence["box_after"]) == ([0.1, 0.2, 0.2, 0.3], [0.5, 0.2, 0.2, 0.3])
    assert sentence["outline_before"] == [[0.1, 0.2], [0.3, 0.2], [0.2, 0.5]]
    assert sentence["outline_after"][2] == [0.6, 0.5]
    assert sentence["time"] == "2024-05-01T11:59:59.250000Z"
    assert read_record(record.line()).line() == record.line()
    assert hash_holds(record.line())
    assert record.sentences[0].before == GROUNDED.before


def test_a_record_of_the_first_schema_is_read_as_it_was_written(make_narration):
    members = json.loads(build_record(make_narration(), ChainEnd()).line())
    members |= {
        "schema": "narrated/1",
        "hash": "4498cb6fe20b603aed10d66e259208424fc6e11ff53838f218ee64fa02a3ae88",
    }
    line = rfc8785.dumps(members)
    assert hash_holds(line)
    assert read_record(line).line() == line


def test_a_member_that_says_nothing_is_left_out(make_narration):
    partly = replace(GROUNDED, count=1, before=None, outline_before=(), moment_s=None)
    [sentence] = json.loads(build_record(make_narration(sentences=(partly,)), ChainEnd()).line())["sentences"]
    assert sentence.keys() & {"count", "box_before", "outline_before", "time"} == set()
    assert sentence.keys() >= {"box_after", "outline_after"}


def test_a_record_reads_back_and_its_hash_holds(make_narration):
    record = build_record(make_narration(), ChainEnd())
    line = record.line()
    assert read_record(line) == record
    assert read_record(line).line() == line
    assert hash_holds(line)
    assert not hash_holds(line.replace(b"car", b"cat"))
    second = build_record(make_narration(1), ChainEnd.of(record))
    assert (second.seq, second.prev) == (2, record.hash)


def test_the_hash_is_found_even_if_a_text_speaks_of_hashes(make_narration):
    tricky = Sentence('A "hash":"' + "f" * 64 + '", was seen.', "unknown", "unknown", None, 0.0, 1.0)
    line = build_record(make_narration(sentences=(tricky,)), ChainEnd()).line()
    assert hash_holds(line)
    assert json.loads(line)["sentences"][0]["box"] is None
    assert read_record(line).sentences[0].text == tricky.text


def test_the_same_narration_gives_the_same_bytes_whatever_the_noise_in_the_last_digits(make_narration):
    sentence = Sentence(
        "A car has left.", "disappeared", "car", (1e-9, -1e-9, 0.3, 1.00000001), 0.1 + 0.2, 1.0
    )
    other = replace(sentence, salience=0.3, box=(0.0, 0.0, 0.3, 1.0))
    first = build_record(make_narration(sentences=(sentence,), l2=12.00000001), ChainEnd())
    second = build_record(make_narration(sentences=(other,), l2=12.0), ChainEnd())
    assert first.line() == second.line()


def test_times_are_utc_with_microseconds(make_narration):
    zone = timezone(timedelta(hours=2))
    stamp = FrameStamp(datetime(2024, 5, 1, 14, 0, 0, 120_000, tzinfo=zone), 1, "b" * 64)
    record = build_record(make_narration(after=stamp), ChainEnd())
    assert record.after.time == "2024-05-01T12:00:00.120000Z"
    assert record.after.moment == stamp.time
    with pytest.raises(RecordError, match="no time zone"):
        build_record(make_narration(after=replace(stamp, time=datetime(2024, 5, 1))), ChainEnd())  # noqa: DTZ001


def test_scene_events_keep_their_names(make_narration):
    for event in SceneEvent:
        record = build_record(make_narration(event=event), ChainEnd())
        assert record.event == ("change" if event is SceneEvent.NONE else event.value)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "-rf", "a b", "käse", "x" * 65, "a\n", "a{b}", "a*"])
def test_camera_names_that_are_not(name, make_narration):
    with pytest.raises(RecordError, match="A-Z a-z 0-9 _"):
        build_record(make_narration(camera=name), ChainEnd())
    for safe in ("front_door", "A", "cam-1.left", "x" * 64):
        assert check_camera(safe) == safe


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"l2": float("nan")}, "l2"),
        ({"l2": 300.0}, "l2"),
        ({"settings_sha256": "short"}, "config_sha256"),
        ({"id": ""}, "id"),
        ({"sentences": (Sentence("A.", "exploded", "car", None, 0.5, 0.5),)}, "sentences.0.type"),
        (
            {"sentences": (Sentence("A.", "moved", "car", (0.5, 0.5, 1.5, 0.1), 0.5, 0.5),)},
            "sentences.0.box.2",
        ),
        ({"sentences": (replace(GROUNDED, count=0),)}, "sentences.0.count"),
        (
            {"sentences": (replace(GROUNDED, outline_after=((0.1, 0.1), (2.0, 0.2), (0, 0))),)},
            "outline_after.1.0",
        ),
        ({"sentences": (replace(GROUNDED, outline_before=((0.1, 0.1),)),)}, "outline_before"),
        ({"sentences": (Sentence("\ud800", "moved", "car", None, 0.5, 0.5),)}, "text"),
    ],
)
def test_a_narration_that_does_not_fit_is_refused_by_field(changed, field, make_narration):
    with pytest.raises(RecordError, match=re.escape(field)):
        build_record(make_narration(**changed), ChainEnd())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: m.update(extra=1), "extra"),
        (lambda m: m["before"].update(host="x"), "before.host"),
        (lambda m: m.update(seq="1"), "seq"),
        (lambda m: m.update(seq=0), "seq"),
        (lambda m: m.pop("prev"), "prev"),
        (lambda m: m.update(schema="narrated/3"), "schema"),
        (lambda m: m["after"].update(time="2024-13-01T00:00:00.000000Z"), "after.time"),
        (lambda m: m["after"].update(time="2024-05-01T12:00:00Z"), "after.time"),
        (lambda m: m.update(camera="../x"), "camera"),
        (lambda m: m.update(stream_id="1714564800000"), "stream_id"),
    ],
)
def test_reading_refuses_what_is_no_record_by_field(change, field, make_narration):
    members = json.loads(build_record(make_narration(), ChainEnd()).line())
    change(members)
    with pytest.raises(RecordError, match=re.escape(field)):
        read_record(json.dumps(members))


def test_reading_refuses_other_lines():
    for line in (b"", b"{", b"[]", b"\xff", b"null"):
        with pytest.raises(RecordError):
            read_record(line)


def test_stream_ids_rise_even_if_the_clock_does_not():
    time = datetime(2024, 5, 1, 12, tzinfo=UTC)
    ms = 1714564800000
    assert next_stream_id(time, (0, 0)) == (ms, 0)
    assert next_stream_id(time, (ms, 0)) == (ms, 1)
    assert next_stream_id(time - timedelta(hours=1), (ms, 7)) == (ms, 8)
    assert next_stream_id(datetime(1970, 1, 1, tzinfo=UTC), (0, 0)) == (0, 1)  # 0-0 is no valid id
    assert next_stream_id(datetime(1969, 1, 1, tzinfo=UTC), (0, 0)) == (0, 1)


def test_the_json_schema_accepts_records_and_nothing_else(make_narration):
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    fits = Draft202012Validator(schema).is_valid
    nobox = Sentence("The light has changed.", "none", "unknown", None, 1.0, 1.0)
    for record in (
        build_record(make_narration(), ChainEnd(), latency_ms={"decode": 3.0}),
        build_record(make_narration(event=SceneEvent.LIGHT, sentences=(nobox,)), ChainEnd()),
        build_record(make_narration(sentences=(GROUNDED,), abstained="unsure"), ChainEnd()),
    ):
        members = json.loads(record.line())
        sentence = members["sentences"][0]
        assert fits(members)
        assert set(schema["required"]) <= members.keys() <= set(schema["properties"])
        assert not any(fits({**members, name: ["?"]}) for name in members)
        assert not fits({**members, "host": "x"})
        assert not fits({k: v for k, v in members.items() if k != "id"})
        assert not fits({**members, "seq": 0})
        assert not fits({**members, "sentences": [{**sentence, "box": [0, 0, 1, 1.5]}]})
        assert not fits({**members, "sentences": [{**sentence, "outline_after": [[0, 0], [1, 1]]}]})


def test_a_held_record_has_few_bytes_and_everything_that_is_counted(make_narration):
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
    sent, held = (build_record(make_narration(sentences=(long,), held=h), ChainEnd()) for h in ("", "hourly"))
    kept = {"text", "type", "object", "confidence", "action", "track", "since", "until", "duration_s"}
    (ours,), (theirs,) = sent.members()["sentences"], held.members()["sentences"]
    assert {name: ours[name] for name in kept} == {name: theirs[name] for name in kept}
    assert len(rfc8785.dumps([ours])) > 500 >= len(rfc8785.dumps([theirs]))
    assert held.abstained is None
    many = build_record(make_narration(sentences=(long,) * 16, held="cooldown"), ChainEnd())
    assert len(rfc8785.dumps(many.members()["sentences"])) <= 500
    assert many.text.count("has left") == 16
    assert many.abstained == "held"
