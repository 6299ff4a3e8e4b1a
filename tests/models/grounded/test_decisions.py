"""Decisions: who appeared, who is gone, who has moved, and how likely; and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.boxes import Box
from models.detections import Detections
from models.families import OBJECTS, first_of
from models.grounded.association import Floats, Side, associate
from models.grounded.decisions import Fact, decide, distinct, merge, object_name, statement_of
from models.grounded.observations import COLOUR_BINS
from models.grounded.settings import SETTINGS
from models.language.places import Zone
from models.language.templates import Statement, render

HERE, ELSEWHERE = (0.1, 0.4, 0.1, 0.2), (0.7, 0.4, 0.1, 0.2)
MIRRORED = {"appeared": "disappeared", "disappeared": "appeared", "moved": "moved"}


def side(*found: tuple[str, Box]) -> Side:
    n = len(found)
    label = np.zeros((n, len(OBJECTS)))
    for row, (name, _) in enumerate(found):
        label[row, OBJECTS.index(name)] = 0.9
    box = np.array([box for _, box in found], np.float64).reshape(-1, 4)
    family = np.array([0 if name == "person" else 1 for name, _ in found], np.int64)
    each, empty = np.full(n, 0.9), [np.zeros((n, size)) for size in (2, 1, COLOUR_BINS)]
    return Side(box, each, label, family, each, *empty)


def decided(
    before: Side,
    after: Side,
    match: Floats | float,
    change: Floats | float,
    moved: Floats | float,
    gap_s: float = 3.0,
) -> list[Fact]:
    """Facts where each two have the same chance to match, and each to be a change and to have moved."""
    each = [(np.full(len(s), change), np.full(len(s), moved)) for s in (before, after)]
    match = np.broadcast_to(match, (len(before), len(after)))
    return decide(associate(before, after, gap_s), match, *zip(*each, strict=True))


def kinds(facts: list[Fact]) -> list[str]:
    return sorted(fact.type for fact in facts)


def test_what_probably_moved_has_moved_and_what_did_not_has_gone_and_come():
    was, now = side(("car", HERE)), side(("car", ELSEWHERE))
    [moved] = decided(was, now, 0.9, 0.9, 0.8)
    assert moved.type == "moved"
    assert moved.confidence == pytest.approx(0.734, abs=1e-3)
    assert (moved.before, moved.after) == (pytest.approx(HERE), pytest.approx(ELSEWHERE))
    facts = decided(was, now, 0.9, 0.9, 0.2)
    assert [(f.type, f.confidence) for f in facts] == [
        ("disappeared", pytest.approx(0.724, abs=1e-3)),
        ("appeared", pytest.approx(0.724, abs=1e-3)),
    ]


@pytest.mark.parametrize(("gap_s", "kind"), [(1.0, "appeared"), (3.0, "moved"), (np.nan, "moved")])
def test_nothing_has_moved_further_than_it_can_go(gap_s, kind):
    """Six times its own size."""
    facts = decided(side(("car", HERE)), side(("car", ELSEWHERE)), 0.9, 0.9, 0.6, gap_s)
    assert kind in kinds(facts)


def test_a_move_is_as_likely_as_the_mean_of_its_ends_in_log_odds():
    pair = associate(side(("car", HERE)), side(("car", ELSEWHERE)), 3.0)

    def confidence(*ends: float) -> float:
        was, now = (np.array([end / 0.99]) for end in ends)
        [fact] = decide(pair, np.array([[0.9]]), (np.array([0.99]),) * 2, (was, now))
        return fact.confidence

    assert confidence(0.5, 0.96) == pytest.approx(confidence(0.8305, 0.8305), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "score", "count"), [("person", 0.3, 1), ("person", 0.29, 0), ("car", 0.9, 0)]
)
def test_who_is_only_in_sight_is_another_one_there(name, score, count):
    was = side(("person", HERE), (name, ELSEWHERE))
    was = replace(was, score=np.array([0.9, score]))
    pair, sure = associate(was, side(), 3.0), np.array([0.9, 0.01])
    [gone] = decide(pair, np.zeros((2, 0)), (sure, np.zeros(0)), (np.full(2, 0.1), np.zeros(0)))
    assert [*gone.others] == [pytest.approx(ELSEWHERE)] * count


@pytest.mark.parametrize(("moved", "doubtful"), [(0.2, True), (0.01, False)])
def test_an_arrival_is_doubtful_unless_it_surely_was_not_elsewhere(moved, doubtful):
    facts = decided(side(("car", HERE)), side(("car", ELSEWHERE)), 0.1, 0.9, moved)
    assert [(f.type, f.doubtful) for f in facts] == [("disappeared", doubtful), ("appeared", doubtful)]


IN_FRONT: Box = (HERE[0] - HERE[2], HERE[1] - HERE[3], 3 * HERE[2], 3 * HERE[3])
ASIDE: Box = (HERE[0] + 0.6 * HERE[2], HERE[1], 3 * HERE[2], 3 * HERE[3])


@pytest.mark.parametrize(
    ("own", "other", "box", "change", "covered"),
    [
        ("car", "car", IN_FRONT, 0.9, True),
        ("car", "person", IN_FRONT, 0.9, True),
        ("car", "car", IN_FRONT, 0.1, False),  # it stands there in both
        ("car", "car", ASIDE, 0.9, False),
        ("car", "person", HERE, 0.9, False),  # no larger
        ("person", "car", IN_FRONT, 0.9, True),
    ],
)
def test_what_is_behind_something_new_may_have_stayed(own, other, box, change, covered):
    """Whichever way round the stills are."""
    parked, front = side((own, HERE)), side((other, box))
    front = replace(front, change=np.array([change]))
    [gone] = [f for f in decided(parked, front, 0.01, 0.9, 0.01) if f.before == pytest.approx(HERE)]
    [come] = [f for f in decided(front, parked, 0.01, 0.9, 0.01) if f.after == pytest.approx(HERE)]
    assert (gone.covered, come.covered) == (covered, covered)


def test_an_arrival_that_surely_was_not_elsewhere_is_told_only_where_it_is_likely():
    was = side(("car", HERE))

    def confidence(change: float, moved: float) -> float:
        return decided(was, side(), 0.0, change, moved)[0].confidence

    assert confidence(0.5, 0.04) < confidence(0.5, 0.06)
    assert confidence(0.95, 0.04) > confidence(0.95, 0.06)


X, Y, W, H = HERE


@pytest.mark.parametrize(
    ("was", "box", "match", "moves"),
    [
        ("car", ELSEWHERE, 0.1, True),
        ("car", ELSEWHERE, 0.02, False),  # hardly a match
        ("car", (X + 0.1 * W, Y, W, H), 1.0, False),  # it stays at its place
        ("person", ELSEWHERE, 1.0, False),  # of another family
    ],
)
def test_only_one_of_its_family_elsewhere_has_moved(was, box, match, moves):
    facts = decided(side((was, HERE)), side(("car", box)), match, 0.9, 0.9)
    assert ("moved" in kinds(facts)) is moves


def test_in_a_queue_all_have_moved_though_nobody_knows_who_is_who():
    places = [(0.1 + 0.2 * n, 0.4, 0.1, 0.1) for n in range(4)]
    was = side(*(("car", place) for place in places[:3]))
    now = side(*(("car", place) for place in places[1:]))
    facts = decided(was, now, 0.15, 0.9, 0.9)
    assert "appeared" not in kinds(facts)
    assert kinds(facts).count("moved") >= 2
    assert all(fact.before is None or fact.after is None for fact in facts)


@pytest.mark.parametrize("surer", [0, 1])
def test_a_move_of_which_the_match_is_doubtful_is_told_of_its_surer_end(surer):
    was, now = side(("car", HERE)), side(("car", ELSEWHERE))
    ends = [np.array([0.95 if n == surer else 0.8]) for n in (0, 1)]
    [moved] = decide(associate(was, now, 3.0), np.array([[0.1]]), (ends[0], ends[1]), (np.array([0.9]),) * 2)
    told = (moved.before, moved.after)
    assert moved.type == "moved"
    assert told[1 - surer] is None
    assert told[surer] == pytest.approx((HERE, ELSEWHERE)[surer])


@pytest.mark.parametrize("match", [np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[0.2, 0.8], [0.8, 0.2]])])
def test_of_two_that_moved_each_takes_the_likelier_place(match):
    was = side(("car", (0.1, 0.1, 0.1, 0.1)), ("car", (0.1, 0.6, 0.1, 0.1)))
    now = side(("car", (0.7, 0.1, 0.1, 0.1)), ("car", (0.7, 0.6, 0.1, 0.1)))
    facts = decided(was, now, match, 0.9, 0.9)
    parallel = [fact.before and fact.after and fact.before[1] == fact.after[1] for fact in facts]
    assert parallel == [bool(match[0, 0] > match[0, 1])] * 2


def test_what_moved_and_has_no_counterpart_is_not_reported_as_gone():
    [fact] = decided(side(("car", HERE)), side(), 0.0, 0.9, 0.9)
    assert (fact.type, fact.confidence) == ("disappeared", pytest.approx(0.24, abs=1e-2))


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9999))
@settings(max_examples=100, deadline=None)
def test_exchanged_stills_exchange_appeared_and_disappeared(s, t, seed):
    chance = np.random.default_rng(seed)

    def drawn(count: int) -> Side:
        box = np.concatenate([chance.random((count, 2)) * 0.8, chance.random((count, 2)) * 0.2 + 0.01], 1)
        made = side(*(("person", HERE) for _ in range(count)))
        return replace(made, box=box, family=chance.integers(0, 2, count))

    before, after, match = drawn(s), drawn(t), chance.random((s, t))
    change, moved = ((chance.random(s), chance.random(t)) for _ in range(2))
    pair = associate(before, after, 1.0)
    straight = decide(pair, match, change, moved)
    backwards = decide(pair.swap(), match.T, change[::-1], moved[::-1])
    assert sorted((MIRRORED[f.type], round(f.confidence, 9)) for f in straight) == sorted(
        (f.type, round(f.confidence, 9)) for f in backwards
    )
    for boxes in ([f.before for f in straight if f.before], [f.after for f in straight if f.after]):
        assert len(set(boxes)) == len(boxes), "each is in one fact"
    assert all(SETTINGS.least <= fact.confidence <= 1 for fact in straight)


@pytest.mark.parametrize(
    ("scores", "name", "large"),
    [
        ({"car": 0.8, "truck": 0.1}, "car", False),
        ({"bus": 0.9, "car": 0.05}, "bus", False),
        ({"truck": 0.6, "bus": 0.4}, "vehicle", True),  # a large one, of whatever kind
        ({"car": 0.5, "truck": 0.5}, "vehicle", False),  # a van is taken for both
        ({"person": 0.6, "car": 0.5}, "person", False),
    ],
)
def test_a_vehicle_is_called_what_it_looks_like(scores, name, large):
    assert object_name([scores.get(each, 0.0) for each in OBJECTS]) == (name, large)


def test_an_object_that_is_seen_twice_is_one():
    head = (X + 0.2 * W, Y, 0.5 * W, 0.3 * H)
    seen = side(("person", HERE), ("person", head), ("bicycle", HERE), ("person", ELSEWHERE))
    score = np.array([0.9, 0.8, 0.5, 0.4])
    assert distinct(Detections(seen.box, score, seen.label, seen.embedding)).tolist() == [0, 2, 3]


def test_one_object_is_reported_once_but_a_rider_is_not_the_bicycle():
    seen = side(("car", HERE), ("motorcycle", (X + 0.1 * W, Y, W, H)))
    assert [fact.object for fact in decided(side(), seen, 0.0, 0.9, 0.0)] == ["car"]
    assert len(decided(side(), side(("car", HERE), ("car", ELSEWHERE)), 0.0, 0.9, 0.0)) == 2
    ridden = side(("person", HERE), ("bicycle", HERE))
    ridden = replace(ridden, family=np.array([0, first_of("two-wheeler")]))
    assert sorted(fact.object for fact in decided(side(), ridden, 0.0, 0.9, 0.0)) == ["bicycle", "person"]


LEFT, MIDDLE, RIGHT = (0.15, 0.4, 0.1, 0.2), (0.45, 0.4, 0.1, 0.2), (0.75, 0.4, 0.1, 0.2)
LOT = Zone("in the lot", ((0.6, 0.0), (1.0, 0.0), (1.0, 1.0), (0.6, 1.0)))


def fact(kind: str, before: Box | None, after: Box | None, **more: object) -> Fact:
    return Fact(kind, "person", before, after, 0.9, **more)  # type: ignore[arg-type]


def test_a_place_is_said_by_its_zone_or_the_picture():
    came = fact("appeared", None, RIGHT)
    assert statement_of(came).place == "on the right"
    assert statement_of(came, zones=[LOT]).place == "in the lot"


def test_a_move_has_an_origin_and_a_target():
    moved = fact("moved", LEFT, RIGHT)
    assert statement_of(moved) == Statement("moved", "person", origin="left", target="right")
    into = statement_of(moved, zones=[LOT])
    assert (into.place, into.end) == ("on the left", "in the lot")
    step = statement_of(fact("moved", LEFT, (0.2, 0.4, 0.1, 0.2)))
    assert (step.place, step.origin, step.target, step.end) == ("on the left", "", "", "")


@pytest.mark.parametrize(("was", "now", "at"), [(LEFT, None, "left"), (None, RIGHT, "right")])
def test_a_move_with_one_known_end_is_told_where_that_is(was, now, at):
    assert render(statement_of(fact("moved", was, now))) == f"The person on the {at} has moved."


def test_moves_with_different_known_ends_are_two_sentences():
    ends = [(LEFT, None), (None, LEFT)]
    statements = [statement_of(fact("moved", *end)) for end in ends]
    assert [members for _, members in merge(statements, ends)] == [(0,), (1,)]


def test_what_cannot_be_said_is_refused():
    with pytest.raises(ValueError, match="no words for a person that flew"):
        statement_of(fact("flew", LEFT, None))
    with pytest.raises(ValueError, match="without a place"):
        statement_of(fact("moved", None, None))


def test_equal_neighbours_are_counted_and_a_far_one_is_another():
    one = Statement("appeared", "car", place="on the left")
    beside = [(0.1, 0.4, 0.1, 0.1), (0.22, 0.4, 0.1, 0.1)]
    [(both, members)] = merge([one, one], [(None, box) for box in beside])
    assert (both.count, members) == (2, (0, 1))
    far = merge([one, one], [(None, (0.1, 0.1, 0.05, 0.05)), (None, (0.1, 0.9, 0.05, 0.05))])
    assert [(statement.other, members) for statement, members in far] == [(False, (0,)), (True, (1,))]
    crowd = [(0.02 * n, 0.4, 0.05, 0.1) for n in range(5)]
    [(several, _)] = merge([one] * 5, [(None, box) for box in crowd])
    assert render(several) == "Several cars have appeared on the left."


def test_each_move_has_a_sentence_until_too_many_are_alike():
    """A move has a match, which may be the wrong one: told with its neighbour's, both would be wrong."""
    boxes = [(0.1 + 0.06 * n, 0.4, 0.05, 0.1) for n in range(4)]
    moved = Statement("moved", "car", place="on the left")
    for count, merged in ((2, [(0,), (1,)]), (3, [(0,), (1,), (2,)]), (4, [(0, 1), (2,), (3,)])):
        found = merge([moved] * count, [(box, box) for box in boxes[:count]])
        assert [members for _, members in found] == merged
        singles = [statement.other for statement, members in found if len(members) == 1]
        assert singles == [n > 0 for n in range(len(singles))]


