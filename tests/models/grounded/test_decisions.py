"""Deciding: who appeared, who is gone, who has moved, and how likely."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.boxes import Box
from models.families import OBJECTS
from models.grounded.decisions import Candidates, confidence, decide, distinct, object_name, riders
from models.grounded.observations import COLOUR_BINS, Observations
from models.grounded.settings import SETTINGS
from models.language.facts import Fact

HERE, ELSEWHERE = (0.1, 0.4, 0.1, 0.2), (0.7, 0.4, 0.1, 0.2)
MIRRORED = {"appeared": "disappeared", "disappeared": "appeared", "moved": "moved"}


def judged(*ends: tuple[str, Box, float]) -> Candidates:
    """Observations by name, box and how likely they are real."""
    label = torch.zeros(len(ends), len(OBJECTS))
    for row, (name, _, _) in enumerate(ends):
        label[row, OBJECTS.index(name)] = 0.9
    box = torch.tensor([box for _, box, _ in ends]).view(-1, 4)
    n = len(ends)
    seen = Observations(box, torch.full((n,), 0.9), label, torch.zeros(n, 192), torch.zeros(n, COLOUR_BINS))
    return Candidates(seen, torch.tensor([real for _, _, real in ends]))


def sure_of(p: float, *, moved: bool = False, elsewhere: float = 0.0) -> float:
    """Of what `judged` made, a car or a person."""
    return confidence(p, 0.9, "car", moved=moved, elsewhere=elsewhere)


def told(facts: list[Fact]) -> dict[str, float]:
    return {fact.type: fact.confidence for fact in facts}


def test_a_link_to_a_ghost_takes_nothing_from_an_arrival() -> None:
    came = judged(("car", ELSEWHERE, 0.9))
    for ghost in (0.0, 0.05):
        facts = decide(judged(("car", HERE, ghost)), came, torch.ones(1, 1))
        assert facts[0].type == "appeared"
        assert facts[0].confidence == pytest.approx(sure_of(0.9 * (1 - ghost / 2), elsewhere=ghost))
        assert "moved" not in told(facts)


def test_a_move_is_as_sure_as_its_weaker_end() -> None:
    for was, is_now in ((0.95, 0.6), (0.6, 0.95)):
        [moved, *_] = decide(
            judged(("car", HERE, was)), judged(("car", ELSEWHERE, is_now)), torch.tensor([[0.9]]), pair=3
        )
        assert (moved.type, moved.pair) == ("moved", 3)
        assert moved.confidence == pytest.approx(sure_of(0.6 * (1 + 0.9) / 2, moved=True))
        assert moved.before == pytest.approx(HERE)
        assert moved.after == pytest.approx(ELSEWHERE)


def test_two_strangers_are_gone_and_come() -> None:
    facts = decide(judged(("car", HERE, 0.9)), judged(("car", ELSEWHERE, 0.8)), torch.zeros(1, 1))
    assert told(facts) == {
        "disappeared": pytest.approx(sure_of(0.9)),
        "appeared": pytest.approx(sure_of(0.8)),
    }
    assert [fact.confidence for fact in facts] == sorted((f.confidence for f in facts), reverse=True)


def test_what_stays_at_its_place_has_not_moved() -> None:
    x, y, w, h = HERE
    near = (x + 0.1 * w, y, w, h)
    facts = decide(judged(("car", HERE, 0.9)), judged(("car", near, 0.9)), torch.ones(1, 1))
    assert "moved" not in told(facts)


def test_a_short_step_is_a_move_though_one_of_its_family_stands_there_on_both_sides() -> None:
    """The judge calls neither end a change; the link and the detector know better."""
    x, y, w, h = HERE
    for step, types in ((SETTINGS.stayed - 0.02, set()), (SETTINGS.stayed + 0.02, {"moved"})):
        near = (x + step * w, y, w, h)
        was, now = judged(("car", HERE, 0.02)), judged(("car", near, 0.02))
        assert set(told(decide(was, now, torch.full((1, 1), 0.95)))) == types


def test_what_is_where_it_was_has_neither_come_nor_gone() -> None:
    x, y, w, h = HERE
    near = judged(("car", (x + 0.05 * w, y, w, h), 0.9))
    assert decide(judged(("car", HERE, 0.9)), near, torch.full((1, 1), 0.99)) == []


def test_nothing_on_either_side() -> None:
    nobody, somebody = judged(), judged(("person", HERE, 0.7))
    somebody_came = pytest.approx(sure_of(0.7))
    assert decide(nobody, nobody, torch.zeros(0, 0)) == []
    assert told(decide(nobody, somebody, torch.zeros(0, 1))) == {"appeared": somebody_came}
    assert told(decide(somebody, nobody, torch.zeros(1, 0))) == {"disappeared": somebody_came}


def drawn(count: int, random: torch.Generator) -> Candidates:
    low = torch.rand(count, 2, generator=random) * 0.8
    box = torch.cat([low, torch.rand(count, 2, generator=random) * 0.2 + 0.01], dim=1)
    label = torch.rand(count, len(OBJECTS), generator=random) ** 4
    n = count
    seen = Observations(box, torch.ones(n), label, torch.zeros(n, 192), torch.zeros(n, COLOUR_BINS))
    return Candidates(seen, torch.rand(n, generator=random))


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9999), st.sampled_from([math.nan, 1.0]))
@settings(max_examples=200, deadline=None)
def test_exchanging_before_and_after_exchanges_appeared_and_disappeared(
    s: int, t: int, seed: int, gap_s: float
) -> None:
    random = torch.Generator().manual_seed(seed)
    before, after = drawn(s, random), drawn(t, random)
    one = torch.rand(s, t, generator=random) ** 2
    one = one / torch.maximum(one.sum(1, keepdim=True), one.sum(0, keepdim=True)).clamp(min=1)
    straight, backwards = decide(before, after, one, gap_s=gap_s), decide(after, before, one.T, gap_s=gap_s)
    assert len(straight) == len(backwards)
    left = [(f.type, f.object, f.before, f.after, pytest.approx(f.confidence, abs=1e-5)) for f in backwards]
    for fact in straight:
        wanted = (MIRRORED[fact.type], fact.object, fact.after, fact.before, fact.confidence)
        assert wanted in left
        left.remove(wanted)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9999), st.sampled_from([math.nan, 1.0]))
@settings(max_examples=100, deadline=None)
def test_no_end_is_told_twice(s: int, t: int, seed: int, gap_s: float) -> None:
    random = torch.Generator().manual_seed(seed)
    facts = decide(drawn(s, random), drawn(t, random), torch.rand(s, t, generator=random), gap_s=gap_s)
    for boxes in ([f.before for f in facts if f.before], [f.after for f in facts if f.after]):
        assert len(set(boxes)) == len(boxes)
    assert all(SETTINGS.least <= fact.confidence <= 1 for fact in facts)


def label(**scores: float) -> torch.Tensor:
    made = torch.zeros(len(OBJECTS))
    for name, score in scores.items():
        made[OBJECTS.index(name)] = score
    return made


def test_a_vehicle_is_called_what_it_looks_like() -> None:
    assert object_name(label(car=0.8, truck=0.1)) == ("car", False)
    assert object_name(label(bus=0.9, car=0.05)) == ("bus", False)
    assert object_name(label(truck=0.6, bus=0.4)) == ("vehicle", True), "a large one, of whatever kind"
    assert object_name(label(car=0.5, truck=0.5)) == ("vehicle", False), "a van is taken for both"
    assert object_name(label(person=0.6, car=0.5)) == ("person", False)


def test_an_object_that_is_seen_twice_is_one() -> None:
    x, y, w, h = HERE
    head, other = (x + 0.2 * w, y, 0.5 * w, 0.3 * h), ("bicycle", HERE, 0.9)
    side = judged(("person", HERE, 0.9), ("person", head, 0.9), other, ("person", ELSEWHERE, 0.9))
    side = replace(side, ends=replace(side.ends, score=torch.tensor([0.9, 0.8, 0.5, 0.4])))
    assert distinct(side).ends.score.tolist() == pytest.approx([0.9, 0.5, 0.4])


def test_tiny_people_in_a_crowd_are_not_told() -> None:
    crowd = [("person", (0.1 * n, 0.1, 0.02, 0.03), 0.9) for n in range(9)]
    large = ("person", HERE, 0.9)
    nobody = judged()
    assert [f.after for f in decide(nobody, judged(*crowd, large), torch.zeros(0, 10))] == [
        pytest.approx(HERE)
    ]
    assert len(decide(nobody, judged(*crowd[:3]), torch.zeros(0, 3))) == 3


def test_a_link_that_is_doubtful_is_marked() -> None:
    was, now = judged(("car", HERE, 0.9)), judged(("car", ELSEWHERE, 0.9))
    [sure] = decide(was, now, torch.full((1, 1), 0.9))
    [doubtful] = decide(was, now, torch.full((1, 1), 0.45))
    assert (sure.type, sure.doubtful) == ("moved", False)
    assert (doubtful.type, doubtful.doubtful) == ("moved", True)


def test_who_rides_is_told_with_what_is_ridden() -> None:
    person = Fact(0, "appeared", "person", 1, None, (0.42, 0.3, 0.06, 0.28), 0.6)
    bicycle = Fact(0, "appeared", "bicycle", 1, None, (0.4, 0.45, 0.1, 0.15), 0.8)
    [one] = riders([bicycle, person])
    assert (one.object, one.type, one.confidence) == ("cyclist", "appeared", 0.8)
    assert one.after == pytest.approx((0.4, 0.3, 0.1, 0.3))
    [one] = riders([replace(bicycle, object="motorcycle"), person])
    assert one.object == "motorcyclist"
    beside = replace(person, after=(0.7, 0.3, 0.06, 0.28))
    assert riders([bicycle, beside]) == [bicycle, beside]
    gone = replace(person, type="disappeared", before=person.after, after=None)
    assert riders([bicycle, gone]) == [bicycle, gone], "one came, the other went"


def test_two_on_one_bicycle_are_not_one() -> None:
    bicycle = Fact(0, "appeared", "bicycle", 1, None, (0.4, 0.45, 0.1, 0.15), 0.8)
    people = [Fact(0, "appeared", "person", 1, None, (x, 0.3, 0.06, 0.28), 0.6) for x in (0.41, 0.43)]
    assert sorted(f.object for f in riders([bicycle, *people])) == ["cyclist", "person"]


def steps(
    aside: float, gap_s: float, link: float, ends: tuple[float, float] = (0.9, 0.8)
) -> dict[str, float]:
    """Of a person who is somewhere and of one so many sizes aside."""
    x, y, w, h = HERE
    was, now = judged(("person", HERE, ends[0])), judged(("person", (x + aside * w, y, w, h), ends[1]))
    return told(decide(was, now, torch.full((1, 1), link), gap_s=gap_s))


def test_who_has_gone_and_come_a_step_aside_has_moved() -> None:
    gone_and_come = {"disappeared", "appeared"}
    moved = steps(1.5, 1.0, 0.1)
    assert set(moved) == {"moved"}
    assert moved["moved"] == pytest.approx(sure_of(0.8 * (1 - 0.1 * 0.9 / 2), moved=True)), (
        "as sure as the less sure of both"
    )
    assert set(steps(1.5, 1.0, 0.05)) == gone_and_come, "unlike"
    assert set(steps(2.0, 1.0, 0.1)) == gone_and_come, "too far"
    assert set(steps(1.5, SETTINGS.step_s + 0.1, 0.1)) == gone_and_come, "too late"
    assert set(steps(1.5, float("nan"), 0.1)) == gone_and_come, "nobody knows when"
    assert "moved" not in steps(1.5, 1.0, 0.1, (0.9, 0.1)), "beside a ghost"


def test_a_step_changes_neither_size_nor_family() -> None:
    x, y, w, h = HERE
    was, link = judged(("person", HERE, 0.9)), torch.full((1, 1), 0.1)
    for name, box in (("person", (x + w, y, w, 0.4 * h)), ("car", (x + w, y, w, h))):
        assert "moved" not in told(decide(was, judged((name, box, 0.9)), link, gap_s=1.0))


def test_a_fact_is_the_surer_the_more_speaks_for_it() -> None:
    certain = confidence(0.9, 0.8, "car")
    assert 0.5 < certain < 1
    assert confidence(0.3, 0.8, "car") < certain
    assert confidence(0.9, 0.2, "car") < certain
    assert confidence(0.9, 0.8, "car", elsewhere=0.5) < certain
    assert confidence(0.9, 0.8, "bag") < certain < confidence(0.9, 0.8, "car", moved=True)
    assert 0 < confidence(0.0, 0.0, "bag", elsewhere=1.0) < confidence(1.0, 1.0, "car", moved=True) < 1


def test_one_thing_is_told_once_whatever_it_is_taken_for() -> None:
    x, y, w, h = HERE
    part = (x, y + 0.05 * h, 0.5 * w, 0.9 * h)
    shifted = (x + 0.1 * w, y, w, h)
    for second in (("truck", part, 0.8), ("car", part, 0.8), ("motorcycle", shifted, 0.8)):
        facts = decide(judged(), judged(("car", HERE, 0.95), second), torch.zeros(0, 2))
        assert [fact.object for fact in facts] == ["car"]
    beside = ("car", ELSEWHERE, 0.8)
    assert len(decide(judged(), judged(("car", HERE, 0.95), beside), torch.zeros(0, 2))) == 2


def test_a_car_park_is_no_lorry() -> None:
    lot = (0.0, 0.4, 0.95, 0.5)
    cars = [("car", (0.1 + 0.2 * n, 0.5, 0.1, 0.1), 0.9) for n in range(4)]
    there, full = judged(("truck", lot, 0.9)), judged(*cars)
    facts = decide(there, full, torch.zeros(1, 4))
    assert [fact.type for fact in facts] == ["appeared"] * 4
    assert [f.type for f in decide(there, judged(cars[0]), torch.zeros(1, 1))] == [
        "disappeared",
        "appeared",
    ]
