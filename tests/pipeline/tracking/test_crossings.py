"""A line is crossed once, in a direction, by whoever goes surely from one side to the other."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from models.families import OBJECTS
from models.language.places import Line
from pipeline.tracking.tracker import Tracker
from pipeline.tracking.tracks import Observation, Track
from pipeline.tracking.turns import Crossings

DOWN = Line("the gate line", ((0.2, 0.5), (0.8, 0.5)), ("into the yard", "to the street"))
ACROSS = Line("kerb", ((0.5, 1.0), (0.5, 0.0)))
BENT = Line("the fence", ((0.2, 0.2), (0.5, 0.5), (0.8, 0.2)), ("in", "out"))


def crossings(line: Line, *feet: tuple[float, float], thing: str = "person", score: float = 0.9) -> list[str]:
    """The lines of the events of one who goes this way, a step each half second."""
    classes = np.zeros(len(OBJECTS))
    classes[OBJECTS.index(thing)] = 1.0
    watched, tracker, found = Crossings([line]), Tracker(4 / 3), []
    track = Track("t", [], classes, np.zeros(1), np.zeros(0), state="confirmed")
    for n, (x, y) in zip(count(), feet, strict=False):
        track.observations.append(Observation(n / 2, (x - 0.05, y - 0.2, 0.1, 0.2), score))
        for event in tracker.filter_turns(watched.update([track], n / 2, 4 / 3)):
            assert event.kind == "crossed"
            assert event.before_time_s < event.after_time_s == n / 2
            found.append(event.line)
    return found


def test_each_direction_has_its_words() -> None:
    down = [(0.5, 0.3), (0.5, 0.42), (0.5, 0.58), (0.5, 0.7)]
    assert crossings(DOWN, *down) == ["the gate line into the yard"]
    assert crossings(DOWN, *down[::-1]) == ["the gate line to the street"]
    right = [(0.3, 0.5), (0.45, 0.5), (0.6, 0.5)]
    assert crossings(ACROSS, *right) == ["kerb from left to right"]
    assert crossings(ACROSS, *right[::-1]) == ["kerb from right to left"]


@pytest.mark.parametrize(
    ("points", "ways"),
    [
        (((0, 0.5), (1, 0.5)), ("from top to bottom", "from bottom to top")),
        (((1, 0.5), (0, 0.5)), ("from bottom to top", "from top to bottom")),
        (((0.5, 0), (0.5, 1)), ("from right to left", "from left to right")),
        (((0.5, 1), (0.5, 0)), ("from left to right", "from right to left")),
    ],
)
def test_directions_of_the_picture(points: tuple[tuple[float, float], ...], ways: tuple[str, str]) -> None:
    assert Line("line", points).ways == ways


def test_who_wavers_on_the_line_has_crossed_it_once() -> None:
    way = [(0.5, 0.3), *((0.5, 0.49 + 0.02 * (n % 2)) for n in range(9)), (0.5, 0.7), (0.5, 0.71)]
    assert crossings(DOWN, *way) == ["the gate line into the yard"]
    assert crossings(DOWN, *way[:-2], (0.5, 0.3)) == []


def test_who_passes_beyond_its_ends_has_not_crossed_it() -> None:
    assert crossings(DOWN, (0.1, 0.3), (0.1, 0.7)) == []


def test_a_bent_line_is_crossed_where_it_is() -> None:
    assert crossings(BENT, (0.35, 0.1), (0.35, 0.6)) == ["the fence in"]
    assert crossings(BENT, (0.1, 0.1), (0.9, 0.1)) == []


def test_things_do_not_cross() -> None:
    assert crossings(DOWN, (0.5, 0.3), (0.5, 0.7), thing="bag") == []


def test_what_is_hardly_seen_does_not_cross() -> None:
    """Tracks of a table or of somebody's arm, whose detections are weak, jump over lines."""
    assert crossings(DOWN, (0.5, 0.3), (0.5, 0.7), score=0.35) == []
