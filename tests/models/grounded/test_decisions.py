"""Decisions: who appeared, who is gone, who has moved, and how likely."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.boxes import Box
from models.detections import Detections
from models.families import OBJECTS, first_of
from models.grounded.association import Floats, Side, pair_signs
from models.grounded.decisions import Outcomes, decide, distinct, object_name
from models.grounded.observations import COLOUR_BINS
from models.grounded.settings import SETTINGS
from models.language.statements import Fact

HERE, ELSEWHERE = (0.1, 0.4, 0.1, 0.2), (0.7, 0.4, 0.1, 0.2)
MIRRORED = {"appeared": "disappeared", "disappeared": "appeared", "moved": "moved"}


def observed(*found: tuple[str, Box, float]) -> Detections:
    """Detections by name, box and score."""
    label = np.zeros((len(found), len(OBJECTS)), np.float32)
    for row, (name, _, _) in enumerate(found):
        label[row, OBJECTS.index(name)] = 0.9
    box = np.array([box for _, box, _ in found], np.float32).reshape(-1, 4)
    score = np.array([score for *_, score in found], np.float32)
    feature, colours = (np.zeros((len(found), n), np.float32) for n in (192, COLOUR_BINS))
    return Detections(box, score, label, feature, colours)


def side(*found: tuple[str, Box]) -> Side:
    n = len(found)
    label = np.zeros((n, len(OBJECTS)))
    for row, (name, _) in enumerate(found):
        label[row, OBJECTS.index(name)] = 0.9
    box = np.array([box for _, box in found], np.float64).reshape(-1, 4)
    family = np.array([0 if name == "person" else 1 for name, _ in found], np.int64)
    return Side(box, np.full(n, 0.9), label, family, np.full(n, 0.9), np.zeros((n, 2)), np.zeros((n, 1)))


def decided(
    before: Side, after: Side, match: Floats, change: Floats | float, moved: Floats | float
) -> list[Fact]:
    """Facts where each has the same chance to be a change, and to have moved."""
    plain = tuple(np.zeros((len(before), len(after))) for _ in range(4))
    pairs = pair_signs(before, after, plain, 1.0)
    each = [Outcomes(np.full(len(s), change), np.full(len(s), moved)) for s in (before, after)]
    return decide(before, after, pairs, match, (each[0], each[1]))


def kinds(facts: list[Fact]) -> list[str]:
    return sorted(fact.type for fact in facts)


def test_what_probably_moved_has_moved_and_what_did_not_has_gone_and_come() -> None:
    was, now = side(("car", HERE)), side(("car", ELSEWHERE))
    [moved] = decided(was, now, np.array([[0.9]]), 0.9, 0.8)
    assert (moved.type, moved.doubtful) == ("moved", False)
    assert moved.confidence == pytest.approx(0.771, abs=1e-3)
    assert (moved.before, moved.after) == (pytest.approx(HERE), pytest.approx(ELSEWHERE))
    facts = decided(was, now, np.array([[0.9]]), 0.9, 0.2)
    assert [(f.type, f.confidence) for f in facts] == [
        ("disappeared", pytest.approx(0.724, abs=1e-3)),
        ("appeared", pytest.approx(0.724, abs=1e-3)),
    ]


def test_a_move_is_as_likely_as_the_mean_of_its_ends_in_log_odds() -> None:
    was, now = side(("car", HERE)), side(("car", ELSEWHERE))
    pairs = pair_signs(was, now, tuple(np.zeros((1, 1)) for _ in range(4)), 1.0)

    def confidence(*ends: float) -> float:
        both = [Outcomes(np.array([0.99]), np.array([end / 0.99])) for end in ends]
        [fact] = decide(was, now, pairs, np.array([[0.9]]), (both[0], both[1]))
        return fact.confidence

    assert confidence(0.5, 0.96) == pytest.approx(confidence(0.8305, 0.8305), abs=1e-3)


def test_an_arrival_is_doubtful_unless_it_surely_was_not_elsewhere() -> None:
    was, now = side(("car", HERE)), side(("car", ELSEWHERE))
    facts = decided(was, now, np.array([[0.1]]), 0.9, 0.2)
    assert [(f.type, f.doubtful) for f in facts] == [("disappeared", True), ("appeared", True)]
    facts = decided(was, now, np.array([[0.1]]), 0.9, 0.01)
    assert [(f.type, f.doubtful) for f in facts] == [("disappeared", False), ("appeared", False)]


def test_an_arrival_that_surely_was_not_elsewhere_is_told_only_where_it_is_likely() -> None:
    was = side(("car", HERE))

    def confidence(change: float, moved: float) -> float:
        return decided(was, side(), np.zeros((1, 0)), change, moved)[0].confidence

    assert confidence(0.5, 0.04) < confidence(0.5, 0.06)
    assert confidence(0.95, 0.04) > confidence(0.95, 0.06)


def test_what_has_hardly_a_match_is_not_told_to_have_moved() -> None:
    was, now = side(("car", HERE)), side(("car", ELSEWHERE))
    assert kinds(decided(was, now, np.array([[0.1]]), 0.9, 0.9)) == ["moved"]
    assert "moved" not in kinds(decided(was, now, np.array([[0.02]]), 0.9, 0.9))


def test_in_a_queue_all_have_moved_though_nobody_knows_who_is_who() -> None:
    places = [(0.1 + 0.2 * n, 0.4, 0.1, 0.1) for n in range(4)]
    was = side(*(("car", place) for place in places[:3]))
    now = side(*(("car", place) for place in places[1:]))
    facts = decided(was, now, np.full((3, 3), 0.3), 0.9, 0.9)
    assert "appeared" not in kinds(facts)
    assert kinds(facts).count("moved") >= 2
    assert all(fact.doubtful for fact in facts if fact.type == "moved")


@pytest.mark.parametrize("match", [np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[0.2, 0.8], [0.8, 0.2]])])
def test_of_two_that_moved_each_takes_the_likelier_place(match: Floats) -> None:
    was = side(("car", (0.1, 0.1, 0.1, 0.1)), ("car", (0.1, 0.6, 0.1, 0.1)))
    now = side(("car", (0.7, 0.1, 0.1, 0.1)), ("car", (0.7, 0.6, 0.1, 0.1)))
    facts = decided(was, now, match, 0.9, 0.9)
    parallel = [fact.before and fact.after and fact.before[1] == fact.after[1] for fact in facts]
    assert parallel == [bool(match[0, 0] > match[0, 1])] * 2


def test_what_moved_and_has_no_counterpart_is_not_reported_as_gone() -> None:
    [fact] = decided(side(("car", HERE)), side(), np.zeros((1, 0)), 0.9, 0.9)
    assert (fact.type, fact.confidence) == ("disappeared", pytest.approx(0.24, abs=1e-2))


def test_what_stays_at_its_place_has_not_moved() -> None:
    x, y, w, h = HERE
    near = (x + 0.1 * w, y, w, h)
    assert "moved" not in kinds(
        decided(side(("car", HERE)), side(("car", near)), np.array([[1.0]]), 0.9, 0.9)
    )


def test_one_of_another_family_is_no_partner() -> None:
    facts = decided(side(("person", HERE)), side(("car", ELSEWHERE)), np.array([[1.0]]), 0.9, 0.9)
    assert "moved" not in kinds(facts)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9999))
@settings(max_examples=100, deadline=None)
def test_exchanged_stills_exchange_appeared_and_disappeared(s: int, t: int, seed: int) -> None:
    chance = np.random.default_rng(seed)

    def drawn(count: int) -> Side:
        box = np.concatenate([chance.random((count, 2)) * 0.8, chance.random((count, 2)) * 0.2 + 0.01], 1)
        made = side(*(("person", HERE) for _ in range(count)))
        return replace(made, box=box, family=chance.integers(0, 2, count))

    before, after, match = drawn(s), drawn(t), chance.random((s, t))
    outcomes = [Outcomes(chance.random(n), chance.random(n)) for n in (s, t)]
    plain = tuple(np.zeros((s, t)) for _ in range(4))
    pairs = pair_signs(before, after, plain, 1.0)
    straight = decide(before, after, pairs, match, (outcomes[0], outcomes[1]))
    backwards = decide(after, before, pairs.transpose(), match.T, (outcomes[1], outcomes[0]))
    assert sorted((MIRRORED[f.type], round(f.confidence, 9)) for f in straight) == sorted(
        (f.type, round(f.confidence, 9)) for f in backwards
    )
    for boxes in ([f.before for f in straight if f.before], [f.after for f in straight if f.after]):
        assert len(set(boxes)) == len(boxes), "each is in one fact"
    assert all(SETTINGS.least <= fact.confidence <= 1 for fact in straight)


def label(**scores: float) -> list[float]:
    return [scores.get(name, 0.0) for name in OBJECTS]


def test_a_vehicle_is_called_what_it_looks_like() -> None:
    assert object_name(label(car=0.8, truck=0.1)) == ("car", False)
    assert object_name(label(bus=0.9, car=0.05)) == ("bus", False)
    assert object_name(label(truck=0.6, bus=0.4)) == ("vehicle", True), "a large one, of whatever kind"
    assert object_name(label(car=0.5, truck=0.5)) == ("vehicle", False), "a van is taken for both"
    assert object_name(label(person=0.6, car=0.5)) == ("person", False)


def test_an_object_that_is_seen_twice_is_one() -> None:
    x, y, w, h = HERE
    head = (x + 0.2 * w, y, 0.5 * w, 0.3 * h)
    found = observed(
        ("person", HERE, 0.9), ("person", head, 0.8), ("bicycle", HERE, 0.5), ("person", ELSEWHERE, 0.4)
    )
    assert distinct(found).tolist() == [0, 2, 3]


def test_one_object_is_reported_once_whatever_it_is_taken_for() -> None:
    x, y, w, h = HERE
    seen = side(("car", HERE), ("motorcycle", (x + 0.1 * w, y, w, h)))
    facts = decided(side(), seen, np.zeros((0, 2)), 0.9, 0.0)
    assert [fact.object for fact in facts] == ["car"]
    two = side(("car", HERE), ("car", ELSEWHERE))
    assert len(decided(side(), two, np.zeros((0, 2)), 0.9, 0.0)) == 2


def test_a_rider_is_not_the_bicycle() -> None:
    seen = side(("person", HERE), ("bicycle", HERE))
    two_wheeler = first_of("two-wheeler")
    both = decided(side(), replace(seen, family=np.array([0, two_wheeler])), np.zeros((0, 2)), 0.9, 0.0)
    assert sorted(fact.object for fact in both) == ["bicycle", "person"]
