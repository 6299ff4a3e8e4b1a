"""Judging: what the judge is given is finite, and the same from either side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.detections import Detections
from models.families import OBJECTS
from models.grounded.change_classifier import EVIDENCE, ObservedPair, evidence
from models.grounded.observations import colour_histograms

CHANGED, CORRELATION = (
    EVIDENCE.index(name)
    for name in ("share of its box that differs", "correlation of the two pictures there")
)


def sides_of(count: tuple[int, int], seed: int, gap_s: float) -> ObservedPair:
    chance = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return chance.random(shape, np.float32)

    pictures = (numbers(2, 64, 96, 3) * 255).astype(np.uint8)
    both = []
    for picture, n in zip(pictures, count, strict=True):
        low = numbers(n, 2)
        box = np.concatenate([low, numbers(n, 2) * (1 - low)], axis=1)
        label = numbers(n, len(OBJECTS)) * (numbers(n, len(OBJECTS)) > 0.5)
        both.append(Detections(box, numbers(n), label, numbers(n, 192), colour_histograms(picture, box)))
    changed = (numbers(40, 60) > 0.6).astype(np.float32)
    return ObservedPair((both[0], both[1]), pictures, changed, numbers(seed % 3, 4) / 2, gap_s)


def swapped(sides: ObservedPair) -> ObservedPair:
    return ObservedPair(sides.sides[::-1], sides.pictures[::-1], sides.changed, sides.clusters, sides.gap_s)


@given(
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.4, 3600.0, 1e9, math.nan]),
)
@settings(max_examples=60, deadline=None)
def test_evidence_is_finite_and_swapping_the_sides_swaps_it(
    count: tuple[int, int], seed: int, gap_s: float
) -> None:
    sides = sides_of(count, seed, gap_s)
    for side in (0, 1):
        given_ = evidence(sides, side)
        assert given_.shape == (count[side], len(EVIDENCE))
        assert np.isfinite(given_).all()
        np.testing.assert_allclose(given_, evidence(swapped(sides), 1 - side), rtol=1e-5)


def test_the_order_of_ends_does_not_matter() -> None:
    sides = sides_of((4, 3), 5, 8.0)
    order = np.array([2, 0, 3, 1])
    other = ObservedPair(
        (sides.sides[0].select(order), sides.sides[1]),
        sides.pictures,
        sides.changed,
        sides.clusters,
        sides.gap_s,
    )
    np.testing.assert_allclose(evidence(other, 0), evidence(sides, 0)[order], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(evidence(other, 1), evidence(sides, 1), rtol=1e-5, atol=1e-6)


def one_car(box: tuple[float, ...], picture: np.ndarray) -> Detections:
    label = np.zeros((1, len(OBJECTS)), np.float32)
    label[0, OBJECTS.index("car")] = 0.9
    found = np.array([box], np.float32), np.array([0.9], np.float32), label, np.ones((1, 192), np.float32)
    return Detections(*found, colour_histograms(picture, found[0]))


def test_what_stays_looks_unchanged_and_what_came_does_not() -> None:
    chance = np.random.default_rng(3)
    before = chance.integers(0, 256, (64, 96, 3), np.uint8)
    after, changed = before.copy(), np.zeros((64, 96), np.float32)
    after[32:64, 0:48] = chance.integers(0, 256, (32, 48, 3), np.uint8)
    changed[32:64, 0:48] = 1
    there, new = (0.5, 0.0, 0.5, 0.5), (0.0, 0.5, 0.5, 0.5)
    for box, share in ((there, 0.0), (new, 1.0)):
        sides = ObservedPair(
            (one_car(there, before), one_car(box, after)),
            np.stack([before, after]),
            changed,
            np.zeros((0, 4), np.float32),
            math.nan,
        )
        [row] = evidence(sides, 1).tolist()
        assert row[CHANGED] == share
        assert (row[CORRELATION] > 0.99) is (share == 0)
        assert row[EVIDENCE.index("best score of its family there on the other side")] == pytest.approx(
            0.9 * (share == 0)
        )
