"""Observations: colours and features of what is in a box, and evidence for the change classifier."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.captioner import PairInput
from models.detections import Detections
from models.families import OBJECTS
from models.grounded.observations import (
    COLOUR_BINS,
    EVIDENCE,
    ObservedPair,
    colour_histograms,
    colour_likeness,
    evidence,
    pool_features,
)

CHANGED, CORRELATION = (
    EVIDENCE.index(name)
    for name in ("share of its box that differs", "correlation of the two pictures there")
)


def some_pair(count: tuple[int, int], seed: int, gap_s: float) -> ObservedPair:
    chance = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return chance.random(shape, np.float32)

    views = (numbers(2, 64, 96, 3) * 255).astype(np.uint8)
    both = []
    for view, n in zip(views, count, strict=True):
        low = numbers(n, 2)
        box = np.concatenate([low, numbers(n, 2) * (1 - low)], axis=1)
        label = numbers(n, len(OBJECTS)) * (numbers(n, len(OBJECTS)) > 0.5)
        both.append(Detections(box, numbers(n), label, numbers(n, 192), colour_histograms(view, box)))
    masks, boxes = numbers(1, 40, 60) > 0.6, numbers(seed % 3, 4) / 2
    return ObservedPair(PairInput(views, masks, boxes, numbers(seed % 3), gap_s), (both[0], both[1]))


@given(
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.4, 3600.0, 1e9, math.nan]),
)
@settings(max_examples=60, deadline=None)
def test_evidence_is_finite_and_depends_on_neither_sides_nor_order(count, seed, gap_s):
    observed = some_pair(count, seed, gap_s)
    swapped = ObservedPair(replace(observed.pair, views=observed.pair.views[::-1]), observed.sides[::-1])
    order = np.random.default_rng(seed).permutation(count[0])
    shuffled = replace(observed, sides=(observed.sides[0].select(order), observed.sides[1]))
    for side in (0, 1):
        found = evidence(observed, side)
        assert found.shape == (count[side], len(EVIDENCE))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, evidence(swapped, 1 - side), rtol=1e-5)
        expected = found if side else found[order]
        np.testing.assert_allclose(evidence(shuffled, side), expected, rtol=1e-5, atol=1e-6)


def one_car(box: tuple[float, ...], view: np.ndarray) -> Detections:
    label = np.zeros((1, len(OBJECTS)), np.float32)
    label[0, OBJECTS.index("car")] = 0.9
    found = np.array([box], np.float32), np.array([0.9], np.float32), label, np.ones((1, 192), np.float32)
    return Detections(*found, colour_histograms(view, found[0]))


def test_what_stays_looks_unchanged_and_what_came_does_not():
    chance = np.random.default_rng(3)
    before = chance.integers(0, 256, (64, 96, 3), np.uint8)
    after, changed = before.copy(), np.zeros((1, 64, 96), np.bool_)
    after[32:64, 0:48] = chance.integers(0, 256, (32, 48, 3), np.uint8)
    changed[0, 32:64, 0:48] = True
    pair = PairInput(
        np.stack([before, after]), changed, np.zeros((0, 4), np.float32), np.zeros(1, np.float32)
    )
    there, new = (0.5, 0.0, 0.5, 0.5), (0.0, 0.5, 0.5, 0.5)
    for box, share in ((there, 0.0), (new, 1.0)):
        [row] = evidence(ObservedPair(pair, (one_car(there, before), one_car(box, after))), 1).tolist()
        assert row[CHANGED] == share
        assert (row[CORRELATION] > 0.99) is (share == 0)
        assert row[EVIDENCE.index("best score of its family there on the other side")] == pytest.approx(
            0.9 * (share == 0)
        )


def test_histograms_tell_colours_and_halves_apart():
    picture = np.full((100, 300, 3), 90, np.uint8)
    picture[:50, :100, 0] = 220  # red above
    picture[50:, :100, 2] = 220  # blue below
    picture[:, 100:200, 2] = 220
    box = [[0.0, 0, 1 / 3, 1], [1 / 3, 0, 1 / 3, 1], [2 / 3, 0, 1 / 3, 1], [0.9, 0.9, 0.5, 0.5]]
    found = colour_histograms(picture, np.array(box, np.float32))
    assert found.shape == (4, COLOUR_BINS)
    np.testing.assert_allclose(np.square(found).sum(1), 4.0, atol=1e-4)
    hue_above, _, hue_below, _ = colour_likeness(found[:1], found[1:2])
    assert float(hue_above[0, 0]) < 0.4
    assert float(hue_below[0, 0]) > 0.9
    assert len(colour_histograms(picture, np.zeros((0, 4), np.float32))) == 0
    white = colour_histograms(np.full((20, 20, 3), 255, np.uint8), np.array([[0, 0, 1, 1]], np.float32))
    assert np.flatnonzero(white[0]).tolist() == [8, 16, 25, 33]  # grey, and the last step of lightness


def test_features_are_what_is_inside():
    level = np.zeros((2, 8, 8), np.float32)
    level[0, :, :4], level[1, :, 4:] = 3.0, 5.0
    box = np.array([[0.0, 0.2, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0], [0.999, 0.999, 1e-4, 1e-4]], np.float32)
    left, both, tiny = pool_features([level, level], box)
    np.testing.assert_allclose(left, [1.0, 0, 1, 0])
    np.testing.assert_allclose(both, np.array([3.0, 5, 3, 5]) / 34**0.5, rtol=1e-6)
    np.testing.assert_allclose(tiny, [0.0, 1, 0, 1])
    assert pool_features([level, level], box[:0]).shape == (0, 4)
