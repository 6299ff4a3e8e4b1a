"""Comparing two journals: that of a live run, and that of a replay of the same footage."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from chained import chain, write
from narrations import narration

from models.captioner import Sentence
from pipeline.journal import JournalError
from pipeline.journal.comparison import Comparison, compare
from pipeline.narration.narration import FrameStamp
from pipeline.record import Evidence, Record


def compared(folder: Path, live: Sequence[Record], replayed: Sequence[Record]) -> Comparison:
    write(folder / "live" / "yard.jsonl", live)
    write(folder / "replay" / "journal" / "yard.jsonl", replayed)
    return compare(folder / "live", folder / "replay")


def sentence(name: str) -> Sentence:
    return Sentence(f"A {name} has appeared.", "appeared", name, (0.4, 0.2, 0.1, 0.5), 0.7, 0.8)


def test_what_differs_is_named(tmp_path):
    replayed = chain([narration(0), narration(1, sentences=(sentence("dog"),)), narration(3), narration(70)])
    comparison = compared(tmp_path, chain(map(narration, range(4))), replayed)
    assert comparison.same["yard"].records == 2
    named = {difference.id: difference.reason for difference in comparison.differences}
    assert sorted(named) == ["yard-1", "yard-2", "yard-70"]
    assert "text is 'A car has appeared.'" in named["yard-1"]
    assert "A dog" in named["yard-1"]
    assert "only in" in named["yard-2"]
    assert "live" in named["yard-2"]
    assert "replay" in named["yard-70"]


def test_events_may_agree_under_other_settings(tmp_path):
    live = chain(narration(20 * s) for s in range(3))
    replayed = chain(narration(20 * s + 1, settings_sha256="e" * 64) for s in range(3))
    comparison = compared(tmp_path, live, replayed)
    assert (comparison.same["yard"].events, comparison.differences) == (3, ())
    replayed = chain(narration(20 * s, settings_sha256="e" * 64) for s in range(3))
    (difference,) = compared(tmp_path, live, replayed).differences
    assert "config_sha256 is ddd" in difference.reason


def test_another_order_is_a_difference(tmp_path):
    swapped = chain([narration(0), narration(2), narration(1)])
    (difference,) = compared(tmp_path, swapped, chain(map(narration, range(3)))).differences
    assert (difference.id, "stands elsewhere" in difference.reason) == ("yard-1", True)


def test_a_sentence_that_keeps_its_time_hides_no_other_date(tmp_path):
    """Nor does another id pass where all other records are of the same footage."""
    live, back_s = [narration(100 * s) for s in range(6)], 86400.0
    first, back = live[0], timedelta(seconds=back_s)
    moved = replace(
        first,
        id="yard-forged",
        before=replace(first.before, time=first.before.time - back),
        after=replace(first.after, time=first.after.time - back),
        sentences=(replace(first.sentences[0], moment_s=back_s),),
    )
    renamed = replace(first, id="yard-forged")
    for forged, rest in ((moved, []), (moved, live[1:]), (renamed, live[1:])):
        comparison = compared(tmp_path, chain([forged, *rest]), chain([first, *rest]))
        assert "yard-forged" in {each.id for each in comparison.differences}


def test_a_recording_whose_frames_fell_elsewhere_is_matched_by_its_events(tmp_path):
    """Other ids, other frames, other sentences in a record; one event is another, one names a van."""
    live = [narration(60.0 * s) for s in range(10)]
    recorded = [
        replace(
            narration(60.0 * s + 1.3),
            id=f"recorded-{s}",
            before=FrameStamp(live[s].before.time, 7, f"{s + 1000:064x}"),
            sentences={4: (sentence("dog"),), 6: (sentence("van"),)}.get(s, live[s].sentences),
        )
        for s in range(10)
    ]
    comparison = compared(tmp_path, chain(live), chain(recorded))
    same = comparison.same["yard"]
    assert (same.records, same.events, same.of_events) == (0, 9, 10)
    assert [(each.id, each.reason) for each in comparison.differences] == [
        ("yard-240", f"only in {tmp_path}/live: 'A car has appeared.'"),
        ("recorded-4", f"only in {tmp_path}/replay: 'A dog has appeared.'"),
        ("yard-360", f"object is 'car', in {tmp_path}/replay 'van'"),
    ]


def test_a_record_that_is_there_twice_agrees_once(tmp_path):
    comparison = compared(tmp_path, chain([narration(), narration()]), chain([narration()]))
    same = comparison.same["yard"]
    assert (same.records, same.events, same.of_events) == (1, 0, 1)
    assert [each.id for each in comparison.differences] == ["yard-0"]


@pytest.mark.parametrize("other", [{"rate_hz": 2.0}, {"state_sha256": "e" * 64}])
def test_another_rate_or_state_is_named_once_and_by_itself(tmp_path, other):
    live, replayed = (
        chain([narration(s, **{"rate_hz": 5.0, **more}) for s in range(3)]) for more in ({}, other)
    )
    comparison = compared(tmp_path, live, replayed)
    (difference,) = comparison.differences
    assert (difference.id, comparison.same["yard"].records) == ("", 3)
    assert difference.reason.startswith(*other)


def test_when_a_track_was_missed_is_no_difference(tmp_path):
    lost = [narration(0), narration(1, held="lost")]
    assert compared(tmp_path, chain(lost), chain([narration(0)])).differences == ()


def test_a_camera_that_is_gone_is_a_difference(tmp_path):
    compared(tmp_path, chain([narration()]), chain([narration()]))
    live, replay = tmp_path / "live", tmp_path / "replay"
    write(live / "lot.jsonl", chain([narration(camera="lot")]))
    (difference,) = compare(live, replay).differences
    assert (difference.camera, difference.reason) == ("lot", f"only in {live}, records: 1")
    assert compare(live / "yard.jsonl", replay).differences == ()
    with pytest.raises(JournalError, match="cannot read"):
        compare(tmp_path / "absent.jsonl", replay)
    (replay / "journal" / "yard.jsonl").write_bytes(b"{}\n")
    with pytest.raises(JournalError, match=r"yard\.jsonl:1"):
        compare(live, replay)


def test_latency_limits_and_absent_pictures_do_not_count(tmp_path):
    one, two = (Evidence(before="sha256:" + digit * 64) for digit in "12")
    limited = [narration(s, settings_sha256="e" * 64, held="hourly") for s in range(3)]
    live = chain(map(narration, range(3)), evidence=one, latency_ms={"batch": 12.3})
    for replayed, differing in (
        (chain(map(narration, range(3))), []),
        (chain(map(narration, range(3)), evidence=one), []),
        (chain(map(narration, range(3)), evidence=two), ["evidence"] * 3),
        (chain(limited), ["--limits"]),
    ):
        comparison = compared(tmp_path, live, replayed)
        assert comparison.same["yard"].records == (0 if differing == ["evidence"] * 3 else 3)
        result = comparison.differences
        assert all(word in each.reason for word, each in zip(differing, result, strict=True))
