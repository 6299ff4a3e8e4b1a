"""Tracks link what is the same on both sides, say when something came or went, and have no favourite side."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.changes import ChangeOptions, find_changes
from pipeline.clusters import Cluster
from pipeline.pairs import Between, FramePair, small_plane
from pipeline.sources import Clock, Frame, SourceOptions, open_source
from pipeline.tracks import MAX_POINTS, point_tracks
from pipeline.tracks.presence import Presence

START = datetime(2024, 3, 1, tzinfo=UTC)
HEIGHT, WIDTH = 120, 160
OPTIONS = ChangeOptions(
    size=(HEIGHT, WIDTH), max_shift=0, delta=38.0, eps=3.0, min_samples=10, min_area=0.001
)

Box = tuple[float, float, float, float]


class Grey:
    def __init__(self, plane: np.ndarray) -> None:
        self._plane = plane

    def rgb(self) -> np.ndarray:
        return np.repeat(self._plane[..., None], 3, axis=2)


def texture(seed: int, height: int, width: int, low: int, high: int) -> np.ndarray:
    noise = np.random.default_rng(seed).random((height, width))
    noise = cv2.GaussianBlur(noise, (0, 0), 1.5)
    return (low + (noise - noise.min()) / np.ptp(noise) * (high - low)).astype(np.uint8)


YARD = texture(0, HEIGHT, WIDTH, 90, 130)


def shot(t: float, things: list[tuple[int, float, float]], light: float = 1.0) -> Frame:
    """The yard with things ``(seed, x, y)``, 20 x 28 pixels each."""
    plane = YARD.copy()
    for seed, x, y in things:
        look = texture(seed, 28, 20, 150, 255) if seed % 2 else texture(seed, 28, 20, 0, 60)
        left, top = round(x), round(y)
        across, down = max(left, 0), max(top, 0)
        part = look[down - top : max(HEIGHT - top, 0), across - left : max(WIDTH - left, 0)]
        plane[down : down + part.shape[0], across : across + part.shape[1]] = part
    plane = np.clip(plane * light, 0, 255).astype(np.uint8)
    return Frame("yard", START + timedelta(seconds=t), Clock.FILE, round(1000 * t), plane, Grey(plane))


def film(
    scene: Callable[[float], list[tuple[int, float, float]]],
    seconds: float,
    hz: float = 2.0,
    dusk: float = 1.0,
) -> FramePair:
    times = np.arange(round(seconds * hz) + 1) / hz
    frames = [shot(t, scene(t), 1.0 if t < seconds / 2 else dusk) for t in times]
    between = tuple(Between(f.time, small_plane(f.luma)) for f in frames[1:-1])
    return FramePair(frames[0], frames[-1], 9.0, between=between)


def clusters(pair: FramePair, options: ChangeOptions = OPTIONS) -> tuple[Cluster, ...]:
    return find_changes([pair], options)[0].clusters


def within(places: np.ndarray, box: Box) -> np.ndarray:
    x, y, width, height = box
    return (
        (places[:, 0] >= x) & (places[:, 0] < x + width) & (places[:, 1] >= y) & (places[:, 1] < y + height)
    )


def box(x: float, y: float) -> Box:
    return (x / WIDTH, y / HEIGHT, 20 / WIDTH, 28 / HEIGHT)


def links(tracks: np.ndarray, gap_s: float, before: dict[str, Box], after: dict[str, Box]) -> dict[str, str]:
    """Which box becomes which: the largest share of a box's points that run to the other, each box once."""
    first, last = tracks[:, 2] < 1e-3, tracks[:, 5] > gap_s - 1e-3
    starts = {i: first & within(tracks[:, :2], a) for i, a in before.items()}
    ends = {j: last & within(tracks[:, 3:5], b) for j, b in after.items()}
    shares = []
    for i, start in starts.items():
        for j, end in ends.items():
            both, points = int((start & end).sum()), int(min(start.sum(), end.sum()))
            if both >= 2 and both >= 0.1 * points:
                shares.append((both / points, both, i, j))
    linked: dict[str, str] = {}
    for *_, i, j in sorted(shares, reverse=True):
        if i not in linked and j not in linked.values():
            linked[i] = j
    return linked


