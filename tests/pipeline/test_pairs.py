"""When a pair is proposed, and when not: every rule on small synthetic scenes, then real footage."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from drawn_street import film, frame, noisy, second, street
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import pairs as module
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.sources import Frame, open_source
from pipeline.thresholds import PairThresholds, calibrate

BAND = PairThresholds(16.0, 50.0)


def times(pairs: list[FramePair]) -> list[tuple[float, float]]:
    return [(second(pair.before), second(pair.after)) for pair in pairs]


def found(frames: list[Frame]) -> list[FramePair]:
    return list(candidate_pairs(frames, BAND))


@pytest.mark.parametrize("sigma", [0.0, 12.0])
def test_a_still_scene_gives_no_pairs_by_day_or_night(sigma: float) -> None:
    rng = np.random.default_rng(1)
    band = calibrate(film(lambda _: noisy(rng, sigma, street()), 30))
    assert band
    assert list(candidate_pairs(film(lambda _: noisy(rng, sigma, street()), 400), band)) == []


def test_a_step_gives_one_pair_once_it_has_settled() -> None:
    (pair,) = found(film(lambda t: street(70 if t >= 10 else None), 30))
    assert times([pair]) == [(0.0, 11.0)]
    assert not pair.beyond_upper
    difference = pair.before.image.astype(float) - pair.after.image
    assert pair.l2 == pytest.approx(np.sqrt((difference**2).mean()))


def test_a_small_person_is_enough() -> None:
    distant = street()
    distant[60:68, 70:73] = 230  # 0.16 % of the frame
    pairs = found(film(lambda t: distant if t >= 10 else street(), 30))
    assert len(pairs) == 1
    assert pairs[0].l2 < 6


def test_what_keeps_moving_is_proposed_after_the_longest_wait() -> None:
    pairs = found(film(lambda t: street(int(5 * (t - 10))) if t >= 10 else street(), 16))
    assert times(pairs)[0] == (0.0, 13.0)


def test_what_arrives_and_then_stands_waits_for_it_to_stand() -> None:
    walk = film(lambda t: street(None if t < 10 else min(70, int(40 * (t - 9.5)))), 30)
    assert times(found(walk)) == [(0.0, 12.5)]  # the last step is at 11.5


def test_somebody_who_crosses_is_told_once_where_most_of_him_is_seen() -> None:
    def crossing(t: float) -> np.ndarray:
        return street({10.0: -6, 10.5: 40, 11.0: 80, 11.5: 153}.get(t))

    (pair,) = found(film(crossing, 40))
    assert times([pair])[0][1] in {10.5, 11.0}
    assert not pair.beyond_upper


def test_two_who_cross_are_told_twice() -> None:
    pairs = found(film(lambda t: street(70 if t in {10.0, 10.5, 20.0} else None), 40))
    assert [after for _, after in times(pairs)] == [10.0, 20.0]
    assert times(pairs)[1][0] > 10.5


def test_one_who_stays_longer_is_told_twice_coming_and_going() -> None:
    pairs = found(film(lambda t: street(70 if 10 <= t < 20 else None), 40))
    assert times(pairs) == [(0.0, 11.0), (11.0, 21.0)]


@pytest.mark.parametrize("brightness", [0.2, 1.65])
def test_a_scene_switch_gives_one_pair_beyond_upper(brightness: float) -> None:
    (pair,) = found(film(lambda t: street(brightness=brightness if t >= 10 else 1.0), 60))
    assert pair.beyond_upper
    assert times([pair]) == [(0.0, 11.0)]


def test_after_a_scene_switch_the_new_scene_is_the_reference() -> None:
    def evening(t: float) -> np.ndarray:
        return street(70 if t >= 30 else None, brightness=0.2 if t >= 10 else 1.0, grey=255)

    pairs = found(film(evening, 60))
    assert [p.beyond_upper for p in pairs] == [True, False]
    assert times(pairs)[1] == (11.0, 31.0)


def test_a_flash_is_nothing() -> None:
    assert found(film(lambda t: street(brightness=1.65 if t == 10 else 1.0), 60)) == []


def test_somebody_in_a_flash_is_shown_outside_it() -> None:
    def passing(t: float) -> np.ndarray:
        return street(70 if 10 <= t <= 11 else None, brightness=0.2 if t == 10.5 else 1.0, grey=240)

    (pair,) = found(film(passing, 40))
    assert not pair.beyond_upper
    assert times([pair])[0][1] in {10.0, 11.0}


@pytest.mark.parametrize("leaving", [11.0, 13.0])
def test_one_who_leaves_a_fainter_trace_is_shown_all_the_same(leaving: float) -> None:
    """The exposure followed a car: neither end of the settled pair shows the car."""

    def car(t: float) -> np.ndarray:
        person = int(20 + 30 * (t - 10)) if 10 <= t < leaving else None
        return street(person, brightness=0.75 if t >= 10 else 1.0, grey=255)

    pairs = found(film(car, 40))
    (before, shown), (shown_again, after) = times(pairs)
    assert [pair.beyond_upper for pair in pairs] == [False, False]
    assert before == 0.0
    assert 10.0 <= shown == shown_again < leaving <= after


def test_slow_drift_is_caught_by_the_long_baseline_alone() -> None:
    def fading(t: float) -> np.ndarray:
        luma = street().astype(float)
        luma[60:84, 60:84] += min(t, 900) * 0.1  # six levels a minute
        return luma.astype(np.uint8)

    pairs = found(film(fading, 1300))
    assert times(pairs) == [(0.0, 300.0), (300.0, 600.0), (600.0, 900.0)]
    assert not any(pair.beyond_upper for pair in pairs)


def test_the_long_baseline_reaches_back_over_somebody_who_crossed() -> None:
    def fading(t: float) -> np.ndarray:
        luma = street(20 if t % 100 == 50 else None).astype(float)
        luma[60:84, 60:84] += t * 0.1
        return luma.astype(np.uint8)

    pairs = times(found(film(fading, 320)))
    assert pairs[-1] == (0.0, 300.0)
    assert [after for _, after in pairs] == [50.0, 150.0, 250.0, 300.0]


def test_the_reference_is_renewed_while_nothing_happens() -> None:
    (pair,) = found(film(lambda t: street(70 if t >= 130 else None), 140))
    assert times([pair]) == [(120.0, 131.0)]


@pytest.mark.parametrize(("pause_s", "settling_s"), [(2.5, 1.0), (3.0, 0.0), (580.0, 0.0)])
def test_a_pair_across_a_pause_is_proposed_at_once(pause_s: float, settling_s: float) -> None:
    back = 19.5 + pause_s
    frames = film(lambda t: street(), 20)
    frames += [frame(back + k / 2, street(70)) for k in range(40)]
    assert times(found(frames)) == [(0.0, back + settling_s)]


def test_sparse_stills_are_compared_one_by_one() -> None:
    stills = [frame(60.0 * k, street(70 if k % 4 >= 2 else None)) for k in range(8)]
    assert times(found(stills)) == [(60.0, 120.0), (180.0, 240.0), (300.0, 360.0)]


def test_what_is_unfinished_at_the_end_is_proposed() -> None:
    assert times(found(film(lambda t: street(70 if t >= 9.5 else None), 10))) == [(0.0, 9.5)]
    (lights_out,) = found(film(lambda t: street(brightness=0.2 if t >= 9.5 else 1.0), 10))
    assert lights_out.beyond_upper


def test_a_change_of_resolution_takes_a_new_reference() -> None:
    large, small = street(), street(70)[::2, ::2]
    for first, then in ((large, small), (small, large)):
        assert found([frame(t / 2, first if t < 20 else then) for t in range(40)]) == []
        full = [{"full": first}, {"full": then}]  # the same luma size, another full size
        assert found([frame(t / 2, street(70 if t < 20 else None), **full[t // 20]) for t in range(40)]) == []


def test_what_goes_elsewhere_does_not_keep_a_change_from_settling() -> None:
    def bag(t: float) -> np.ndarray:
        luma = street(70 if t == 10 else None)
        luma[10:34, 10:34] = 230 if t >= 10 else luma[10:34, 10:34]
        return luma

    assert times(found(film(bag, 30))) == [(0.0, 11.0)]


def test_late_frames_are_left_out_and_a_clock_set_back_takes_a_new_reference() -> None:
    frames = film(lambda t: street(), 20)
    late = [*frames[:20], frame(8.2, street(70)), frame(9.5, street(70)), *frames[20:]]
    assert found(late) == []
    back = [frame(t - 3600, street(70 if t > 10 else None)) for t in range(20)]
    assert times(found(frames + back)) == [(-3600.0, -3588.0)]


def test_frames_of_two_cameras_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'yard' and 'gate' are mixed"):
        found([frame(0, street()), frame(1, street(), camera="gate")])


def test_no_more_than_a_few_frames_are_held() -> None:
    alive: list[weakref.ref[object]] = []
    most = 0

    def endless() -> Iterator[Frame]:
        nonlocal most
        for k in range(600):
            shot = frame(k / 2, street(70 if k % 50 > 30 else None))
            alive.append(weakref.ref(shot.picture))
            yield shot
            del shot
            if k % 20 == 0:
                gc.collect()
                most = max(most, sum(ref() is not None for ref in alive))

    gc.freeze()  # else everything that other tests left is looked through thirty times
    assert sum(1 for _ in candidate_pairs(endless(), BAND)) == 23
    assert most <= 6


def test_only_a_crossing_has_returned() -> None:
    pairs = found(film(lambda t: street(70 if 10 <= t < 20 or t == 50 else None), 80))
    assert [p.returned for p in pairs] == [False, False, True]


SHOTS = st.lists(
    st.tuples(
        st.floats(0.1, 4.0),
        st.sampled_from([None, None, 20, 70, 72, 120]),
        st.sampled_from([1.0, 1.0, 1.0, 0.2]),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(shots=SHOTS, chunk=st.integers(1, 7))
def test_pairs_are_in_order_and_the_same_however_frames_arrive(
    shots: list[tuple[float, int | None, float]], chunk: int
) -> None:
    t = 0.0
    frames: list[Frame] = []
    for step, person, brightness in shots:
        t += step
        frames.append(frame(t, street(person, brightness=brightness)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONG_GAP_S", 20.0)
        patch.setattr(module, "MAX_GAP_S", 6.0)
        pairs = found(frames)
        chunks = (frames[k : k + chunk] for k in range(0, len(frames), chunk))
        again = list(candidate_pairs((each for some in chunks for each in some), BAND))
        patch.setattr(module, "LONG_GAP_S", 1e9)
        short = found(frames)
    assert all(p.before.time < p.after.time for p in pairs)
    assert all(a.after.time < b.after.time for a, b in pairwise(pairs))
    assert [(p.before, p.after, p.l2, p.beyond_upper, p.cause) for p in again] == [
        (p.before, p.after, p.l2, p.beyond_upper, p.cause) for p in pairs
    ]
    assert all(a.after.time <= b.before.time for a, b in pairwise(short))


@pytest.mark.footage
def test_vtest_gives_a_sane_number_of_pairs(clips: Path) -> None:
    with open_source(str(clips / "opencv_vtest.avi")) as source:
        frames = list(source)
    pairs = list(candidate_pairs(frames, calibrate(frames) or BAND))
    assert 15 <= len(pairs) <= 27  # 79 s of people who never stop
    assert not any(p.beyond_upper for p in pairs)
    assert all(p.l2 > 2 and p.before.image.shape == (576, 768, 3) for p in pairs[:3])


ONE_BY_ONE = "intel_one-by-one-person-detection.mp4"


@pytest.mark.footage
@pytest.mark.parametrize(
    ("clip", "quiet", "visits"),
    [
        (
            ONE_BY_ONE,
            [(0, 4.5), (47, 49), (71.5, 73.5), (88.5, 90.5)],
            [(6.2, 19.6), (22.7, 44.6), (50.2, 70.2), (74.7, 86.7), (92.2, 119.7), (123.5, 136.2)],
        ),
        ("intel_car-detection.mp4", [], [(4.6, 9.0), (14.4, 19.3), (25.2, 27.7)]),
        ("intel_bottle-detection.mp4", [], []),
    ],
)
def test_real_events_lie_inside_pairs_whose_ends_show_them(
    clips: Path,
    bench: Path,
    clip: str,
    quiet: list[tuple[float, float]],
    visits: list[tuple[float, float]],
) -> None:
    with open_source(str(clips / clip)) as source:
        frames = list(source)
    start = frames[0].time
    pairs = list(candidate_pairs(frames, calibrate(frames) or BAND))
    spans = [((p.before.time - start).total_seconds(), (p.after.time - start).total_seconds()) for p in pairs]
    lines = [json.loads(line) for line in (bench / "visible" / "events.jsonl").read_text().splitlines()]
    events = [e["t"] for e in lines if e["clip"] == clip and e.get("salient")]
    assert len(events) >= 8
    assert [t for t in events if not any(before <= t <= after for before, after in spans)] == []
    for since, until in quiet:
        assert not any(since <= before and after <= until for before, after in spans)
    for came, left in visits:  # who comes and goes between two frames is seen in neither
        assert any(before < came < after < left for before, after in spans), came
        assert any(came < before < left < after for before, after in spans), left
