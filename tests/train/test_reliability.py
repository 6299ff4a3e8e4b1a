from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from train.reliability import fit_confidence, logit, reliability, to_probabilities


def test_reliability_by_hand() -> None:
    right = [False, False, True, True, True, False]
    measured = reliability([0.0, 0.1, 0.15, 0.95, 0.95, 1.0], right, bins=10)
    assert measured.counts.tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 0, 3]
    assert measured.confidence[[0, 1, 9]] == pytest.approx([0.05, 0.15, 2.9 / 3])
    assert measured.accuracy[[0, 1, 9]] == pytest.approx([0, 1, 2 / 3])
    assert np.isnan(measured.accuracy[2:9]).all()
    assert measured.ece == pytest.approx((2 * 0.05 + 0.85 + 3 * 0.3) / 6)
    assert measured.edges.tolist() == pytest.approx([k / 10 for k in range(11)])


def test_reliability_of_nothing_is_not_known() -> None:
    measured = reliability([], [])
    assert np.isnan(measured.ece)
    assert measured.counts.sum() == 0


@pytest.mark.parametrize("confidence", [[0.5, 1.01], [0.5, -0.1], [0.5, float("nan")], [0.5]])
def test_what_is_no_confidence_is_refused(confidence: list[float]) -> None:
    with pytest.raises(ValueError, match="confidence"):
        reliability(confidence, [True, False])


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 20))
@settings(max_examples=80, deadline=None)
def test_the_error_is_a_share_and_no_larger_than_without_bins(
    rows: list[tuple[float, bool]], bins: int
) -> None:
    sure, right = (np.array(column) for column in zip(*rows, strict=True))
    measured = reliability(sure, right, bins)
    assert measured.counts.sum() == len(rows)
    assert abs(sure.mean() - right.mean()) - 1e-9 <= measured.ece <= np.abs(sure - right).mean() + 1e-9


def test_a_fitted_confidence_can_be_believed() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(1, 2, 4000)
    right = rng.random(4000) < to_probabilities(scores, 0.4, -0.7)
    raw = reliability(to_probabilities(scores, 1, 0), right).ece
    slope, offset = fit_confidence(scores[::2], right[::2])
    assert (slope, offset) == (pytest.approx(0.4, abs=0.06), pytest.approx(-0.7, abs=0.12))
    assert reliability(to_probabilities(scores[1::2], slope, offset), right[1::2]).ece < 0.03 < raw


def test_the_fit_agrees_with_logistic_regression() -> None:
    rng = np.random.default_rng(8)
    scores = rng.normal(50, 20, 3000)
    right = rng.random(3000) < to_probabilities(scores, 0.1, -4)
    peer = LogisticRegression(C=1e9, tol=1e-9).fit(scores[:, None], right)
    expected = pytest.approx((peer.coef_[0, 0], peer.intercept_[0]), rel=0.01)
    assert fit_confidence(scores, right) == expected  # Platt's targets differ by a thousandth only


@pytest.mark.parametrize(
    ("scores", "right"),
    [
        ([-2.0, -1.0, 1.0, 2.0], [False, False, True, True]),
        ([1e3, -1e3, 1e3, -1e3] * 50, [True, False] * 100),
        ([0.3, 0.1], [True, True]),
    ],
)
def test_separable_and_one_sided_scores_have_a_finite_fit(scores: list[float], right: list[bool]) -> None:
    slope, offset = fit_confidence(scores, right)
    given_ = to_probabilities(scores, slope, offset)
    assert ((given_ > 0) & (given_ < 1)).all()
    assert (given_[np.array(right)] > 0.5).all()


def test_equal_scores_are_worth_their_share() -> None:
    slope, offset = fit_confidence([2.0] * 8, [True] * 6 + [False] * 2)
    assert slope == 0
    assert to_probabilities(2.0, slope, offset) == pytest.approx((6 * 7 / 8 + 2 * 1 / 4) / 8)


@pytest.mark.parametrize("scores", [[], [float("inf")]])
def test_what_cannot_be_fitted_is_refused(scores: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        fit_confidence(scores, [True] * len(scores))


def test_logits_turn_back_into_probabilities() -> None:
    sure = np.array([0.0, 0.01, 0.5, 0.99, 1.0])
    assert to_probabilities(logit(sure), 1, 0) == pytest.approx(sure, abs=2e-6)
