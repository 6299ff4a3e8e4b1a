"""The one table of object families, and what is derived from it."""

import pytest

from models.detections import FAMILY, GROUPS
from models.families import CLASSES, KINDS, OBJECTS, family_of, first_of, object_of
from train.footage.votes import FAMILY as VOTED


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
