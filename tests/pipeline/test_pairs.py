"""When a pair is proposed, and when not: every rule on small synthetic scenes, then real footage."""

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

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
Scene = Callable[[float], np.ndarray]


def times(pairs: list[FramePair]) -> list[tuple[float, float]]:
    return [(second(pair.before), second(pair.after)) for pair in pairs]


def found(frames: list[Frame]) -> list[FramePair]:
    return list(candidate_pairs(frames, BAND))


@pytest.mark.parametrize("sigma", [0.0, 12.0])
def test_a_still_scene_gives_no_pairs_by_day_or_night(sigma):
    rng = np.random.default_rng(1)
    band = calibrate(film(lambda _: noisy(rng, sigma, street()), 30))
    assert band
    assert list(candidate_pairs(film(lambda _: noisy(rng, sigma, street()), 400), band)) == []


def test_a_step_gives_one_pair_once_it_has_settled():
    (pair,) = found(film(lambda t: street(70 if t >= 10 else None), 30))
    assert times([pair]) == [(0.0, 11.0)]
    assert not pair.beyond_upper
    difference = pair.before.image.astype(float) - pair.after.image
    assert pair.l2 == pytest.approx(np.sqrt((difference**2).mean()))


def small_person(t: float) -> np.ndarray:
    luma = street()
    if t >= 10:
        luma[60:68, 70:73] = 230  # 0.16 % of the frame
    return luma


def fading(t: float, *, person: bool = False) -> np.ndarray:
    """Six levels a minute, for a quarter of an hour; somebody crosses now and then."""
    luma = street(20 if person and t % 100 == 50 else None).astype(float)
    luma[60:84, 60:84] += min(t, 900) * 0.1
    return luma.astype(np.uint8)


def bag(t: float) -> np.ndarray:
    """It is put down by somebody who goes elsewhere."""
    luma = street(70 if t == 10 else None)
    luma[10:34, 10:34] = 230 if t >= 10 else luma[10:34, 10:34]
    return luma


def flash(t: float) -> np.ndarray:
    return street(70 if 10 <= t <= 11 else None, brightness=0.2 if t == 10.5 else 1.0, grey=240)


def evening(t: float) -> np.ndarray:
    return street(70 if t >= 30 else None, brightness=0.2 if t >= 10 else 1.0, grey=255)


CROSSING = {10.0: -6, 10.5: 40, 11.0: 80, 11.5: 153}
OVER = "beyond upper"
SCENES: dict[str, tuple[Scene, int, *tuple[Any, ...]]] = {  # seconds of film, then each pair's two frames
    "a small person is enough": (small_person, 30, (0, 11)),
    "what keeps moving, after the longest wait": (
        lambda t: street(int(5 * (t - 10)) if t >= 10 else None), 16, (0, 13), (13, 15),
    ),
    "what arrives and then stands, once it stands: the last step is at 11.5": (
        lambda t: street(None if t < 10 else min(70, int(40 * (t - 9.5)))), 30, (0, 12.5),
    ),
    "who crosses, once, where most of him is seen": (lambda t: street(CROSSING.get(t)), 40, (0, 10.5)),
    "two who cross, twice": (
        lambda t: street(70 if t in {10.0, 10.5, 20.0} else None), 40, (0, 10), (11.0, 20),
    ),
    "one who stays longer, coming and going": (
        lambda t: street(70 if 10 <= t < 20 else None), 40, (0, 11), (11, 21),
    ),
    "lights out": (lambda t: street(brightness=0.2 if t >= 10 else 1.0), 60, (0, 11, OVER)),
    "lights on": (lambda t: street(brightness=1.65 if t >= 10 else 1.0), 60, (0, 11, OVER)),
    "then the new scene is the reference": (evening, 60, (0, 11, OVER), (11, 31)),
    "a flash is nothing": (lambda t: street(brightness=1.65 if t == 10 else 1.0), 60),
    "somebody in a flash is shown outside it": (flash, 40, (0, 10)),
    "slow drift, by the long baseline alone": (fading, 1300, (0, 300), (300, 600), (600, 900)),
    "the long baseline reaches back over who crossed": (
        lambda t: fading(t, person=True), 320, (0, 50), (110.5, 150), (210.5, 250), (0, 300),
    ),
    "the reference is renewed while nothing happens": (
        lambda t: street(70 if t >= 130 else None), 140, (120, 131),
    ),
    "what is unfinished at the end": (lambda t: street(70 if t >= 9.5 else None), 10, (0, 9.5)),
    "lights out at the end": (lambda t: street(brightness=0.2 if t >= 9.5 else 1.0), 10, (0, 9.5, OVER)),
    "what goes elsewhere keeps no change from settling": (bag, 30, (0, 11)),
}  # fmt: skip