def test_two_stills_and_a_pair_without_clusters_have_no_tracks() -> None:
    pair = film(lambda t: [(1, 20 + 10 * t, 40)], 3)
    stills = FramePair(pair.before, pair.after, pair.l2)
    assert point_tracks(stills, clusters(stills)).shape == (0, 6)
    assert point_tracks(pair, ()).shape == (0, 6)


def test_one_who_walks_is_linked() -> None:
    pair = film(lambda t: [(1, 20 + 12 * t, 40 + 4 * t)], 4)
    tracks = point_tracks(pair, clusters(pair))
    assert tracks.dtype == np.float32
    through = tracks[(tracks[:, 2] == 0) & (tracks[:, 5] == 4)]
    walker = through[within(through[:, :2], box(20, 40))]
    assert len(walker) >= 20
    assert within(walker[:, 3:5], box(68, 56)).mean() >= 0.9


def test_two_who_swap_places_are_told_apart() -> None:
    pair = film(lambda t: [(1, 20 + 20 * t, 20), (3, 100 - 20 * t, 60)], 4)
    tracks = point_tracks(pair, clusters(pair))
    before = {"a": box(20, 20), "b": box(100, 60)}
    after = {"a": box(100, 20), "b": box(20, 60)}
    assert links(tracks, 4, before, after) == {"a": "a", "b": "b"}


def test_one_who_left_and_another_who_came_to_the_same_place_are_two() -> None:
    def scene(t: float) -> list[tuple[int, float, float]]:
        return [(1, 60 + 40 * t, 40)] if t < 3 else [(3, 60 - 40 * (6 - t), 40)]

    pair = film(scene, 6, hz=4)
    same_place = {"x": box(60, 40)}
    assert links(point_tracks(pair, clusters(pair)), 6, same_place, same_place) == {}


@pytest.mark.parametrize("step", [6.0, 14.0, 28.0])
@pytest.mark.parametrize("dusk", [1.0, 0.8])
def test_when_it_came_and_when_it_went(step: float, dusk: float) -> None:
    """A step of 28 pixels is more than its own length: the region is followed where the points are lost."""

    def coming(t: float) -> list[tuple[int, float, float]]:
        return [(1, -20 + step * (t - 1.5) / 0.5, 40)] if t >= 1.5 else []

    def going(t: float) -> list[tuple[int, float, float]]:
        return coming(4 - t)

    came = film(coming, 4, dusk=dusk)
    tracks = point_tracks(came, clusters(came))
    place = box(-20 + 5 * step, 40)
    seen = tracks[within(tracks[:, 3:5], place) & (tracks[:, 5] == 4) & (tracks[:, 2] > 0)]
    assert len(seen) >= 5
    assert np.median(seen[:, 2]) == pytest.approx(2.0, abs=0.51)
    went = film(going, 4, dusk=dusk)
    tracks = point_tracks(went, clusters(went))
    seen = tracks[within(tracks[:, :2], place) & (tracks[:, 2] == 0) & (tracks[:, 5] < 4)]
    assert len(seen) >= 5
    assert np.median(seen[:, 5]) == pytest.approx(2.0, abs=0.51)


def test_at_most_so_many_points_inside_the_frame() -> None:
    pair = film(lambda t: [(k, 7 * k + 4 * t, 8 * k) for k in range(1, 9)], 3)
    tracks = point_tracks(pair, clusters(pair))
    assert 0 < len(tracks) <= 2 * MAX_POINTS
    assert tracks[:, [0, 1, 3, 4]].min() >= 0
    assert tracks[:, [0, 1, 3, 4]].max() <= 1
    assert (tracks[:, 2] <= tracks[:, 5]).all()
    assert ((tracks[:, 2] == 0) | (tracks[:, 5] == 3)).all()
    assert np.array_equal(tracks, point_tracks(pair, clusters(pair)))


