"""Boxes alone, as arrays and as tensors, which must agree; and the one table of object families."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.boxes import area, centre, hull, intersection, iou, offset, share_inside
from models.detections import FAMILY, GROUPS, overlaps, shared_areas
from models.families import CLASSES, KINDS, OBJECTS, family_of, first_of, object_of
from train.footage.votes import FAMILY as VOTED
from train.grounded import detector as tensors

SHARE = st.integers(0, 64).map(lambda n: n / 64)  # exact, so that edges really meet
SIDE = st.integers(1, 64).map(lambda n: n / 64)
BOX = st.tuples(SHARE, SHARE, SIDE, SIDE)
BOXES = st.lists(BOX, min_size=1, max_size=6)


def test_of_two_boxes_that_one_can_count():
    a, b = (0.0, 0.0, 0.5, 0.5), (0.25, 0.25, 0.5, 0.25)
    assert (area(a), area(b)) == (0.25, 0.125)
    assert intersection(a, b) == 0.0625
    assert iou(a, b) == pytest.approx(0.2)
    assert (share_inside(a, b), share_inside(b, a)) == (0.25, 0.5)
    assert (centre(b), offset(b, a)) == ((0.5, 0.375), (0.25, 0.125))
    assert hull((a, b)) == (0.0, 0.0, 0.75, 0.5)
    assert intersection(a, (0.5, 0.0, 0.5, 0.5)) == 0  # they touch


@given(BOX, BOX)
def test_what_two_boxes_share(a, b):
    shared = intersection(a, b)
    assert shared == intersection(b, a)
    assert 0 <= shared <= min(area(a), area(b))
    assert iou(a, b) == iou(b, a) == pytest.approx(shared / (area(a) + area(b) - shared))
    assert share_inside(a, b) * area(a) == pytest.approx(shared)
    assert (iou(a, b) == 1) == (a == b)


@given(BOXES)
def test_a_hull_holds_all_and_no_more(boxes):
    around = hull(boxes)
    assert all(intersection(box, around) == area(box) for box in boxes)
    assert around[:2] == (min(b[0] for b in boxes), min(b[1] for b in boxes))
    assert max(b[0] + b[2] for b in boxes) == around[0] + around[2]
    assert max(b[1] + b[3] for b in boxes) == around[1] + around[3]
    assert hull([None, *boxes, None]) == around


@given(BOXES, BOXES)
def test_arrays_and_tensors_say_the_same(a, b):
    alone = np.array([[iou(one, other) for other in b] for one in a])
    np.testing.assert_allclose(overlaps(a, b), alone, atol=1e-12)
    corners, others = (tensors.corners(torch.tensor(each)) for each in (a, b))
    np.testing.assert_allclose(tensors.corner_overlaps(corners, others), alone, atol=1e-6)
    shared = [[intersection(m, n) for n in b] for m in a]
    np.testing.assert_allclose(shared_areas(a, b), shared, atol=1e-12)


def test_no_boxes_share_nothing():
    none = torch.zeros(0, 4)
    assert overlaps([], [(0, 0, 1, 1)]).shape == (0, 1)
    assert tensors.corner_overlaps(torch.ones(2, 4), none).shape == (2, 0)


def test_kinds_that_look_alike_share_a_family():
    assert {name for name, kind in KINDS.items() if kind.classes} <= set(OBJECTS) <= set(KINDS)
    assert {family_of(name) for name in ("car", "van", "bus", "truck", "vehicle")} == {"vehicle"}
    riders = ("bicycle", "motorcycle", "cyclist", "motorcyclist")
    assert {family_of(name) for name in riders} == {"two-wheeler"}
    assert family_of("umbrella") == "umbrella"
    assert set(VOTED.values()) <= {family_of(name) for name in OBJECTS}


def test_tensors_name_a_family_by_its_first_object_and_a_class_stands_for_at_most_one():
    assert [OBJECTS[row] for row in FAMILY] == [OBJECTS[first_of(family_of(name))] for name in OBJECTS]
    assert [OBJECTS[first_of(name)] for name in ("vehicle", "two-wheeler")] == ["car", "motorcycle"]
    with pytest.raises(ValueError, match="is not in list"):
        first_of("umbrella")
    assert int(GROUPS.sum(0).max()) == 1
    assert bool(GROUPS.any(1).all())
    objects = [object_of(label) for label in ("dog", "suitcase", "chair", "van")]
    assert objects == ["animal", "bag", "object", "van"]
    assert bool(GROUPS[OBJECTS.index("animal"), CLASSES.index("dog")])
