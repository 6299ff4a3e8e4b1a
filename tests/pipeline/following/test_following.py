"""What is told of the objects of a camera, pair by pair: once, and only what was seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.boxes import Box
from models.detections import Detections
from models.families import OBJECTS
from models.language.facts import Fact
from pipeline.following import Follower
from pipeline.pairs import Between, FramePair
from pipeline.sources import Clock, Frame, Image

START = datetime(2024, 3, 1, tzinfo=UTC)
SIZE = (90, 160)
PAIR_S = 3.0
SWAPPED = 9.0
"""Seconds at which another one stands in the place of the first."""

Scene = list[tuple[str, Box, float]]
Film = Callable[[float], Scene]


class Painted:
    """A picture in which every object is a bright box; its first pixels tell the moment."""

    def __init__(self, scene: Scene, seconds: float) -> None:
        self.image = np.full((*SIZE, 3), 90, np.uint8)
        for _, (x, y, w, h), _ in scene:
            rows, columns = (
                (round(v * n), round((v + d) * n)) for v, d, n in ((y, h, SIZE[0]), (x, w, SIZE[1]))
            )
            self.image[max(rows[0], 0) : rows[1], max(columns[0], 0) : columns[1]] = 200
        self.image[0, 0] = (round(10 * seconds) % 256, round(10 * seconds) // 256, 0)

    def rgb(self) -> Image:
        return self.image


def detected(scene: Scene) -> Detections:
    label = torch.zeros(len(scene), len(OBJECTS))
    for k, (name, _, score) in enumerate(scene):
        label[k, OBJECTS.index(name)] = score
    box = torch.tensor([b for _, b, _ in scene]).reshape(-1, 4).clamp(0, 1)
    return Detections(box, torch.tensor([s for *_, s in scene]), label, torch.ones(len(scene), 4))


def seeing(film: Film) -> Callable[[Sequence[Image]], list[Detections]]:
    def see(pictures: Sequence[Image]) -> list[Detections]:
        moments = [(int(p[0, 0, 0]) + 256 * int(p[0, 0, 1])) / 10 for p in pictures]
        return [detected(film(t)) for t in moments]

    return see


def pairs_of(
    film: Film, seconds: float, paint: type[Painted] = Painted, pair_s: float = PAIR_S
) -> list[FramePair]:
    """Pairs of `pair_s` each, one after another, with all frames, two a second."""

    def frame(t: float) -> Frame:
        picture = paint(film(t), t)
        return Frame(
            "yard", START + timedelta(seconds=t), Clock.FILE, round(10 * t), picture.image[..., 1], picture
        )

    def small(first: float, last: float) -> tuple[Between, ...]:
        return tuple(Between.of(frame(t)) for t in np.arange(first + 0.5, last, 0.5))

    ends = np.arange(0, seconds + 0.1, pair_s)
    return [
        FramePair(frame(a), frame(b), 9.0, between=small(a, b), later=small(b, min(b + 1.6, seconds + 0.1)))
        for a, b in pairwise(ends)
    ]


def told(film: Film, seconds: float) -> list[Fact]:
    follower = Follower()
    return [
        fact
        for k, pair in enumerate(pairs_of(film, seconds))
        for fact in follower.follow(pair, seeing(film), k)
    ]


def person(x: float, y: float = 0.5, score: float = 0.75) -> tuple[str, Box, float]:
    left, right = max(x, 0.0), min(x + 0.05, 1.0)
    return "person", (left, y, right - left, 0.25), score


CAR = ("car", (0.55, 0.3, 0.2, 0.2), 0.8)


def crossing(t: float) -> Scene:
    """Comes in from the left at 2 s, leaves to the right at 16 s."""
    x = -0.04 + 0.07 * (t - 2)
    return [person(x)] if t >= 2 and x < 0.98 else []


def test_who_crosses_is_told_when_he_comes_and_when_he_leaves() -> None:
    came, left = told(crossing, 24)
    assert (came.type, came.manner, came.origin) == ("appeared", "came in", "left")
    assert (left.type, left.manner, left.target) == ("disappeared", "left", "right")
    assert came.before is None
    assert left.after is None
    assert (came.pair, left.pair) == (0, 5)
    assert came.moment_s == pytest.approx(2.5, abs=0.5)
    assert left.moment_s == pytest.approx(16.5 - 5 * PAIR_S, abs=0.5)  # its last sight, not its first


def test_boxes_are_those_of_the_two_frames_of_the_pair() -> None:
    came, left = told(crossing, 24)
    assert came.after == pytest.approx(crossing(PAIR_S * (came.pair + 1))[0][1], abs=1e-6)
    assert left.before == pytest.approx(crossing(PAIR_S * left.pair)[0][1], abs=1e-6)


def test_a_path_leads_to_where_it_is() -> None:
    came, _ = told(crossing, 24)
    assert [x for x, _ in came.path] == sorted(x for x, _ in came.path)
    assert all(y == pytest.approx(0.75, abs=1e-6) for _, y in came.path)


def test_two_are_two() -> None:
    facts = told(
        lambda t: [*crossing(t), *(("person", (x, 0.2, w, h), s) for _, (x, _, w, h), s in crossing(t))], 24
    )
    assert [f.type for f in facts] == ["appeared", "appeared", "disappeared", "disappeared"]


def test_a_rider_is_one() -> None:
    def film(t: float) -> Scene:
        return [
            part
            for _, (x, y, w, h), score in crossing(t)
            for part in (("person", (x, y, w, h), score), ("bicycle", (x, y + 0.15, w, 0.15), score))
        ]

    facts = told(film, 24)
    assert [(f.type, f.object) for f in facts] == [("appeared", "cyclist"), ("disappeared", "cyclist")]
    assert facts[0].after is not None
    assert facts[0].after[3] == pytest.approx(0.3, abs=1e-6)


def test_two_who_cross_each_other_stay_two() -> None:
    def film(t: float) -> Scene:
        return [person(0.05 + 0.04 * t, 0.5), person(0.85 - 0.04 * t, 0.6)]

    assert told(film, 18) == []


def test_who_is_hidden_for_a_second_is_not_gone() -> None:
    """He passes behind the car in the middle of the picture; nothing is told until he leaves."""

    def film(t: float) -> Scene:
        x = 0.2 + 0.05 * t
        return [CAR, *([person(x, 0.28)] if not 7 <= t < 8.5 else [])] if x < 1.0 else [CAR]

    facts = told(film, 24)
    assert [f.type for f in facts] == ["disappeared"]
    assert facts[0].target == "right"


def test_who_is_lost_behind_something_is_waited_for() -> None:
    """He goes behind the car and does not come out: nobody knows that he is gone."""
    facts = told(lambda t: [CAR, *([person(0.2 + 0.05 * t, 0.28)] if t < 8 else [])], 21)
    assert facts == []


def test_who_is_lost_in_the_open_is_gone() -> None:
    facts = told(lambda t: [person(0.2 + 0.03 * t)] if t < 8 else [], 21)
    assert [(f.type, f.manner, f.target) for f in facts] == [("disappeared", "", "")]


def test_what_is_as_large_as_the_road_hides_nobody_who_walks_on_it() -> None:
    """Something unnamed that covers nearly the whole picture, as detectors see roads."""
    road = ("object", (0.02, 0.05, 0.96, 0.94), 0.5)
    facts = told(lambda t: [road, *([person(0.2 + 0.03 * t)] if t < 8 else [])], 21)
    assert [(f.type, f.object) for f in facts] == [("disappeared", "person")]


def test_somebody_in_two_boxes_is_one() -> None:
    """From his middle up, and then the whole of him as well; two who walk side by side stay two."""

    def film(t: float) -> Scene:
        whole = crossing(t)
        part = [("person", (x, y, w, 0.55 * h), 0.7) for _, (x, y, w, h), _ in whole]
        return [*part, *whole] if t >= 3 else part

    assert [f.type for f in told(film, 24)] == ["appeared", "disappeared"]
    beside = told(lambda t: [*crossing(t), *(person(b[0], 0.1) for _, b, _ in crossing(t))], 24)
    assert [f.type for f in beside] == ["appeared"] * 2 + ["disappeared"] * 2


def test_a_parked_car_never_appears_however_unsurely_it_is_seen() -> None:
    rng = np.random.default_rng(3)
    scores = rng.choice([0.1, 0.2, 0.3, 0.5, 0.7], 200)

    def film(t: float) -> Scene:
        return [("car", CAR[1], float(scores[round(2 * t)])), *crossing(t)]

    facts = told(film, 60)
    assert {f.object for f in facts} == {"person"}


def test_who_was_overlooked_at_first_has_not_appeared() -> None:
    assert told(lambda t: [person(0.5, score=0.2 if t < 4 else 0.8)], 12) == []


def test_an_arriving_car_says_that_it_rests_and_one_that_sets_out_how_long_it_had() -> None:
    def film(t: float) -> Scene:
        x = min(0.0 + 0.1 * (t - 1), 0.4) if t < 20 else 0.4 + 0.12 * (t - 20)
        return [("car", (max(x, 0.0), 0.5, min(0.2, 1 - x), 0.2), 0.8)] if t >= 1 and x < 0.95 else []

    came, *others = told(film, 36)
    assert (came.type, came.origin) == ("appeared", "left")
    assert {f.type for f in others} <= {"moved", "disappeared"}
    went = others[0]
    assert went.waited_s is not None
    assert went.waited_s > 10


def test_who_keeps_walking_is_not_told_again_but_who_sets_out_is() -> None:
    def film(t: float) -> Scene:
        return [person(0.1 + (0.05 * (t - 10) if t > 10 else 0.0))]

    facts = told(film, 24)
    assert [(f.type, f.target) for f in facts] == [("moved", "right")]
    assert facts[0].waited_s is not None
    assert facts[0].waited_s >= 8


def test_who_comes_back_after_he_was_told_to_be_gone_is_not_told_to_appear() -> None:
    facts = told(lambda t: [person(0.5)] if not 4 <= t < 7.5 else [], 15)
    assert [f.type for f in facts] in ([], ["disappeared"])


def test_what_lies_in_a_mask_is_not_told() -> None:
    follower = Follower()
    mask = ((0.0, 0.4), (1.0, 0.4), (1.0, 1.0), (0.0, 1.0))
    pairs = [replace(pair, masks=(mask,)) for pair in pairs_of(crossing, 24)]
    assert [f for pair in pairs for f in follower.follow(pair, seeing(crossing))] == []


def test_every_frame_is_seen_once() -> None:
    asked: list[int] = []

    def see(pictures: Sequence[Image]) -> list[Detections]:
        asked.extend(int(p[0, 0, 0]) for p in pictures)
        return seeing(crossing)(pictures)

    follower = Follower()
    for pair in pairs_of(crossing, 18):
        follower.follow(pair, see)
    assert asked == sorted(set(asked))
    assert len(asked) == 37


def test_the_same_at_every_run_and_nothing_is_left_after_a_reset() -> None:
    first = told(crossing, 24)
    assert told(crossing, 24) == first
    follower = Follower()
    pairs = pairs_of(crossing, 24)
    for pair in pairs[:3]:
        follower.follow(pair, seeing(crossing))
    follower.reset()
    fresh = Follower()
    for pair in pairs[3:]:
        assert follower.follow(pair, seeing(crossing)) == fresh.follow(pair, seeing(crossing))


def test_who_asks_twice_for_a_pair_gets_the_same_answer_and_changes_nothing() -> None:
    """A batch that failed is asked for again in parts."""
    pairs, follower = pairs_of(crossing, 24), Follower()
    first = [follower.follow(pair, seeing(crossing), k) for k, pair in enumerate(pairs[:5])]
    again = [follower.follow(pair, seeing(crossing), k) for k, pair in enumerate(pairs)]
    assert again[:5] == first
    assert [fact for facts in again for fact in facts] == told(crossing, 24)
    assert [f.pair for f in follower.follow(pairs[0], seeing(crossing), 3)] == [3]


def test_a_path_stays_in_the_picture() -> None:
    facts = told(lambda t: [("person", (0.02 * t, 0.8, 0.05, 0.25), 0.8)] if 2 <= t < 10 else [], 18)
    points = [point for fact in facts for point in fact.path]
    assert points
    assert all(0 <= share <= 1 for point in points for share in point)


def test_who_leaves_while_another_comes_is_told_apart_by_his_looks() -> None:
    """One in bright clothes goes, and half a second later one in dark ones is there."""

    class Coloured(Painted):
        def __init__(self, scene: Scene, seconds: float) -> None:
            super().__init__(scene, seconds)
            self.image[self.image[..., 1] == 200] = (200, 30, 30) if seconds < SWAPPED else (20, 20, 120)

    def film(t: float) -> Scene:
        return [person(0.4 + (0.01 * t if t < SWAPPED else 0.05 + 0.01 * t))]

    tracks = []
    for paint in (Painted, Coloured):
        follower = Follower()
        for pair in pairs_of(film, 18, paint):
            follower.follow(pair, seeing(film))
        assert follower._tracker is not None
        tracks.append(len(follower._tracker.tracks))
    assert tracks == [1, 2]


def test_a_car_that_drives_in_and_stays_has_parked_unless_others_drive_on() -> None:
    def parks(t: float) -> Scene:
        x = min(0.1 * (t - 0.5), 0.1)
        return [("car", (max(x, 0.0), 0.5, min(0.2, 0.2 + x), 0.2), 0.8)] if t >= 0.5 else []

    def passes(t: float) -> Scene:
        x = 0.02 + 0.05 * t
        return [("car", (x, 0.2, 0.2, 0.2), 0.8)]

    lone = pairs_of(parks, 6, pair_s=4.5)[0]
    (came,) = Follower().follow(lone, seeing(parks))
    assert (came.manner, came.rests) == ("parked", True)

    def street(t: float) -> Scene:
        return [*parks(t), *passes(t)]

    facts = Follower().follow(pairs_of(street, 6, pair_s=4.5)[0], seeing(street))
    assert [f.manner for f in facts if f.type == "appeared"] == ["came in"]


def test_another_view_is_noticed_once_however_often_its_batch_is_asked_for() -> None:
    follower, pairs = Follower(), pairs_of(crossing, 24)
    follower.lose(pairs[0])
    first = [follower.follow(pair, seeing(crossing)) for pair in pairs[1:]]
    follower.lose(pairs[0])
    assert [follower.follow(pair, seeing(crossing)) for pair in pairs[1:]] == first
    late = pairs_of(crossing, 36)[-1]
    assert not [f for f in follower.follow(late, seeing(crossing)) if f.type == "appeared"]


def test_a_clock_that_is_set_back_begins_anew() -> None:
    follower = Follower()
    pairs = pairs_of(crossing, 24)
    first = [f for pair in pairs for f in follower.follow(pair, seeing(crossing))]
    day = timedelta(days=1)

    def earlier(pair: FramePair) -> FramePair:
        return replace(
            pair,
            before=replace(pair.before, time=pair.before.time - day),
            after=replace(pair.after, time=pair.after.time - day),
            between=tuple(replace(b, time=b.time - day) for b in pair.between),
            later=tuple(replace(b, time=b.time - day) for b in pair.later),
        )

    assert [f for pair in pairs for f in follower.follow(earlier(pair), seeing(crossing))] == first


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.floats(2.0, 7.0), st.floats(0.04, 0.1), st.floats(0.1, 0.7), st.booleans())
@example(
    begins=2.46875, pace=0.09765625, y=0.5, walks_right=False
)  # last seen whole a little before the edge
def test_in_mirrored_time_who_came_in_leaves(begins: float, pace: float, y: float, walks_right: bool) -> None:
    """Somebody who comes in and stays in the picture, and the same film backwards: the side is the same."""
    length = 15.0

    def film(t: float) -> Scene:
        way = pace * max(t - begins, 0.0) - 0.03
        x = min(way, 0.45)
        return [person(x if walks_right else 0.95 - x, y)] if t >= begins else []

    forwards, backwards = told(film, length), told(lambda t: film(length - t), length)
    came = [f for f in forwards if f.type == "appeared"]
    left = [f for f in backwards if f.type == "disappeared"]
    assert [f.origin for f in came] == [f.target for f in left] == ["left" if walks_right else "right"]
    assert not [f for f in forwards if f.type == "disappeared"]
    assert not [f for f in backwards if f.type == "appeared"]
