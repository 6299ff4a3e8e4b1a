"""What corrections taught of a camera weighs its sentences, and those of no other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from models.captioner import Sentence
from models.families import OBJECTS
from pipeline.narration.lessons import SIGNS, lesson, log_odds, signs, weighed
from pipeline.record_members import RecordSentence

WALL = np.full((60, 80, 3), 90, np.uint8)
DOOR = (0.25, 0.25, 0.25, 0.5)
BIASED = [-3.0] + [0.0] * (len(SIGNS) - 1)


def sentence(**changed: object) -> Sentence:
    made = Sentence("A car has appeared.", "appeared", "car", DOOR, 0.7, 0.8, after=DOOR)
    return dataclasses.replace(made, **changed)


def known(told: Sentence, after=WALL, changed=None) -> dict[str, float]:
    mask = np.zeros((30, 40), bool) if changed is None else changed
    found = signs(told, WALL, after, mask)
    assert found is not None
    return dict(zip(SIGNS, found.tolist(), strict=True))


def test_signs_tell_what_is_told_and_what_the_pictures_show() -> None:
    still = known(sentence())
    assert (still["bias"], still["appeared"], still["moved"], still["vehicle"], still["person"]) == (
        1,
        1,
        0,
        1,
        0,
    )
    assert still["share of its box that differs"] == -1
    assert still["difference of the two pictures there"] == 0
    lit, mask = WALL.copy(), np.zeros((30, 40), bool)
    lit[15:45, 20:40] += 64
    mask[7:23, 10:20] = True
    there = known(sentence(), lit, mask)
    assert there["share of its box that differs"] == 1
    assert there["difference of the two pictures there"] == pytest.approx(2)
    assert there["likeness of the colours there"] < still["likeness of the colours there"]
    assert known(sentence(box=(0.0, 0, 0.1, 0.1), after=(0.0, 0, 0.1, 0.1)))["touches the frame's edge"] == 1


def test_every_object_and_kind_has_signs_about_one_in_size() -> None:
    for name in (*OBJECTS, "cyclist", "motorcyclist"):
        for kind in ("appeared", "disappeared", "moved", "more", "fewer", "replaced"):
            assert max(map(abs, known(sentence(object=name, type=kind)).values())) <= 3
    assert signs(sentence(box=None, after=None), WALL, WALL, np.zeros((3, 4), bool)) is None
    assert signs(sentence(type="none", object="scene"), WALL, WALL, np.zeros((3, 4), bool)) is None


def test_a_sentence_of_a_record_has_the_same_signs() -> None:
    told = sentence()
    members = {"text": told.text, "type": "appeared", "object": "car", "box": DOOR, "box_after": DOOR}
    record = RecordSentence(**members, salience=0.7, confidence=0.8)
    mask = np.eye(30, 40) > 0
    assert np.array_equal(signs(record, WALL, WALL, mask), signs(told, WALL, WALL, mask))


def test_only_what_would_be_told_is_weighed() -> None:
    mask = np.zeros((30, 40), bool)
    sure, unsure = sentence(), sentence(confidence=0.3)
    lower, same = weighed([sure, unsure], (WALL, WALL), mask, BIASED, 0.5)
    assert log_odds(lower.confidence) == pytest.approx(log_odds(0.8) - 3)
    assert same is unsure


def test_weights_that_do_not_fit_are_none() -> None:
    record = {"lessons": {"yard": BIASED, "old": [1.0], "odd": "text"}}
    assert lesson(record, "yard") == BIASED
    assert (
        lesson(record, "old") is lesson(record, "odd") is lesson(record, "gate") is lesson({}, "yard") is None
    )
