"""From things and links to what each sentence tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from models.perception import OBJECTS
from models.telling import COUNTED, Box, Tale, beside_others, family, grouped, named, tales, unexplained
from models.things import Things

LEFT, RIGHT, BESIDE = (0.1, 0.4, 0.1, 0.2), (0.8, 0.4, 0.1, 0.2), (0.21, 0.42, 0.1, 0.2)


def shares(**given: float) -> Tensor:
    """Probabilities of the classes; the rest falls on "object"."""
    label = torch.zeros(len(OBJECTS))
    for name, share in given.items():
        label[OBJECTS.index(name)] = share
    label[OBJECTS.index("object")] += 1 - sum(given.values())
    return label


def things(*some: tuple[Box, str, float], clusters: tuple[int, ...] = ()) -> Things:
    n = len(some)
    return Things(
        torch.zeros(n, dtype=torch.int64),
        torch.tensor(clusters or [0] * n, dtype=torch.int64),
        torch.tensor([box for box, _, _ in some]).view(-1, 4),
        torch.tensor([score for _, _, score in some]),
        torch.stack([shares(**{name: 0.9}) for _, name, _ in some]) if n else torch.zeros(0, len(OBJECTS)),
        torch.zeros(n, 2),
        torch.zeros(n, 6),
    )


@pytest.mark.parametrize(
    ("given", "name", "sure"),
    [
        ({"person": 0.8}, "person", 0.8),
        ({"bus": 0.7, "truck": 0.2}, "bus", 0.9),
        ({"bus": 0.5, "truck": 0.4}, "vehicle", 0.9),  # a vehicle for sure, but of which kind?
        ({"car": 0.3, "bus": 0.3, "person": 0.3}, "vehicle", 0.6),
        ({"bicycle": 0.3, "cyclist": 0.4}, "cyclist", 0.7),
        ({"person": 0.4, "car": 0.3, "bottle": 0.2}, "object", 0.1),  # sure of nothing
        ({}, "object", 1.0),
    ],
)
def test_a_name_is_said_only_when_it_is_sure(given: dict[str, float], name: str, sure: float) -> None:
    assert named(shares(**given)) == (name, pytest.approx(sure))


def test_families() -> None:
    assert {name: family(name) for name in OBJECTS} == {
        **dict.fromkeys(("car", "vehicle", "bus", "truck"), "vehicle"),
        **dict.fromkeys(("bicycle", "cyclist", "motorcycle"), "wheels"),
        "person": "person", "bottle": "bottle", "object": "object",
    }  # fmt: skip


def told(
    before: Things, after: Things, links: Sequence[tuple[int, int]] = (), *, another: bool = False
) -> list[Tale]:
    apart = torch.full((len(before), len(after)), fill_value=another)
    return tales(before, after, links, apart, clusters=[4, 7])


def test_what_is_on_one_side_only_appeared_or_is_gone() -> None:
    gone, came = told(things((LEFT, "person", 0.8)), things((RIGHT, "car", 0.7), clusters=(1,)))
    assert (gone.type, gone.object, gone.count, gone.after) == ("disappeared", "person", 1, None)
    assert (came.type, came.object, came.before) == ("appeared", "car", None)
    assert gone.before == gone.box == gone.place_box == pytest.approx(LEFT)
    assert came.after == came.box == came.place_box == pytest.approx(RIGHT)
    assert (gone.cluster, came.cluster) == (4, 7)
    assert (gone.score, came.score) == (pytest.approx(0.8), pytest.approx(0.7))
    assert told(things(), things()) == []


def test_a_linked_thing_moved_and_is_told_where_it_was() -> None:
    before, after = things((LEFT, "person", 0.8)), things((RIGHT, "person", 0.6), clusters=(1,))
    [moved] = told(before, after, [(0, 0)])
    assert (moved.type, moved.count, moved.score) == ("moved", 1, pytest.approx(0.8))
    assert (moved.before, moved.after) == (pytest.approx(LEFT), pytest.approx(RIGHT))
    assert moved.place_box == moved.before
    assert moved.box == moved.after
    assert moved.cluster == 4, "that of the surer side"
    [back] = told(after, before, [(0, 0)])
    assert (back.before, back.after, back.score, back.named) == (
        moved.after, moved.before, moved.score, moved.named,
    )  # fmt: skip


def test_two_at_one_place_that_are_known_to_be_two_are_told_as_replaced() -> None:
    before, after = things((LEFT, "car", 0.8)), things((LEFT, "truck", 0.6))
    [replaced] = told(before, after, another=True)
    assert (replaced.type, replaced.object, replaced.score) == ("replaced", "vehicle", pytest.approx(0.6))
    assert [t.type for t in told(before, after)] == ["disappeared", "appeared"]
    other = things((LEFT, "person", 0.6))
    assert [t.type for t in told(before, other, another=True)] == ["disappeared", "appeared"]
    away = things((RIGHT, "truck", 0.6))
    assert [t.type for t in told(before, away, another=True)] == ["disappeared", "appeared"]
    assert [t.type for t in told(before, after, [(0, 0)], another=True)] == ["moved"]


def test_a_thing_is_replaced_once() -> None:
    before = things((LEFT, "car", 0.8))
    after = things((LEFT, "car", 0.6), ((0.11, 0.4, 0.1, 0.2), "car", 0.5))
    assert [t.type for t in told(before, after, another=True)] == ["replaced", "appeared"]


def tale(box: Box, **changed: object) -> Tale:
    first = Tale(0, 0, "appeared", "person", 1, None, box, 0.8, 0.9)
    return replace(first, **changed)  # type: ignore[arg-type]


def test_neighbours_of_one_kind_are_told_together() -> None:
    third = (0.32, 0.41, 0.1, 0.2)
    [group] = grouped([tale(LEFT, score=0.9), tale(third), tale(BESIDE, score=0.7, named=0.6)])
    assert group.count == 3
    assert group.after == pytest.approx((0.1, 0.4, 0.32, 0.22))
    assert group.before is None
    assert (group.score, group.named) == (pytest.approx(0.8), pytest.approx(0.8))
    gone = {"type": "disappeared", "after": None}
    [group] = grouped([tale(LEFT, **gone, before=LEFT), tale(BESIDE, **gone, before=BESIDE)])
    assert (group.count, group.after) == (2, None)
    assert group.before == pytest.approx((0.1, 0.4, 0.21, 0.22))


@pytest.mark.parametrize(
    "other",
    [
        {"pair": 1},
        {"object": "car"},
        {"type": "disappeared", "before": BESIDE, "after": None},
        {"after": RIGHT},
        {"after": (0.21, 0.7, 0.1, 0.2)},  # below
        {"after": (0.21, 0.42, 0.05, 0.1)},  # half as tall: farther away
    ],
)
def test_others_stay_alone(other: dict[str, object]) -> None:
    both = [tale(LEFT), replace(tale(BESIDE), **other)]  # type: ignore[arg-type]
    assert grouped(both) == both


CROWD = COUNTED + 1
NEARBY = (0.3, 0.4, 0.05, 0.2)


@pytest.mark.parametrize(
    ("type_", "told"), [("appeared", "more"), ("disappeared", "fewer")], ids=["more", "fewer"]
)
def test_a_crowd_that_grows_is_told_as_more(type_: str, told: str) -> None:
    box = (0.1, 0.4, 0.3, 0.2)
    sides = {"before": None, "after": box} if type_ == "appeared" else {"before": box, "after": None}
    crowd = replace(tale(box, type=type_, count=CROWD), **sides)  # type: ignore[arg-type]
    stayed = tale(NEARBY, type="moved", before=NEARBY)
    assert beside_others([crowd, stayed]) == [replace(crowd, type=told), stayed]


@pytest.mark.parametrize(
    ("count", "other"),
    [
        (CROWD, {"type": "appeared", "before": None}),  # nobody was there before
        (CROWD, {"object": "car"}),
        (CROWD, {"pair": 1}),
        (CROWD, {"before": (0.8, 0.4, 0.1, 0.2), "after": (0.8, 0.4, 0.1, 0.2)}),  # far away
        (COUNTED, {}),  # a number says more
    ],
)
def test_otherwise_a_group_is_told_with_its_number(count: int, other: dict[str, object]) -> None:
    crowd = tale((0.1, 0.4, 0.3, 0.2), count=count)
    stayed = replace(tale(NEARBY, type="moved", before=NEARBY), **other)  # type: ignore[arg-type]
    assert beside_others([crowd, stayed]) == [crowd, stayed]


def test_what_moved_or_has_no_name_stays_alone() -> None:
    moved = [tale(LEFT, type="moved", before=LEFT), tale(BESIDE, type="moved", before=BESIDE)]
    assert grouped(moved) == moved
    unnamed = [tale(LEFT, object="object"), tale(BESIDE, object="object")]
    assert grouped(unnamed) == unnamed
    assert grouped([]) == []
    faint = [tale(LEFT), tale(BESIDE, score=0.3)]
    assert grouped(faint, least=0.5) == faint


def test_a_tale_is_somewhere() -> None:
    with pytest.raises(ValueError, match="without a place"):
        _ = tale(LEFT, after=None).box


def test_a_large_cluster_is_not_passed_over_in_silence() -> None:
    place = (0.05, 0.3, 0.3, 0.4)
    for seen, kind, sides in (
        ((0.02, 0.2), "appeared", (None, place)),
        ((0.2, 0.02), "disappeared", (place, None)),
        ((0.1, 0.12), "unknown", (place, place)),
    ):
        something = unexplained([], (0, 3), place, seen, 0.5)
        assert something is not None
        assert (something.pair, something.cluster, something.type, something.object) == (0, 3, kind, "object")
        assert (something.before, something.after) == sides
        assert something.certain == 0.5
    assert unexplained([tale(RIGHT)], (0, 3), place, (0.0, 0.2), 0.5) is not None
    assert unexplained([tale(LEFT)], (0, 3), place, (0.0, 0.2), 0.5) is None
    assert unexplained([tale(LEFT)], (1, 3), place, (0.0, 0.2), 0.5) is not None, "another pair's"