def test_the_one_on_the_right_is_said_only_where_there_is_one():
    gone, moved = (Statement(action, "person", place="on the right") for action in ("disappeared", "moved"))
    both = merge([gone, moved], [(RIGHT, None), (RIGHT, RIGHT)])
    assert [render(statement) for statement, _ in both] == [
        "A person on the right has gone.",
        "A person on the right has moved.",
    ]
    beside, ends = (0.86, 0.4, 0.1, 0.2), (RIGHT, None)
    [(alone, _)] = merge([gone], [ends])
    [(untold, _)] = merge([gone], [ends], [[beside]])
    [(two, _)] = merge([gone] * 2, [ends, (beside, None)], [[beside], [RIGHT]])
    assert [render(each) for each in (alone, untold, two)] == [
        "The person on the right has gone.",
        "A person on the right has gone.",
        "The two people on the right have gone.",
    ]
    one = fact("disappeared", RIGHT, None, others=(MIDDLE, beside))
    assert one.others_there() == [beside]
    large = fact("disappeared", (0.2, 0.1, 0.6, 0.8), None, others=(beside,))  # told without a place
    assert large.others_there() == [beside]
    assert one.others_there([Zone("in the lot", ((0.4, 0.0), (0.8, 0.0), (0.8, 1.0), (0.4, 1.0)))]) == [
        MIDDLE
    ]