@pytest.mark.parametrize("case", SCENES.values(), ids=SCENES)
def test_when_a_pair_is_proposed(case):
    scene, seconds, *expected = case
    pairs = found(film(scene, seconds))
    shown = zip(times(pairs), pairs, strict=True)
    assert [(*ends, OVER) if pair.beyond_upper else ends for ends, pair in shown] == expected


def test_only_a_crossing_has_returned():
    pairs = found(film(lambda t: street(70 if 10 <= t < 20 or t == 50 else None), 80))
    assert [p.returned for p in pairs] == [False, False, True]


@pytest.mark.parametrize("leaving", [11.0, 13.0])
def test_one_who_leaves_a_fainter_trace_is_shown_all_the_same(leaving):
    """The exposure followed a car: neither end of the settled pair shows the car."""

    def car(t: float) -> np.ndarray:
        person = int(20 + 30 * (t - 10)) if 10 <= t < leaving else None
        return street(person, brightness=0.75 if t >= 10 else 1.0, grey=255)

    pairs = found(film(car, 40))
    (before, shown), (shown_again, after) = times(pairs)
    assert [pair.beyond_upper for pair in pairs] == [False, False]
    assert before == 0.0
    assert 10.0 <= shown == shown_again < leaving <= after


@pytest.mark.parametrize(("pause_s", "settling_s"), [(2.5, 1.0), (3.0, 0.0), (580.0, 0.0)])
def test_a_pair_across_a_pause_is_proposed_at_once(pause_s, settling_s):
    back = 19.5 + pause_s
    frames = film(lambda t: street(), 20)
    frames += [frame(back + k / 2, street(70)) for k in range(40)]
    assert times(found(frames)) == [(0.0, back + settling_s)]


def test_sparse_stills_are_compared_one_by_one():
    stills = [frame(60.0 * k, street(70 if k % 4 >= 2 else None)) for k in range(8)]
    assert times(found(stills)) == [(60.0, 120.0), (180.0, 240.0), (300.0, 360.0)]


def test_a_change_of_resolution_takes_a_new_reference():
    large, small = street(), street(70)[::2, ::2]
    for first, then in ((large, small), (small, large)):
        assert found([frame(t / 2, first if t < 20 else then) for t in range(40)]) == []
        full = [{"full": first}, {"full": then}]  # the same luma size, another full size
        assert found([frame(t / 2, street(70 if t < 20 else None), **full[t // 20]) for t in range(40)]) == []


def test_late_frames_are_left_out_and_a_clock_set_back_takes_a_new_reference():
    frames = film(lambda t: street(), 20)
    late = [*frames[:20], frame(8.2, street(70)), frame(9.5, street(70)), *frames[20:]]
    assert found(late) == []
    back = [frame(t - 3600, street(70 if t > 10 else None)) for t in range(20)]
    assert times(found(frames + back)) == [(-3600.0, -3588.0)]


def test_frames_of_two_cameras_are_refused():
    with pytest.raises(ValueError, match=r"'yard' and 'gate' are mixed"):
        found([frame(0, street()), frame(1, street(), camera="gate")])


def test_no_more_than_a_few_frames_are_held():
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
def test_pairs_are_in_order_and_the_same_however_frames_arrive(shots, chunk):
    t = 0.0
    frames: list[Frame] = []
    for step, person, brightness in shots:
        t += step
        frames.append(frame(t, street(person, brightness=brightness)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.settings, "LONG_GAP_S", 20.0)
        patch.setattr(module.settings, "MAX_GAP_S", 6.0)
        pairs = found(frames)
        chunks = (frames[k : k + chunk] for k in range(0, len(frames), chunk))
        again = list(candidate_pairs((each for some in chunks for each in some), BAND))
        patch.setattr(module.settings, "LONG_GAP_S", 1e9)
        short = found(frames)
    assert all(p.before.time < p.after.time for p in pairs)
    assert all(a.after.time < b.after.time for a, b in pairwise(pairs))
    assert [(p.before, p.after, p.l2, p.beyond_upper, p.cause) for p in again] == [
        (p.before, p.after, p.l2, p.beyond_upper, p.cause) for p in pairs
    ]
    assert all(a.after.time <= b.before.time for a, b in pairwise(short))


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
    ],
)
def test_real_events_lie_inside_pairs_whose_ends_show_them(clips, bench, clip, quiet, visits):
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
