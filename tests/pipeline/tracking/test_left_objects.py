"""Left and taken objects on made scenes: a textured yard, somebody who walks through, a dark box."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from models.families import OBJECTS
from pipeline.tracking import Event, Observation, Track
from pipeline.tracking.left_objects import LeftObjects

HEIGHT, WIDTH = 180, 320
BOX = (0.5, 0.6, 0.05, 0.1)
YARD = cv2.resize(
    np.random.default_rng(3).integers(90, 170, (45, 80)).astype(np.uint8), (WIDTH, HEIGHT)
)  # fmt: skip
Scene = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]


def pixels(box: tuple[float, float, float, float]) -> tuple[slice, slice]:
    x, y, w, h = box
    return np.s_[round(y * HEIGHT) : round((y + h) * HEIGHT), round(x * WIDTH) : round((x + w) * WIDTH)]


def bag(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    image = image.copy()
    image[pixels(BOX)] = 20
    return image


def shadow(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    image = image.copy()
    image[pixels(BOX)] = image[pixels(BOX)] * 0.7
    return image


def dusk(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return (image * 0.6).astype(np.uint8)


def same(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return image


def walk(
    before: Scene,
    after: Scene,
    *,
    name: str = "person",
    near: bool = True,
    away: bool = True,
    came: bool = True,
    beside: float | None = None,
) -> list[Event]:
    """Events of somebody who walks to the middle within 4 s, when the scene changes, and on.

    Args:
        before, after: what lies in the yard.
        name: what walks.
        near: by the box, else far behind it.
        away: walks on, else stays there.
        came: from the left, else was there from the beginning.
        beside: so far to the right another track of a person is with it, later by a look.
    """
    objects, events = LeftObjects(iter("ab").__next__), list[Event]()
    classes = np.array([1.0 * (each == name) for each in OBJECTS])
    tracks = [
        Track(name, [], classes, np.zeros(1), np.zeros(1), "confirmed")
        for name in ("t" if beside is None else "tu")
    ]
    for k in range(60):
        time_s = k / 5
        x = 0.12 * (time_s if away else min(time_s, 4)) if came else 0.12 * max(time_s, 4)
        box = (x, 0.4 if near else 0.05, 0.1, 0.33)
        seen = x < 0.9
        image = (before if time_s < 4 else after)(YARD)
        if seen:
            for n, track in enumerate(tracks):
                if k >= n:
                    there = (box[0] + n * (beside or 0.0), *box[1:])
                    track.observations.append(Observation(time_s, there, 0.9))
            image = image.copy()
            image[pixels(box)] = 240
        begun = [track for track in tracks if track.observations]
        for track in begun:
            track.unseen_s = 0.0 if seen else time_s - track.last.time_s
        events += objects.update(begun, time_s, image)
    return events


def test_what_a_person_leaves_is_told_once_where_it_lies() -> None:
    (event,) = walk(same, bag)
    assert (event.kind, event.track, event.object, event.other) == ("placed", "a", "object", "t")
    assert event.box_before is None
    assert event.box_after == pytest.approx(BOX, abs=0.02)
    assert event.before_time_s < event.time_s < event.after_time_s


@pytest.mark.parametrize(("beside", "who"), [(0.02, "t"), (0.09, "")], ids=["one of two tracks", "two"])
def test_who_left_it_is_named_where_all_tracks_are_of_one_person(beside: float, who: str) -> None:
    (event,) = walk(same, bag, beside=beside)
    assert (event.kind, event.other) == ("placed", who)


def test_what_a_person_takes_is_told_once_where_it_lay() -> None:
    (event,) = walk(bag, same)
    assert (event.kind, event.other, event.box_after) == ("removed", "t", None)
    assert event.box_before == pytest.approx(BOX, abs=0.02)


@pytest.mark.parametrize(
    ("before", "after", "options"),
    [
        (same, same, {}),
        (same, shadow, {}),
        (same, dusk, {}),
        (same, bag, {"near": False}),
        (same, bag, {"name": "car"}),
        (same, bag, {"away": False}),
        (same, bag, {"came": False}),
    ],
    ids=[
        "nothing",
        "shadow",
        "dusk",
        "out of reach",
        "a car was there",
        "somebody still stands there",
        "was there from the beginning",
    ],
)
def test_nothing_is_told_of(before: Scene, after: Scene, options: dict[str, bool]) -> None:
    assert walk(before, after, **options) == []
