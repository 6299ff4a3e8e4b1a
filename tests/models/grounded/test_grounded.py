"""The grounded captioner as a whole: swapped frames, zones, words, thresholds, what it learns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rectangles import GREY, RectangleDetector, see_rectangles

from models import load_captioner
from models.captioner import DescribeOptions
from models.detections import Detections
from models.encoders import ENCODERS
from models.families import OBJECTS
from models.grounded.decisions import Fact
from models.grounded.grounded import Grounded
from models.papers.vocabulary import read

EVERYTHING = DescribeOptions(min_confidence=0.0, max_sentences=1000)
MIRRORED = {"appeared": "disappeared", "disappeared": "appeared", "moved": "moved"}
PLACES = [
    [(20, 30, 40, 50), (120, 140, 30, 30), (150, 20, 60, 40)],
    [(60, 60, 50, 30)],
    [],
    [(10, 150, 40, 40), (90, 20, 60, 60)],
]


@pytest.fixture
def make_pairs(make_inputs):
    return make_inputs


@pytest.fixture
def make_grounded():
    """One that sees rectangles; a `wild` one decides at random, else it matches all or none."""

    def make(seed: int = 0, *, wild: bool = False, linked: bool = False) -> Grounded:
        chance, made = np.random.default_rng(seed), see_rectangles()
        own = made.weights
        own.match[-1] = 9.0 if linked else -9.0
        if wild:
            for weights in (own.match, own.change, own.move):
                np.add(weights, chance.normal(size=weights.shape) * 0.1, out=weights)
            own.match[-1] = own.move[-1] = 3.0
            for part in (*own.classifier.weights, *own.classifier.biases):
                np.add(part / 2, chance.normal(size=part.shape) * 0.1, out=part)
            own.classifier.biases[-1][:] += 1.0
        return made

    return make


def rounded(facts: Sequence[Fact], *, backwards: bool = False) -> list[Any]:
    """Facts in an order of their own; with `backwards`, as of the swapped pair."""
    found = []
    for fact in facts:
        kind, before, after = fact.type, fact.before, fact.after
        if backwards:
            kind, before, after = MIRRORED[kind], after, before
        numbers = (*(before or ()), *(after or ()), fact.confidence)
        found.append((kind, fact.object, *(round(number, 3) + 0.0 for number in numbers)))
    return sorted(found)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.sampled_from([math.nan, 0.5, 3600.0]))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_swapping_the_frames_turns_everything_that_is_told(make_grounded, make_pairs, seed, gap_s):
    """Appeared and disappeared change places, moved stays, with the boxes exchanged."""
    captioner = make_grounded(seed, wild=True)
    captioner.weights.threshold = 1.1  # what nobody is sure of is told one by one
    pairs = [replace(pair, gap_s=gap_s) for pair in make_pairs(PLACES, seed=seed)]
    back = [replace(pair, views=pair.views[::-1]) for pair in pairs]
    for one, other in zip(captioner.facts(pairs), captioner.facts(back), strict=True):
        np.testing.assert_equal(
            [f[:2] for f in rounded(one)], [f[:2] for f in rounded(other, backwards=True)]
        )
        for ours, theirs in zip(rounded(one), rounded(other, backwards=True), strict=True):
            assert ours[2:] == pytest.approx(theirs[2:], abs=2e-3)
    for told, reverse in zip(*(captioner.describe(each, EVERYTHING) for each in (pairs, back)), strict=True):
        assert sorted((MIRRORED[s.type], s.object) for s in told) == sorted(
            (s.type, s.object) for s in reverse
        )


def test_what_came_went_and_moved_is_told_so(make_grounded, make_pairs):
    pairs = make_pairs(
        [[(20, 30, 40, 50), (150, 140, 30, 30)], [(20, 60, 50, 30), (150, 62, 50, 30)]],
        sides=[[1, 0], [0, 1]],
        labels=[["person", "bottle"], ["car", "car"]],
    )
    strangers, (_, [moved]) = (
        [[f for f in each if f.confidence > 0.5] for each in make_grounded(linked=linked).facts(pairs)]
        for linked in (False, True)
    )
    assert [sorted((f.type, f.object) for f in each) for each in strangers] == [
        [("appeared", "person"), ("disappeared", "bottle")],
        [("appeared", "car"), ("disappeared", "car")],
    ]
    assert (moved.type, moved.object) == ("moved", "car")
    assert moved.before == pytest.approx((20 / 224, 60 / 224, 50 / 224, 30 / 224), abs=1e-4)
    assert moved.after == pytest.approx((150 / 224, 62 / 224, 50 / 224, 30 / 224), abs=1e-4)


def test_a_batch_of_views_of_several_sizes_equals_its_singles(make_grounded, make_pairs):
    captioner, pairs = make_grounded(5, wild=True), make_pairs(PLACES, seed=5)
    wide = np.pad(pairs[1].views, ((0, 0), (0, 0), (0, 96), (0, 0)), constant_values=GREY)
    pairs[1] = replace(pairs[1], views=wide)
    together = captioner.facts(pairs)
    assert [bool(each) for each in together] == [True, True, False, True]
    assert together == [captioner.facts([pair])[0] for pair in pairs]


class Nothing(RectangleDetector):
    def detect(self, images: Sequence[np.ndarray], least: float = 0.05) -> list[Detections]:
        assert not images
        return []


def test_where_no_cluster_is_nobody_looks(make_grounded, make_pairs):
    captioner, pairs = make_grounded(), make_pairs(PLACES)
    captioner.detector = Nothing()
    nothing = [replace(pair, boxes=pair.boxes[:0], masks=pair.masks[:0]) for pair in pairs]
    assert captioner.describe(nothing) == [[], [], [], []]


class OnRoad(RectangleDetector):
    """Takes the road for a car as well, and is surer of it than of all that drives there."""

    def detect(self, images: Sequence[np.ndarray], least: float = 0.05) -> list[Detections]:
        return [self.with_road(found) for found in super().detect(images, least)]

    def with_road(self, found: Detections) -> Detections:
        label = np.eye(len(OBJECTS), dtype=np.float32)[[OBJECTS.index("car")]] * 0.99
        road = (
            np.array([[0.0, 0.2, 1.0, 0.8]], np.float32),
            label.max(1),
            label,
            np.zeros((1, 192), np.float32),
        )
        own = found.box, found.score, found.label, found.feature
        return Detections(*(np.concatenate(each) for each in zip(road, own, strict=True)))


def test_a_road_that_is_taken_for_a_car_hides_no_car(make_grounded, make_pairs):
    captioner = make_grounded()
    captioner.detector = OnRoad()
    [[car]] = captioner.describe(make_pairs([[(60, 80, 50, 30)]], sides=[[1]], labels=[["car"]]))
    assert (car.type, car.after) == (
        "appeared",
        pytest.approx((60 / 224, 80 / 224, 50 / 224, 30 / 224), abs=1e-4),
    )


def test_equal_facts_side_by_side_are_told_as_one(make_grounded, make_pairs):
    cars = [(20, 60, 40, 30), (64, 60, 40, 30)]
    [[two]] = make_grounded().describe(make_pairs([cars], sides=[[1, 1]], labels=[["car", "car"]]))
    assert (two.type, two.object, two.count) == ("appeared", "car", 2)
    assert two.after == pytest.approx((20 / 224, 60 / 224, 84 / 224, 30 / 224), abs=1e-4)
    boxes = [(0.1, 0.3, 0.1, 0.1), (0.22, 0.3, 0.1, 0.1)]
    facts = [Fact("appeared", "car", None, box, c) for box, c in zip(boxes, (0.9, 0.7), strict=True)]
    [both] = make_grounded().word(facts, DescribeOptions())
    assert (both.count, both.confidence) == (2, 0.7), "as sure as the least sure"


def test_near_and_far_are_said_where_the_camera_looks_ahead(make_grounded, make_pairs):
    pairs = make_pairs([[(20, 8, 30, 20), (150, 190, 30, 30)]], sides=[[1, 1]], labels=[["person", "bottle"]])
    [told] = make_grounded().describe(pairs, replace(EVERYTHING, depth=True))
    assert {s.object: read(s.text).places & {"far", "near"} for s in told} == {
        "person": {"far"},
        "bottle": {"near"},
    }


def test_more_is_told_with_a_lower_threshold(make_grounded, make_pairs):
    captioner, pairs = make_grounded(3, wild=True), make_pairs(PLACES, seed=3)
    captioner.weights.threshold = 1.1
    found = captioner.facts(pairs)
    every = [fact.confidence for facts in found for fact in facts]
    counts = []
    for least in (0.0, 0.2, 0.4, 0.6, 1.05):
        each = captioner.describe(pairs, replace(EVERYTHING, min_confidence=least))
        assert all(s.confidence >= least for told in each for s in told)
        counts.append(sum(map(len, each)))
        assert counts[-1] == sum(c >= least for c in every)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0
    assert captioner.describe(pairs) == [[]] * 4, "its own threshold"
    given = captioner.describe(pairs, DescribeOptions(sentences=1, min_confidence=1.05))
    assert [len(each) for each in given] == [bool(facts) for facts in found], (
        "a given number is told whatever the threshold"
    )


def test_a_checkpoint_needs_no_encoder_and_keeps_what_it_has(tmp_path, monkeypatch):
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    assert captioner.tracking is not None
    captioner.weights.threshold, captioner.weights.tracking = 0.3, None  # as before tracking had any
    del captioner.graphs["embedding"]
    path = tmp_path / "grounded.safetensors"
    captioner.save(path)
    for name in ENCODERS:
        monkeypatch.setitem(ENCODERS, name, lambda *_: pytest.fail("an encoder was loaded"))
    loaded = load_captioner(path)
    assert isinstance(loaded, Grounded)
    assert loaded.image_size == (288, 384)
    assert loaded.min_confidence == pytest.approx(0.3)
    assert (loaded.graphs, loaded.appearance, loaded.tracking) == (captioner.graphs, None, None)
