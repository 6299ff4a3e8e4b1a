"""Association: symmetric, exclusive, nearly exact, and sure of a queue."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.families import OBJECTS
from models.grounded.association import (
    PAIR_SIGNS,
    SIGNS,
    Floats,
    PairSigns,
    Side,
    match_probabilities,
    pair_signs,
    probability,
    signs,
)

NOT_KNOWN = math.nan


def some_side(count: int, seed: int) -> Side:
    chance = np.random.default_rng(seed)
    box = np.concatenate([chance.random((count, 2)) * 0.8, chance.random((count, 2)) * 0.2 + 0.01], axis=1)
    label = chance.random((count, len(OBJECTS)))
    family = chance.integers(0, 2, count)
    embedding, appearance = (each / 9 for each in (chance.random((count, 8)), chance.random((count, 8))))
    appearance[family > 0] = 0
    return Side(box, chance.random(count), label, family, chance.random(count), embedding, appearance)


def colours(before: Side, after: Side) -> tuple[Floats, ...]:
    return tuple(np.full((len(before), len(after)), 0.25 * k) for k in range(4))


def of_logits(logits: Floats) -> PairSigns:
    """Pairs of which `match_probabilities` knows no more than these log odds."""
    every = np.zeros((*logits.shape, len(PAIR_SIGNS)))
    every[..., 0] = logits
    plain = np.zeros_like(logits)
    return PairSigns(every, np.ones(logits.shape, np.bool_), plain, plain, plain)


FIRST = np.eye(len(PAIR_SIGNS) + 1)[0]


def matched(logits: Floats) -> Floats:
    return match_probabilities(of_logits(logits), FIRST)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 99), st.sampled_from([0.5, 90.0, 1e6, NOT_KNOWN]))
def test_a_pair_read_backwards_has_the_same_signs(s: int, t: int, seed: int, gap_s: float) -> None:
    before, after = some_side(s, seed), some_side(t, seed + 100)
    pairs = pair_signs(before, after, colours(before, after), gap_s)
    back = pair_signs(after, before, tuple(each.T for each in colours(before, after)), gap_s)
    assert pairs.signs.shape == (s, t, len(PAIR_SIGNS))
    assert np.isfinite(pairs.signs).all()
    np.testing.assert_allclose(pairs.transpose().signs, back.signs)
    weights = np.random.default_rng(seed).normal(size=len(PAIR_SIGNS) + 1)
    match = match_probabilities(pairs, weights)
    np.testing.assert_allclose(match, match_probabilities(back, weights).T, atol=1e-9)
    own = signs(before, after, pairs, match, gap_s)
    np.testing.assert_allclose(own, signs(before, after, back.transpose(), match, gap_s))
    assert own.shape == (s, len(SIGNS))
    assert np.isfinite(own).all()


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_probabilities_are_those_of_all_ways_to_match(spread: float) -> None:
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


def test_a_rival_takes_from_a_match() -> None:
    alone, rivals = matched(np.array([[2.0]])), matched(np.array([[2.0, 2.0]]))
    assert alone[0, 0] == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-4)
    assert rivals[0, 0] < 0.5 < alone[0, 0]


def test_another_family_is_no_match() -> None:
    pairs = of_logits(np.full((2, 2), 5.0))
    strangers = PairSigns(pairs.signs, ~np.ones((2, 2), np.bool_), *[np.zeros((2, 2))] * 3)
    assert not match_probabilities(strangers, FIRST).any()


def test_in_a_queue_each_has_a_partner_though_none_is_sure() -> None:
    match = matched(np.full((3, 3), 2.0))
    assert match.max() < 0.4
    assert match.sum(1).min() > 0.75


def test_weights_are_those_of_a_logistic_regression() -> None:
    row = np.zeros((1, len(SIGNS)))
    row[0, 2] = 3.0
    weights = np.zeros(len(SIGNS) + 1)
    weights[2], weights[-1] = 0.5, -1.0
    assert probability(row, weights)[0] == pytest.approx(1 / (1 + math.exp(-0.5)))


def test_a_gap_that_is_not_known_counts_as_half_a_minute() -> None:
    before, after = some_side(3, 1), some_side(4, 2)
    unknown, half = (pair_signs(before, after, colours(before, after), s) for s in (NOT_KNOWN, 30.0))
    np.testing.assert_array_equal(unknown.signs, half.signs)
