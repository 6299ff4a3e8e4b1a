"""The timeline scorer: a wrong scorer would praise wrong narrations."""

from __future__ import annotations

from datetime import UTC, datetime
from types import ModuleType
from typing import Any


def event(t: float, kind: str = "appeared", thing: str = "car", *, salient: bool = True) -> dict[str, Any]:
    return {
        "t": t,
        "tolerance": 1.0,
        "type": kind,
        "object": thing,
        "salient": salient,
        "place": "on the left",
    }


def record(after: str, *sentences: dict[str, Any]) -> dict[str, Any]:
    return {"id": after, "after": {"time": after}, "sentences": sentences}


def sentence(kind: str = "appeared", thing: str = "car", **more: Any) -> dict[str, Any]:
    return {"text": f"A {thing} has {kind}.", "type": kind, "object": thing, **more}


START = datetime(2026, 1, 1, tzinfo=UTC)
NINE = "2026-01-01T00:00:09.000000Z"


def test_type_family_and_time_must_agree(timelines: ModuleType) -> None:
    for said, found in [
        (sentence(), 1),
        (sentence("more", "van"), 1),
        (sentence("disappeared"), 0),
        (sentence("moved"), 0),
        (sentence(thing="person"), 0),
        (sentence(time="2026-01-01T00:00:07.000000Z"), 0),
    ]:
        told = timelines.said_in([record(NINE, said)], START)
        result = timelines.score([event(9.5)], told, 1.0)
        assert (result.found, len(result.false)) == (found, 1 - found), said


def test_the_time_of_the_sentence_counts_before_that_of_the_frame(timelines: ModuleType) -> None:
    told = timelines.said_in([record(NINE, sentence(time="2026-01-01T00:00:06.500000Z"))], START)
    assert timelines.score([event(6.0), event(9.0)], told, 1.0).missed == (event(9.0),)


def test_each_event_is_told_once_and_a_plural_tells_several(timelines: ModuleType) -> None:
    twice = timelines.said_in([record(NINE, sentence(), sentence())], START)
    once = timelines.score([event(9.0)], twice, 1.0)
    assert (once.found, len(once.false), once.false_narrations) == (1, 1, 1)
    both = timelines.said_in([record(NINE, sentence(count=2))], START)
    assert timelines.score([event(9.0), event(9.2)], both, 1.0).found == 2
    alone = timelines.score([event(9.0)], both, 1.0)
    assert (alone.found, alone.false, len(alone.miscounted)) == (1, (), 1)


def test_marginal_events_may_be_told_and_never_take_a_salient_ones_sentence(timelines: ModuleType) -> None:
    told = timelines.said_in([record(NINE, sentence())], START)
    assert timelines.score([event(9.0, salient=False)], told, 1.0).false == ()
    result = timelines.score([event(9.0, salient=False), event(9.9)], told, 1.0)
    assert (result.events, result.found) == (1, 1)


def test_the_table_lists_every_miss_and_every_false_sentence(timelines: ModuleType) -> None:
    told = timelines.said_in([record(NINE, sentence(thing="person"), sentence(thing="dog"))], START)
    text = timelines.table({"yard.mp4": timelines.score([event(9.0)], told, 0.5)})
    assert "| yard.mp4 | 1 | 0 (0.00) | 2 | 2.00 | 0 |" in text
    assert "* missed: 9.0 s, car appeared on the left" in text
    assert text.count("* false: 9.0 s") == 2


def test_clips_that_training_may_see_are_summed_apart(timelines: ModuleType) -> None:
    told = timelines.said_in([record(NINE, sentence())], START)
    found, missed = timelines.score([event(9.0)], told, 1.0), timelines.score([event(9.0)], [], 1.0)
    text = timelines.table({"intel_bottle-detection.mp4": found, "yard.mp4": missed})
    assert "| intel_bottle-detection.mp4 (seen in training) | 1 | 1 (1.00) |" in text
    assert "| **unseen** | 1 | 0 (0.00) |" in text
    assert "| **seen** | 1 | 1 (1.00) |" in text
    assert "| **all** | 2 | 1 (0.50) |" in text
