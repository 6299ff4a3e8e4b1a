"""What is known of samples, as tensors: objects, identities, facts of sentences, weights of guesses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models.perception import OBJECTS
from models.places import PLACES
from models.speaker import MOST, TYPES
from train.samples import Box, Sample, SampleChange, SampleObject
from train.truth import GUESSED, GUESSED_WEIGHT, truth_of

LEFT: Box = (0.1, 0.4, 0.1, 0.2)
RIGHT: Box = (0.8, 0.4, 0.1, 0.2)
CAME, WENT, MOVED = "a car has appeared on the left", "the person is gone", "the van has moved"
CHANGES = (
    SampleChange("appeared", "car", 1, None, LEFT, CAME),
    SampleChange("disappeared", "person", 9, RIGHT, None, WENT),
    SampleChange("moved", "van", 1, RIGHT, LEFT, MOVED),
)
THINGS = (
    SampleObject("after", "car", LEFT, True, -1),
    SampleObject("before", "van", RIGHT, False, 7),
)


def sample(
    *sentences: str, changes: tuple[SampleChange, ...] = CHANGES, kind: str = "pasted"
) -> tuple[Sample, tuple[str, ...]]:
    return Sample("a", Path("a"), Path("b"), sentences, changes, "yard", kind, (), THINGS), sentences


def test_objects_with_side_class_place_and_identity() -> None:
    truth = truth_of([sample(CAME), (replace(sample("-")[0], objects=()), ("-",))])
    assert truth is not None
    assert truth.side.tolist() == [[1, 0], [-1, -1]]
    assert [OBJECTS[label] for label in truth.label[0]] == ["car", "object"], "vans are no class of their own"
    assert truth.box[0, 0].tolist() == pytest.approx(LEFT)
    assert truth.sure.tolist() == [[True, False], [False, False]]
    assert truth.identity.tolist() == [[-1, 7], [-1, -1]]


def test_facts_of_each_sentence() -> None:
    truth = truth_of([sample(CAME, WENT, MOVED, "something else"), sample("nothing has changed", changes=())])
    assert truth is not None
    assert truth.told.shape == (2, 4, 4)
    left, right = PLACES.index("on the left"), PLACES.index("on the right")
    assert truth.told[0].tolist() == [
        [TYPES.index("appeared"), OBJECTS.index("car"), 1, left],
        [TYPES.index("disappeared"), OBJECTS.index("person"), MOST, right],
        [TYPES.index("moved"), OBJECTS.index("object"), 1, right],  # told where it was
        [-1, -1, -1, -1],
    ]
    assert truth.told[1, 0].tolist() == [0, 0, 0, len(PLACES)]
    assert truth.told[1, 1:].eq(-1).all()


def test_more_is_told_where_they_are_and_fewer_where_they_were() -> None:
    more = SampleChange("more", "car", 2, RIGHT, LEFT, "there are more cars")
    fewer = replace(more, type="fewer", sentence="there are fewer cars")
    truth = truth_of([sample(more.sentence, fewer.sentence, changes=(more, fewer))])
    assert truth is not None
    assert [PLACES[place] for place in truth.told[0, :, 3]] == ["on the left", "on the right"]


@pytest.mark.parametrize("kind", ["real", "median", "occasion", "pasted", "erased", "nuisance"])
def test_what_a_teacher_overlooked_counts_less(kind: str) -> None:
    truth = truth_of([sample(CAME, kind=kind)])
    assert truth is not None
    assert truth.weight.tolist() == pytest.approx([GUESSED_WEIGHT if kind in GUESSED else 1.0])
    assert (kind in GUESSED) == (kind in {"real", "median", "occasion"})


def test_of_annotations_by_people_nothing_is_known() -> None:
    by_hand = Sample("a", Path("a"), Path("b"), ("the car is gone",))
    assert truth_of([(by_hand, by_hand.sentences)]) is None
    mixed = truth_of([(by_hand, by_hand.sentences), sample(CAME)])
    assert mixed is not None
    assert mixed.side[0].eq(-1).all()


def test_a_change_without_a_place_is_a_mistake() -> None:
    nowhere = SampleChange("appeared", "car", 1, None, None, CAME)
    with pytest.raises(ValueError, match="without a box"):
        truth_of([sample(CAME, changes=(nowhere,))])


def test_it_goes_to_a_device_whole() -> None:
    truth = truth_of([sample(CAME)])
    assert truth is not None
    moved = truth.to(torch.device("cpu"))
    assert all(torch.equal(getattr(moved, name), getattr(truth, name)) for name in truth.__slots__)
