"""Thresholds calibrated from footage: quiet, static, busy, noisy, short, long, real."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from drawn_street import SIZE, frames, noisy, street

from pipeline import thresholds as module
from pipeline.distance import l2_luma
from pipeline.settings import LOWER_BOUNDS, SCREENING_BLOCK, UPPER_BOUNDS
from pipeline.thresholds import PairThresholds, calibrate


def passing(rng: np.random.Generator, count: int, sigma: float, when: range) -> Iterator[np.ndarray]:
    """A person of 24 x 10 pixels walks through in the frames of `when`, again and again."""
    for k in range(count):
        yield noisy(rng, sigma, street(6 * (k % 40 - when.start) if k % 40 in when else None))


def largest(before: np.ndarray, after: np.ndarray) -> float:
    return float(l2_luma(before, after, SCREENING_BLOCK)[1].max())


@pytest.mark.parametrize("sigma", [0.0, 1.5])
def test_quiet_and_static_footage_gives_the_lowest_bounds(sigma):
    rng = np.random.default_rng(1)
    found = calibrate(frames(noisy(rng, sigma, street()) for _ in range(40)))
    assert found == PairThresholds(LOWER_BOUNDS[0], UPPER_BOUNDS[0])


@pytest.mark.parametrize("sigma", [3.0, 10.0, 25.0])
def test_lower_lies_above_noise_and_below_a_person(sigma):
    rng = np.random.default_rng(2)
    found = calibrate(frames(noisy(rng, sigma, street()) for _ in range(40)))
    reference = noisy(rng, sigma, street())
    assert all(largest(reference, noisy(rng, sigma, street())) < found.lower for _ in range(20))
    assert largest(reference, noisy(rng, sigma, street(60))) > found.lower
    if LOWER_BOUNDS[0] < found.lower < LOWER_BOUNDS[1]:  # beside the noise, room for light that drifts
        assert found.lower == pytest.approx(8 + 1.5 * sigma * 2**0.5, rel=0.1)


@pytest.mark.parametrize("when", [range(8), range(40)])
def test_passers_by_do_not_raise_the_lower_threshold(when):
    found = calibrate(frames(passing(np.random.default_rng(3), 120, 6.0, when)))
    assert found.lower == pytest.approx(8 + 1.5 * 6 * 2**0.5, rel=0.25)


def test_footage_that_is_busy_everywhere_stays_within_the_bounds():
    rng = np.random.default_rng(4)
    lumas = [np.roll(rng.permutation(street().ravel()).reshape(SIZE), k, 1) for k in range(30)]
    found = calibrate(frames(lumas))
    assert found.upper == UPPER_BOUNDS[1]
    assert found.lower >= LOWER_BOUNDS[1]


def test_upper_is_several_times_ordinary_activity():
    def walls(k: int) -> np.ndarray:
        luma = street()
        luma[:, 10 * (k % 16) : 10 * (k % 16) + 2] = 230
        return luma

    lumas = [walls(k) for k in range(60)]
    usual = np.quantile([l2_luma(a, b)[0] for a, b in pairwise(lumas)], 0.95)
    found = calibrate(frames(lumas))
    assert found.upper == pytest.approx(2.5 * usual, abs=0.02)
    assert UPPER_BOUNDS[0] < found.upper < UPPER_BOUNDS[1]


def test_one_lamp_does_not_decide_the_upper_threshold():
    found = calibrate(frames(street(brightness=0.3 if 30 <= k < 60 else 1.0) for k in range(90)))
    assert found.upper == UPPER_BOUNDS[0]


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_too_little_footage_gives_none(count):
    assert (calibrate(frames([street()] * count)) is None) == (count < 5)


def test_memory_is_bounded_and_thinning_changes_little(monkeypatch):
    lumas = list(passing(np.random.default_rng(5), 400, 8.0, range(8)))
    all_maps = calibrate(frames(lumas))
    monkeypatch.setattr(module, "_HELD", 64)
    thinned = calibrate(frames(lumas))
    assert thinned != all_maps
    assert thinned.lower == pytest.approx(all_maps.lower, rel=0.1)


def test_a_change_of_resolution_starts_again():
    rng = np.random.default_rng(6)
    small = [noisy(rng, 20.0, street())[:48, :80] for _ in range(10)]
    found = calibrate(frames([*small, *(noisy(rng, 1.0, street()) for _ in range(20))]))
    assert found.lower == LOWER_BOUNDS[0]


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 50.0), (20.0, 0.0), (256.0, 50.0), (20.0, float("nan"))])
def test_impossible_thresholds_are_refused(lower, upper):
    with pytest.raises(ValueError, match=r"within 0\.\.255"):
        PairThresholds(lower, upper)
