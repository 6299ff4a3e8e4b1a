"""Detections: names, families, one box for one thing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rectangles import distribution

from models.box_tensors import corner_overlaps
from models.detections import Detections
from models.families import CLASSES, OBJECTS
from models.family_tensors import FAMILY, GROUPS
from models.grounded.detections import decode, pooled, suppress
from models.grounded.detector import Answer

Seen = tuple[tuple[float, float, float, float], dict[str, float]]
STRIDE, SIZE = 32.0, (320, 480)


def answer_of(*seen: Seen) -> Answer:
    """One cell for each box, by its edges in pixels, with a probability of each class."""
    label = torch.full((1, len(seen), len(CLASSES)), -9.0)
    edges, middle = [], []
    for k, (box, classes) in enumerate(seen):
        corners = torch.tensor(box)
        centre = (corners[:2] + corners[2:]) / 2
        edges.append(distribution(torch.cat([centre - corners[:2], corners[2:] - centre]) / STRIDE))
        middle.append(centre)
        for name, probability in classes.items():
            label[0, k, CLASSES.index(name)] = torch.tensor(probability).logit()
    maps = tuple(torch.rand(1, 96, 320 // s, 480 // s) for s in (8, 16, 32, 64))
    stride = torch.full((len(seen),), STRIDE)
    return Answer(label, torch.stack(edges)[None], torch.stack(middle), stride, maps)


def found(*seen: Seen, least: float = 0.05) -> Detections:
    [one] = decode(answer_of(*seen), SIZE, least)
    return one


def names(seen: Detections) -> list[str]:
    return [seen.name(row) for row in range(len(seen))]


def test_every_object_has_classes_and_no_class_two_objects() -> None:
    assert GROUPS.any(1).all()
    assert (GROUPS.sum(0) <= 1).all()
    by_name = dict(zip(OBJECTS, FAMILY.tolist(), strict=True))
    assert {OBJECTS[by_name[name]] for name in ("car", "van", "bus", "truck")} == {"car"}
    assert {OBJECTS[by_name[name]] for name in ("motorcycle", "bicycle")} == {"motorcycle"}
    for name in ("person", "animal", "bag", "bottle", "object"):
        assert OBJECTS[by_name[name]] == name


def test_the_surest_of_one_family_stays() -> None:
    seen = found(
        ((100, 100, 200, 200), {"car": 0.6}),
        ((104, 100, 204, 200), {"truck": 0.8, "car": 0.5}),
        ((100, 104, 200, 204), {"person": 0.7}),
        ((300, 100, 400, 200), {"car": 0.3}),
    )
    assert names(seen) == ["truck", "person", "car"]
    assert seen.score.tolist() == pytest.approx([0.8, 0.7, 0.3], abs=1e-4)
    assert seen.box[0].tolist() == pytest.approx([104 / 480, 100 / 320, 100 / 480, 100 / 320], abs=1e-4)
    assert float(seen.label[0, OBJECTS.index("car")]) == pytest.approx(0.5, abs=1e-4)
    assert seen.feature.shape == (3, 192)


def test_what_is_unsure_or_has_no_name_is_left_out() -> None:
    few = found(((10, 10, 90, 90), {"dog": 0.3}), ((200, 50, 250, 99), {"cat": 0.1, "clock": 0.9}), least=0.2)
    assert names(few) == ["animal"]
    assert names(found(((10, 10, 90, 90), {"umbrella": 0.3}))) == ["object"]


def test_boxes_end_at_the_frame() -> None:
    [x, y, w, h] = found(((-40, 220, 60, 380), {"car": 0.9})).box[0].tolist()
    assert (x, y, x + w, y + h) == pytest.approx((0, 220 / 320, 60 / 480, 1), abs=1e-4)
    assert len(found(((-90, 20, -10, 90), {"car": 0.9}))) == 0, "nothing of it is in the picture"


@given(st.integers(0, 12), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_no_two_that_stay_are_rivals_and_who_goes_has_one(count: int, seed: int) -> None:
    rivals = torch.rand(count, count, generator=torch.Generator().manual_seed(seed)) < 0.3
    rivals |= rivals.T.clone()
    stay = suppress(rivals).tolist()
    assert stay == sorted(set(stay))
    for i in range(count):
        before = [j for j in stay if j < i and rivals[j, i]]
        assert bool(before) is (i not in stay)


def test_overlaps_are_shares_of_the_union() -> None:
    a = torch.tensor([[0.0, 0, 2, 2], [1, 1, 3, 3]])
    torch.testing.assert_close(corner_overlaps(a, a), torch.tensor([[1, 1 / 7], [1 / 7, 1]]))
    assert corner_overlaps(a, a[:0]).shape == (2, 0)
    assert corner_overlaps(torch.tensor([[1.0, 1, 1, 1]]), a).tolist() == [[0, 0]]


def test_features_are_what_is_inside() -> None:
    level = torch.zeros(2, 8, 8)
    level[0, :, :4], level[1, :, 4:] = 3.0, 5.0
    left, both = pooled([level, level], torch.tensor([[0.0, 0.2, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0]]))
    torch.testing.assert_close(left, torch.tensor([1.0, 0, 1, 0]))
    torch.testing.assert_close(both, torch.tensor([3.0, 5, 3, 5]) / 34**0.5)
    tiny = pooled([level, level], torch.tensor([[0.999, 0.999, 1e-4, 1e-4]]))
    torch.testing.assert_close(tiny[0], torch.tensor([0.0, 1, 0, 1]))
    assert pooled([level, level], torch.zeros(0, 4)).shape == (0, 4)