def swapped(pair: FramePair) -> FramePair:
    """The pair as it would be if time ran backwards."""
    end = pair.before.time + (pair.after.time - pair.before.time)

    def turned(time: datetime) -> datetime:
        return pair.before.time + (end - time)

    def frame(frame: Frame) -> Frame:
        return Frame(frame.camera, turned(frame.time), frame.clock, frame.pts, frame.luma, frame.picture)

    between = tuple(Between(turned(b.time), b.plane) for b in reversed(pair.between))
    return FramePair(frame(pair.after), frame(pair.before), pair.l2, between=between)


WALKS = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.integers(-20, 150),
        st.integers(0, 100),
        st.integers(-30, 30),
        st.integers(-9, 9),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=40, deadline=None)
@given(walks=WALKS, gap=st.integers(1, 4), dusk=st.sampled_from([1.0, 0.8]))
def test_time_run_backwards_gives_the_mirrored_tracks(
    walks: list[tuple[int, int, int, int, int]], gap: int, dusk: float
) -> None:
    pair = film(lambda t: [(s, x + dx * t, y + dy * t) for s, x, y, dx, dy in walks], gap, dusk=dusk)
    found = clusters(pair)
    tracks, back = point_tracks(pair, found), point_tracks(swapped(pair), found)
    mirrored = back[:, [3, 4, 5, 0, 1, 2]]
    mirrored[:, [2, 5]] = gap - mirrored[:, [2, 5]]
    assert sorted(map(tuple, mirrored.tolist())) == sorted(map(tuple, tracks.tolist()))


def test_a_region_that_meets_another_is_followed_no_further() -> None:
    def plane(*lefts: int) -> np.ndarray:
        luma = YARD.copy()
        for left in lefts:
            luma[40:70, left : left + 20] = 230
        return luma

    alone = Presence([plane(10), plane(20), plane(30), plane(40), YARD])
    places, steps = alone.last_seen(np.array([[20, 50], [100, 50]], np.float32), np.array([0, 0]))
    assert steps.tolist() == [3, 0]
    assert places[0] == pytest.approx([50, 55], abs=2)
    assert places[1].tolist() == [100, 50]
    met = Presence([plane(10, 100), plane(30, 80), plane(50, 70), plane(60, 60), YARD])
    assert met.last_seen(np.array([[20, 50]], np.float32), np.array([0]))[1].tolist() == [1]


def pets(path: Path) -> dict[int, dict[str, Box]]:
    boxes: dict[int, dict[str, Box]] = {}
    for frame in ET.parse(path).getroot():  # noqa: S314 - a file of the benchmark
        for person in frame.iter("object"):
            found = person.find("box")
            assert found is not None
            height, width, x, y = (float(found.get(k, "0")) for k in ("h", "w", "xc", "yc"))
            place = ((x - width / 2) / 768, (y - height / 2) / 576, width / 768, height / 576)
            boxes.setdefault(int(frame.get("number", "")), {})[str(person.get("id"))] = place
    return boxes


@pytest.mark.footage
@pytest.mark.parametrize(("gap", "precision", "recall"), [(10, 0.85, 0.6), (30, 0.8, 0.4)])
def test_tracks_link_the_same_people(clips: Path, gap: int, precision: float, recall: float) -> None:
    truth = pets(clips.parent / "annotations" / "pets2009" / "PETS2009-S2L1.xml")
    with open_source(str(clips / "opencv_vtest.avi"), SourceOptions(sample_hz=10)) as source:
        frames = list(source)
    options = ChangeOptions(size=(288, 384), max_shift=8, delta=38.0, eps=3.0, min_samples=10, min_area=0.001)
    right = told = same = 0
    for first in range(5, 760 - gap, 60):
        shots = frames[first : first + gap + 1 : 5]
        assert all(a.time < b.time for a, b in pairwise(shots))
        between = tuple(Between(f.time, small_plane(f.luma)) for f in shots[1:-1])
        pair = FramePair(shots[0], shots[-1], 9.0, between=between)
        before, after = truth[first], truth[first + gap]
        linked = links(point_tracks(pair, clusters(pair, options)), gap / 10, before, after)
        told += len(linked)
        right += sum(i == j for i, j in linked.items())
        same += len(before.keys() & after.keys())
    assert same >= 40
    assert right / told >= precision
    assert right / same >= recall
