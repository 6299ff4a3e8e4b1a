"""Association: symmetric, exclusive, nearly exact, and sure of a queue."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.families import OBJECTS
from models.grounded.association import PAIR_SIGNS, SIGNS, Floats, Side, associate
from models.grounded.observations import COLOUR_BINS

NOT_KNOWN = math.nan
FIRST = np.eye(len(PAIR_SIGNS) + 1)[0]


def some_side(count: int, seed: int) -> Side:
    chance = np.random.default_rng(seed)
    box = np.concatenate([chance.random((count, 2)) * 0.8, chance.random((count, 2)) * 0.2 + 0.01], axis=1)
    label, colours = chance.random((count, len(OBJECTS))), chance.random((count, COLOUR_BINS))
    family = chance.integers(0, 2, count)
    embedding, appearance = (each / 9 for each in (chance.random((count, 8)), chance.random((count, 8))))
    appearance[family > 0] = 0
    change = chance.random(count)
    return Side(box, chance.random(count), label, family, change, embedding, appearance, colours)


def matched(logits: Floats, *, kin: bool = True) -> Floats:
    """Match probabilities where no more than these log odds is known of each pair, of one family or two."""
    pair = associate(some_side(len(logits), 0), some_side(logits.shape[1], 0), 1.0)
    signs = np.zeros((*logits.shape, len(PAIR_SIGNS)))
    signs[..., 0] = logits
    return replace(pair, signs=signs, family=np.full(logits.shape, kin)).match(FIRST)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 99), st.sampled_from([0.5, 90.0, 1e6, NOT_KNOWN]))
def test_a_pair_read_backwards_has_the_same_signs(s, t, seed, gap_s):
    before, after = some_side(s, seed), some_side(t, seed + 100)
    pair, back = associate(before, after, gap_s), associate(after, before, gap_s)
    assert pair.signs.shape == (s, t, len(PAIR_SIGNS))
    assert np.isfinite(pair.signs).all()
    np.testing.assert_allclose(pair.swap().signs, back.signs)
    match = pair.match(np.random.default_rng(seed).normal(size=len(PAIR_SIGNS) + 1))
    weights = np.random.default_rng(seed).normal(size=len(PAIR_SIGNS) + 1)
    np.testing.assert_allclose(match, back.match(weights).T, atol=1e-9)
    for own, other, n in zip(
        pair.outcome_signs(match), back.outcome_signs(match.T)[::-1], (s, t), strict=True
    ):
        np.testing.assert_allclose(own, other)
        assert own.shape == (n, len(SIGNS))
        assert np.isfinite(own).all()


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_probabilities_are_those_of_all_ways_to_match(spread):
    chance = np.random.default_rng(3)
    for _ in range(10):
        logits = chance.normal(size=(4, 3)) * spread - 1
        one, total = np.zeros((4, 3)), 0.0
        for chosen in itertools.product(range(-1, 3), repeat=4):
            taken = [j for j in chosen if j >= 0]
            if len(set(taken)) == len(taken):
                pairs = [(i, j) for i, j in enumerate(chosen) if j >= 0]
                weight = math.exp(sum(float(logits[i, j]) for i, j in pairs))
                total += weight
                for i, j in pairs:
                    one[i, j] += weight
        assert np.abs(matched(logits) - one / total).max() < 0.05, "belief propagation is nearly exact"


def test_rivals_take_from_a_match_and_a_queue_is_sure_of_them_together():
    alone, rivals = matched(np.array([[2.0]])), matched(np.array([[2.0, 2.0]]))
    assert alone[0, 0] == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-4)
    assert rivals[0, 0] < 0.5 < alone[0, 0]
    queue = matched(np.full((3, 3), 2.0))
    assert queue.max() < 0.4
    assert queue.sum(1).min() > 0.75, "each has a partner, though none is sure"
    assert not matched(np.full((2, 2), 5.0), kin=False).any()


def test_a_gap_that_is_not_known_counts_as_half_a_minute():
    before, after = some_side(3, 1), some_side(4, 2)
    unknown, half = (associate(before, after, gap_s) for gap_s in (NOT_KNOWN, 30.0))
    np.testing.assert_array_equal(unknown.signs, half.signs)
