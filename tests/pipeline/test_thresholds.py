"""Thresholds calibrated from footage: quiet, static, busy, noisy, short, long, real."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pipeline import thresholds as module
from pipeline.distance import l2_luma
from pipeline.sources import Clock, Frame, open_source
from pipeline.thresholds import (
    LOWER_BOUNDS,
    SCREENING_BLOCK,
    UPPER_BOUNDS,
    Calibration,
    PairThresholds,
    calibrate,
)

START = datetime(2024, 3, 1, tzinfo=UTC)
HEIGHT, WIDTH = 96, 160


class Grey:
    """A picture whose three channels are the luma."""

    def __init__(self, luma: np.ndarray) -> None:
        self._luma = luma

    def rgb(self) -> np.ndarray:
        return np.repeat(self._luma[..., None], 3, axis=2)


def frames(lumas: Iterable[np.ndarray], hz: float = 2.0) -> Iterator[Frame]:
    for k, luma in enumerate(lumas):
        yield Frame("yard", START + timedelta(seconds=k / hz), Clock.FILE, k, luma, Grey(luma))


def scene() -> np.ndarray:
    """A street: a gradient, two walls."""
    luma = np.tile(np.linspace(60, 150, WIDTH), (HEIGHT, 1))
    luma[10:40, 20:50] = 190
    luma[20:60, 100:140] = 40
    return luma


def noisy(rng: np.random.Generator, sigma: float, luma: np.ndarray | None = None) -> np.ndarray:
    clean = scene() if luma is None else luma
    return np.clip(clean + rng.normal(0, sigma, clean.shape), 0, 255).astype(np.uint8)


def passing(rng: np.random.Generator, count: int, sigma: float, when: range) -> Iterator[np.ndarray]:
    """A person of 24 x 10 pixels walks through in the frames of `when`, again and again."""
    for k in range(count):
        luma = scene()
        if k % 40 in when:
            x = 6 * (k % 40 - when.start)
            luma[60:84, x : x + 10] = 230
        yield noisy(rng, sigma, luma)


def test_quiet_and_static_footage_gives_the_lowest_bounds() -> None:
    rng = np.random.default_rng(1)
    still = calibrate(frames([scene().astype(np.uint8)] * 12))
    assert still.measured
    assert still.noise == 0
    assert still.thresholds == PairThresholds(LOWER_BOUNDS[0], UPPER_BOUNDS[0])
    quiet = calibrate(frames(noisy(rng, 1.5) for _ in range(40)))
    assert quiet.noise == pytest.approx(1.5 * 2**0.5, rel=0.15)
    assert quiet.thresholds.lower == LOWER_BOUNDS[0]


@pytest.mark.parametrize("sigma", [0.0, 3.0, 6.0, 10.0, 16.0, 25.0])
def test_lower_lies_above_noise_and_below_a_person(sigma: float) -> None:
    rng = np.random.default_rng(2)
    found = calibrate(frames(noisy(rng, sigma) for _ in range(40)))
    reference = noisy(rng, sigma)
    for _ in range(20):
        assert l2_luma(reference, noisy(rng, sigma), SCREENING_BLOCK)[1].max() < found.thresholds.lower
    person = scene()
    person[60:84, 60:70] = 230
    assert l2_luma(reference, noisy(rng, sigma, person), SCREENING_BLOCK)[1].max() > found.thresholds.lower


@pytest.mark.parametrize("sigma", [6.0, 10.0])
def test_lower_leaves_room_for_the_light_beside_the_noise(sigma: float) -> None:
    rng = np.random.default_rng(2)
    found = calibrate(frames(noisy(rng, sigma) for _ in range(40)))
    assert LOWER_BOUNDS[0] < found.thresholds.lower < LOWER_BOUNDS[1]
    assert found.thresholds.lower == pytest.approx(8 + 1.5 * found.noise, abs=0.02)


@pytest.mark.parametrize("when", [range(8), range(20), range(30), range(40)])
def test_passers_by_do_not_raise_the_noise(when: range) -> None:
    rng = np.random.default_rng(3)
    found = calibrate(frames(passing(rng, 120, 2.0, when)))
    assert found.noise == pytest.approx(2.0 * 2**0.5, rel=0.3)
    assert found.thresholds.lower < 20
    assert found.peak.largest > 100


def test_a_clip_that_is_busy_everywhere_stays_within_the_bounds() -> None:
    rng = np.random.default_rng(4)
    lumas = [np.roll(rng.permutation(scene().ravel()).reshape(HEIGHT, WIDTH), k, 1) for k in range(30)]
    busy = calibrate(frames(luma.astype(np.uint8) for luma in lumas))
    assert busy.thresholds.upper == UPPER_BOUNDS[1]
    assert busy.thresholds.lower >= LOWER_BOUNDS[1]


def test_upper_is_several_times_ordinary_activity() -> None:
    def walls(k: int) -> np.ndarray:
        luma = scene()
        luma[:, 10 * (k % 16) : 10 * (k % 16) + 2] = 230
        return luma.astype(np.uint8)

    found = calibrate(frames(walls(k) for k in range(60)))
    assert UPPER_BOUNDS[0] < found.whole.p95 * 2 < found.thresholds.upper


def test_one_lamp_does_not_decide_the_upper_threshold() -> None:
    lumas = [scene() * (0.3 if 30 <= k < 60 else 1.0) for k in range(90)]
    found = calibrate(frames(luma.astype(np.uint8) for luma in lumas))
    assert found.whole.largest > 50
    assert found.thresholds.upper == UPPER_BOUNDS[0]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_too_little_footage_gives_the_defaults_and_says_so(count: int) -> None:
    found = calibrate(frames([scene().astype(np.uint8)] * count))
    assert found.thresholds == PairThresholds()
    assert not found.measured
    assert found.frames == count


def test_memory_is_bounded_and_thinning_changes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    lumas = list(passing(np.random.default_rng(5), 400, 2.0, range(8)))
    whole = calibrate(frames(lumas))
    monkeypatch.setattr(module, "_HELD", 64)
    thinned = calibrate(frames(lumas))
    assert thinned.frames == whole.frames == 400
    assert thinned.span_s == whole.span_s == 199.5
    assert thinned.noise == pytest.approx(whole.noise, rel=0.1)


def test_a_change_of_resolution_starts_again() -> None:
    rng = np.random.default_rng(6)
    small = [noisy(rng, 20.0)[:48, :80] for _ in range(10)]
    found = calibrate(frames([*small, *(noisy(rng, 1.0) for _ in range(20))]))
    assert found.noise == pytest.approx(2**0.5, rel=0.2)


def test_it_is_stored_and_read_back() -> None:
    found = calibrate(frames(noisy(np.random.default_rng(7), 2.0) for _ in range(10)))
    assert Calibration.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    "damage",
    [{"noise": None}, {"thresholds": {"lower": -1.0, "upper": 3.0}}, {"peak": {"p1": 0}}, {"thresholds": 3}],
)
def test_a_damaged_calibration_is_refused(damage: dict[str, object]) -> None:
    stored = calibrate(frames([scene().astype(np.uint8)] * 6)).to_dict() | damage
    if damage == {"noise": None}:
        del stored["noise"]
    with pytest.raises(ValueError, match=r"calibrate the camera again|threshold"):
        Calibration.from_dict(stored)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 50.0), (20.0, 0.0), (256.0, 50.0), (20.0, float("nan"))])
def test_impossible_thresholds_are_refused(lower: float, upper: float) -> None:
    with pytest.raises(ValueError, match=r"within 0\.\.255"):
        PairThresholds(lower, upper)


@pytest.mark.footage
def test_real_quiet_stretches_lie_below_and_people_above(clips: Path) -> None:
    with open_source(str(clips / "intel_one-by-one-person-detection.mp4")) as source:
        film = list(source)
    lower = calibrate(film).thresholds.lower
    peaks = {
        (b.time - film[0].time).total_seconds(): l2_luma(a.luma, b.luma, SCREENING_BLOCK)[1].max()
        for a, b in pairwise(film)
    }
    empty = [p for t, p in peaks.items() if t < 4 or 47 < t < 49 or 71.5 < t < 73 or 88.5 < t < 90]
    assert len(empty) > 12
    assert max(empty) < lower
    for entering in (6.2, 22.7, 50.2, 74.7, 92.2, 123.5):
        assert max(p for t, p in peaks.items() if abs(t - entering) < 1.5) > 3 * lower


@pytest.mark.footage
@pytest.mark.parametrize(
    "clip", ["opencv_vtest.avi", "tfl_pentonville-penton.mp4", "intel_bottle-detection.mp4"]
)
def test_real_busy_clips_stay_within_the_bounds(clips: Path, clip: str) -> None:
    with open_source(str(clips / clip)) as source:
        found = calibrate(source)
    assert found.measured
    assert LOWER_BOUNDS[0] <= found.thresholds.lower <= LOWER_BOUNDS[1] < found.peak.p95
    assert found.whole.p95 < found.thresholds.upper <= UPPER_BOUNDS[1]
