"""What is said of facts: places, ways, zones, and equal things in one sentence."""

import pytest

from models.boxes import Box
from models.grounded.decisions import Fact, merge, statement_of
from models.language.places import PLACES, Zone, check_zone
from models.language.templates import Statement, render

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


@pytest.mark.parametrize(
    "phrase", [*PLACES, "in the car park", "at the bus stop", "outside", "at Gate 7", "by the baker's shop"]
)
def test_names_that_can_stand_in_a_sentence(phrase):
    check_zone(phrase)


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        ("in the lot.", "without full stop"),
        ("in " + "the lot " * 6 + "here", "40 letters"),
        ("entrance", "is not a sentence"),
    ],
)
def test_names_that_cannot(phrase, message):
    with pytest.raises(ValueError, match=message):
        check_zone(phrase)
