"""When the gate opens, what it passes on, and which pairs go beside it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from drawn_street import film, second, street

from pipeline.gate import Gap, MotionFrame, watch
from pipeline.pairs import Cause, FramePair
from pipeline.settings import HOLD_S
from pipeline.sources import Frame
from pipeline.thresholds import PairThresholds

BAND = PairThresholds(40.0, 50.0)  # found on a busy scene: the gate does not go by it alone


def split(frames: Iterable[Frame], *, tracked: bool = True) -> tuple[list[MotionFrame], list[FramePair]]:
    found = list(watch(frames, BAND, tracked=tracked))
    motions = [each for each in found if isinstance(each, MotionFrame)]
    return motions, [each for each in found if isinstance(each, FramePair)]


def seconds(motions: list[MotionFrame]) -> list[float]:
    return [second(each.frame) for each in motions]


def walk(t: float) -> np.ndarray:
    """A person who crosses from 10 s to 14 s."""
    return street(int(40 * (t - 10)) - 5 if 10 <= t < 14 else None)


def test_a_still_scene_is_not_looked_at():
    assert split(film(lambda _: street(), 400, 5.0)) == ([], [])


def test_motion_is_looked_at_with_what_was_before_and_for_a_while_after():
    motions, pairs = split(film(walk, 30, 5.0))
    times = seconds(motions)
    assert 8.3 <= times[0] <= 9.0  # the before frame of an entrance
    assert [t for t in times if t >= 10] == pytest.approx(np.arange(10, times[-1] + 0.1, 0.2).tolist())
    assert 13.8 + HOLD_S <= times[-1] <= 15.0 + HOLD_S + 0.2
    assert times == sorted(times)
    assert pairs == []  # tracks explain it
    assert not any(each.restart for each in motions)


def test_calibration_closes_no_gate_and_loses_no_gap():
    frames = [frame for frame in film(walk, 60, 5.0) if not 16 < second(frame) < 50]

    def shown(calibrated_s: float) -> list[tuple[type, bool]]:
        def calibrate(frame: Frame) -> PairThresholds | None:
            return BAND if second(frame) >= calibrated_s else None

        items = watch(frames, BAND, tracked=True, live=True, calibrate=calibrate)
        return [(type(each), getattr(each, "follows_gap", False)) for each in items]

    assert Gap in [kind for kind, _ in shown(99)]
    for at in (13.5, 15.0, 16.0, 50.0):
        assert shown(at) == shown(99)


def test_the_gate_goes_by_what_was_calibrated():
    items = watch(film(walk, 30, 5.0), PairThresholds(255.0, 255.0), tracked=False, calibrate=lambda _: BAND)
    assert any(isinstance(each, FramePair) for each in items)


def test_a_frame_says_for_how_long_nothing_moved_before_it():
    def scene(t: float) -> np.ndarray:
        return walk(t if t < 20 else t - 50)

    motions, _ = split(film(scene, 80, 5.0))
    first, *others = motions
    assert first.quiet_s == pytest.approx(seconds(motions)[0])
    (again,) = [each for each in others if each.quiet_s]
    closed = max(t for t in seconds(motions) if t < 20)
    assert again.quiet_s == pytest.approx(seconds([again])[0] - closed, abs=0.21)
    assert again.quiet_s > 30


def test_somebody_slow_is_motion_as_well():
    motions, _ = split(film(lambda t: street(int(4 * t) if t >= 10 else None), 20, 5.0))
    assert seconds(motions)[-1] == pytest.approx(19.8)


def test_a_threshold_found_in_traffic_hides_nobody():
    def faint(t: float) -> np.ndarray:
        luma = street()
        luma[60:84, int(10 * t) : int(10 * t) + 10] += 28 * (t >= 3)
        return luma

    assert split(film(faint, 8, 5.0))[0]


def test_a_captioner_of_pairs_gets_the_pairs_alone():
    motions, pairs = split(film(walk, 30, 5.0), tracked=False)
    assert motions == []
    assert {pair.cause for pair in pairs} == {Cause.CHANGE}


@pytest.mark.parametrize("hz", [2.0, 5.0, 12.5])
def test_pairs_are_found_among_two_frames_a_second_whatever_the_rate(hz):
    _, pairs = split(film(lambda t: street(70 if t >= 10 else None), 30, hz), tracked=False)
    (pair,) = pairs
    assert second(pair.before) == 0
    assert second(pair.after) == pytest.approx(11, abs=0.6)


def test_slow_change_is_a_pair_although_objects_are_tracked():
    def dusk(t: float) -> np.ndarray:
        luma = street()
        luma[20:60, 100:140] = int(min(60 + t / 4, 200))
        return luma

    _, pairs = split(film(dusk, 700, hz=1.0))
    assert [pair.cause for pair in pairs] == [Cause.BASELINE, Cause.BASELINE]


def test_a_scene_that_is_cut_restarts_tracks_and_is_a_pair():
    motions, pairs = split(film(lambda t: street(brightness=0.2 if t >= 10 else 1.0), 30, 5.0))
    assert [pair.beyond_upper for pair in pairs] == [True]
    (restart,) = [each for each in motions if each.restart]
    assert second(restart.frame) == 10.0


def test_across_a_pause_there_is_a_pair_and_no_track():
    def footage() -> Iterator[Frame]:
        yield from film(lambda _: street(), 5, 5.0)
        yield from film(lambda _: street(70), 5, 5.0, begin=600)

    motions, pairs = split(footage())
    assert [pair.cause for pair in pairs] == [Cause.PAUSE]
    assert all(t >= 600 for t in seconds(motions))


@pytest.mark.parametrize(("live", "reason"), [(True, "camera_down"), (False, "no_footage")])
def test_a_while_without_frames_is_a_gap(live, reason):
    def footage() -> Iterator[Frame]:
        yield from film(lambda _: street(), 5, 5.0)
        yield from film(lambda _: street(), 5, 5.0, begin=600)

    (gap,) = [e for e in watch(footage(), BAND, tracked=True, live=live) if isinstance(e, Gap)]
    assert [second(f) for f in (gap.before, gap.after)] == [4.8, 600]
    assert gap.reason == reason


def test_stills_a_minute_apart_have_no_gaps():
    stills = film(lambda _: street(), 600, 1 / 60)
    assert not any(isinstance(e, Gap) for e in watch(stills, BAND, tracked=True))


def test_a_wall_clock_that_is_set_is_no_gap():
    def footage() -> Iterator[Frame]:
        days = [*film(lambda _: street(), 5, 5.0), *film(lambda _: street(), 5, 5.0, begin=86400 * 100)]
        days += film(lambda _: street(), 5, 5.0, begin=10)
        yield from (replace(frame, steady_s=k / 5) for k, frame in enumerate(days))
        yield from (replace(frame, steady_s=60.0) for frame in film(lambda _: street(), 1, 5.0, begin=16))

    found = watch(footage(), BAND, tracked=True, live=True)
    (gap,) = [each for each in found if isinstance(each, Gap)]
    assert second(gap.after) == 16
