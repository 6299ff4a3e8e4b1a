"""Tracks: who is one through the frames, on scenes of boxes that are made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from models.boxes import Box
from models.detections import Detections
from models.families import OBJECTS
from models.grounded.assignment import assigned
from models.grounded.tracker import Tracker
from models.grounded.tracks import Track

Scene = Sequence[tuple[str, Box, float]]


def seen(scene: Scene) -> Detections:
    """Detections of a scene: what, where, how sure."""
    label = torch.zeros(len(scene), len(OBJECTS))
    for k, (name, _, score) in enumerate(scene):
        label[k, OBJECTS.index(name)] = score
    box = torch.tensor([box for _, box, _ in scene]).reshape(-1, 4)
    return Detections(box, torch.tensor([score for *_, score in scene]), label, torch.ones(len(scene), 4))


def person(x: float, y: float = 0.5, score: float = 0.7) -> tuple[str, Box, float]:
    return "person", (x, y, 0.04, 0.2), score


def followed(film: Mapping[float, Scene]) -> list[Track]:
    tracker = Tracker(16 / 9)
    for seconds, scene in film.items():
        tracker.step(seconds, seen(scene))
    return tracker.tracks


def test_a_walker_is_one_track() -> None:
    (track,) = followed({k / 2: [person(0.1 + 0.04 * k)] for k in range(12)})
    assert len(track.sights) == 12
    assert track.velocity == pytest.approx((0.08, 0.0), abs=1e-3)


def test_two_who_cross_stay_two_and_keep_their_ways() -> None:
    film = {k / 2: [person(0.2 + 0.04 * k, 0.5), person(0.8 - 0.04 * k, 0.56)] for k in range(15)}
    tracks = followed(film)
    assert len(tracks) == 2
    assert sorted(round(t.last.box[0] - t.first.box[0], 2) for t in tracks) == [-0.56, 0.56]


def test_who_is_hidden_for_a_second_is_one_and_was_there_in_between() -> None:
    film = {k / 2: [person(0.1 + 0.03 * k)] if k not in (6, 7) else [] for k in range(14)}
    (track,) = followed(film)
    assert len(track.sights) == 12
    between = track.at(3.25)
    assert between is not None
    assert between.box[0] == pytest.approx(0.1 + 0.03 * 6.5, abs=1e-6)


def test_a_track_is_nowhere_before_its_first_and_after_its_last_sight() -> None:
    (track,) = followed({k / 2: [person(0.1 + 0.03 * k)] if 2 <= k <= 6 else [] for k in range(10)})
    assert track.at(0.5) is None
    assert track.at(3.5) is None
    assert track.missed == 3


def test_unsure_detections_go_on_with_a_track_but_begin_none() -> None:
    unsure = {
        k / 2: [person(0.1 + 0.03 * k, score=0.7 if k < 4 else 0.2), person(0.8, score=0.2)] for k in range(8)
    }
    (track,) = followed(unsure)
    assert len(track.sights) == 8


def test_who_had_been_overlooked_is_led_back() -> None:
    """Only unsure at first: the track begins when it was first seen, not when it was first sure."""
    (track,) = followed({k / 2: [person(0.5, score=0.2 if k < 5 else 0.7)] for k in range(8)})
    assert track.first.seconds == 0.0
    assert track.last.since == 0.0


def test_what_rests_rests_since_it_came_to_rest() -> None:
    ways = [min(0.1 + 0.05 * k, 0.4) for k in range(16)]
    (track,) = followed({k / 2: [person(x)] for k, x in enumerate(ways)})
    assert 2.5 <= track.last.since <= 3.5
    assert track.first.since == 0.0


def test_a_walker_does_not_become_the_parked_car_he_passes() -> None:
    car = ("car", (0.4, 0.5, 0.2, 0.2), 0.8)
    tracks = followed({k / 2: [person(0.2 + 0.04 * k), car] for k in range(12)})
    assert sorted(OBJECTS[t.family] for t in tracks) == ["car", "person"]


def test_two_boxes_of_one_person_are_one_track() -> None:
    double = ("person", (0.301, 0.5, 0.04, 0.19), 0.5)
    tracks = followed({k / 2: [person(0.3), double] for k in range(6)})
    assert len(tracks) == 1


def test_after_a_pause_only_what_stands_in_its_place_is_the_same() -> None:
    film = {
        0.0: [person(0.3), person(0.6)],
        0.5: [person(0.3), person(0.6)],
        60.0: [person(0.3), person(0.75)],
    }
    assert sorted(len(t.sights) for t in followed(film)) == [1, 2, 3]


def test_frames_out_of_order_are_refused() -> None:
    tracker = Tracker(1.0)
    tracker.step(1.0, seen([]))
    with pytest.raises(ValueError, match="in order"):
        tracker.step(1.0, seen([]))


def test_memory_is_bounded() -> None:
    rng = np.random.default_rng(0)
    tracker = Tracker(1.0)
    for k in range(2000):
        noise = [person(float(rng.uniform(0, 0.9)), float(rng.uniform(0, 0.7))) for _ in range(3)]
        tracker.step(k / 2, seen([*noise, person(0.5)]))
    assert len(tracker.tracks) < 700
    assert max(len(t.sights) for t in tracker.tracks) < 600


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1000))
def test_assignment_is_the_best_there_is(rows: int, columns: int, seed: int) -> None:
    score = np.random.default_rng(seed).normal(0, 1, (rows, columns)).round(2)
    score[score < -1.5] = -np.inf
    pairs = assigned(score)
    best = linear_sum_assignment(np.maximum(score, 0), maximize=True)
    assert sum(score[i, j] for i, j in pairs) == pytest.approx(float(np.maximum(score, 0)[best].sum()))
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert all(score[i, j] > 0 for i, j in pairs)
