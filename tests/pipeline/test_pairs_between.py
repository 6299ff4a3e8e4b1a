"""What a pair carries of the frames between: which, how many, how small."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from pipeline.pairs import (
    MAX_BETWEEN,
    SMALL_WIDTH,
    FramePair,
    PairOptions,
    candidate_pairs,
    pair_l2,
    small_image,
)
from pipeline.sources import Clock, Frame
from pipeline.thresholds import PairThresholds

START = datetime(2024, 3, 1, tzinfo=UTC)
SIZE = (96, 160)
BAND = PairThresholds(16.0, 50.0)

Film = list[tuple[float, np.ndarray]]


class Grey:
    """A picture whose three channels are its plane."""

    def __init__(self, plane: np.ndarray) -> None:
        self._plane = plane

    def rgb(self) -> np.ndarray:
        return np.repeat(self._plane[..., None], 3, axis=2)


def frame(t: float, luma: np.ndarray, camera: str = "yard", full: np.ndarray | None = None) -> Frame:
    picture = Grey(luma if full is None else full)
    return Frame(camera, START + timedelta(seconds=t), Clock.FILE, round(1000 * t), luma, picture)


def street(person: int | None = None, grey: int = 220, brightness: float = 1.0) -> np.ndarray:
    """An empty street, or one with a person at `person` pixels from the left."""
    luma = np.tile(np.linspace(60, 150, SIZE[1]), (SIZE[0], 1))
    luma[20:60, 100:140] = 40
    if person is not None:
        luma[60:84, max(person, 0) : person + 10] = grey
    return (luma * brightness).astype(np.uint8)


def film(scene: Callable[[float], np.ndarray], seconds: float, hz: float = 2.0) -> list[Frame]:
    return [frame(k / hz, scene(k / hz)) for k in range(int(seconds * hz))]


def times(pairs: list[FramePair]) -> list[tuple[float, float]]:
    return [((p.before.time - START).total_seconds(), (p.after.time - START).total_seconds()) for p in pairs]


def found(frames: list[Frame], options: PairOptions | None = None) -> list[FramePair]:
    return list(candidate_pairs(frames, BAND, options or PairOptions()))


def between(pair: FramePair) -> list[float]:
    return [(b.time - START).total_seconds() for b in pair.between]


def test_the_last_quiet_frame_and_all_that_differ_lie_between() -> None:
    (pair,) = found(film(lambda t: street(None if t < 10 else min(70, int(40 * (t - 9.5)))), 30))
    assert times([pair]) == [(0.0, 12.5)]
    assert between(pair) == [9.5, 10.0, 10.5, 11.0, 11.5, 12.0]
    assert np.array_equal(pair.between[0].image[..., 0], street())
    assert np.array_equal(pair.between[2].image[..., 0], street(40))
    assert [(b.time - START).total_seconds() for b in pair.later] == [13.0, 13.5, 14.0]


def test_a_frame_that_comes_late_is_left_out_and_nothing_else() -> None:
    frames = film(lambda t: street(None if t < 10 else 40), 30)
    (pair,) = found([*frames[:10], frames[7], *frames[10:]])
    assert times([pair]) == times(found(frames))


def test_what_lies_in_a_mask_adds_nothing_to_the_distance() -> None:
    before, after = frame(0, street()), frame(1, street(40))
    left, right = (((x, 0.0), (x + 0.5, 0.0), (x + 0.5, 1.0), (x, 1.0)) for x in (0.0, 0.5))
    assert pair_l2(before, after, (left,)) == 0
    assert pair_l2(before, after, (right,)) == pair_l2(before, after) > 0


def test_what_lies_between_is_divided_among_the_pairs_of_a_fainter_trace() -> None:
    def car(t: float) -> np.ndarray:
        return street(int(20 + 30 * (t - 10)) if 10 <= t < 11 else None, brightness=0.75 if t >= 10 else 1.0)

    coming, going = found(film(car, 40))
    assert between(coming) == [9.5, *([10.0] if coming.after.time > going.before.time else [])]
    assert [t for t in between(going) if t <= (going.before.time - START).total_seconds()] == []
    assert len(going.between) >= 1


def test_of_somebody_who_crosses_only_what_comes_before_the_fullest_lies_between() -> None:
    def crossing(t: float) -> np.ndarray:
        return street({10.0: -6, 10.5: 40, 11.0: 80, 11.5: 153}.get(t))

    (pair,) = found(film(crossing, 40))
    assert between(pair) == [t for t in (9.5, 10.0, 10.5) if t < times([pair])[0][1]]
    assert pair.returned
    later = [(b.time - START).total_seconds() for b in pair.later]
    assert later == [times([pair])[0][1] + k / 2 for k in range(1, 4)]


def test_a_pair_of_the_long_baseline_has_nothing_between() -> None:
    def fading(t: float) -> np.ndarray:
        luma = street().astype(float)
        luma[60:84, 60:84] += t * 0.1
        return luma.astype(np.uint8)

    assert [p.between for p in found(film(fading, 310))] == [()]


@pytest.mark.parametrize("hz", [5, 10, 30, 60])
def test_what_lies_between_is_thinned_evenly(hz: int) -> None:
    options = PairOptions(max_wait_s=6.0)
    pairs = found(film(lambda t: street(int(5 * (t - 10)) % 140 if t >= 10 else None), 30, hz), options)
    assert len(pairs) >= 3
    for pair in pairs[:-1]:
        seen = between(pair)
        steps = np.diff(seen)
        assert MAX_BETWEEN / 2 <= len(seen) <= MAX_BETWEEN
        assert steps.max() == pytest.approx(steps.min(), abs=2e-3)
        assert times([pair])[0][0] < seen[0]
        assert seen[-1] < times([pair])[0][1]
        assert times([pair])[0][1] - seen[-1] <= steps.max() + 1e-6


def test_a_pair_carries_at_most_a_few_megabytes() -> None:
    wide = [frame(k / 50, np.full((720, 1280), 40 if k < 50 else 60 + k % 100, np.uint8)) for k in range(400)]
    pairs = found(wide, PairOptions(max_wait_s=4.0))
    assert pairs
    for pair in pairs:
        assert sum(b.image.nbytes for b in pair.between) <= 12e6
        assert sum(b.image.nbytes for b in pair.later) <= 12e6
        assert all(b.image.shape == (360, SMALL_WIDTH, 3) for b in pair.between)


def test_what_comes_later_is_seen_a_few_times_whatever_the_rate() -> None:
    for hz in (2, 10, 50):
        (pair,) = found(film(lambda t: street(70 if t >= 10 else None), 20, hz))
        assert 3 <= len(pair.later) <= 7
        assert 1.2 <= (pair.later[-1].time - pair.after.time).total_seconds() <= 1.6


def test_a_narrow_picture_is_left_as_it_is() -> None:
    image = np.zeros((96, 160, 3), np.uint8)
    assert small_image(image) is image
    assert small_image(np.zeros((1, 4000, 3), np.uint8)).shape == (1, SMALL_WIDTH, 3)
