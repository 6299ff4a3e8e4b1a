"""Who returns is named; who was never there, or may be somebody else, is not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from models.captioner import packaged_tracking
from models.families import OBJECTS
from pipeline.tracking import Event, Observation, Track
from pipeline.tracking.reidentification import Reidentification
from pipeline.tracking.tracks import Floats

PERSON = np.eye(len(OBJECTS))[OBJECTS.index("person")]
BOX = (0.4, 0.2, 0.1, 0.5)
RED, BLUE = (200, 20, 20), (20, 20, 200)


def mean_colours(image: NDArray[np.uint8], boxes: Floats) -> NDArray[np.float32]:
    height, width = image.shape[:2]
    found = []
    for x, y, w, h in boxes:
        inside = image[int(y * height) : int((y + h) * height), int(x * width) : int((x + w) * width)]
        found.append(inside.reshape(-1, 3).mean(0))
    vectors = np.array(found, np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


class Scene:
    """One person at a time, five frames a second."""

    def __init__(self) -> None:
        self.people = Reidentification(mean_colours, packaged_tracking())
        self.time_s = 100.0

    def visit(
        self, name: str, colour: tuple[int, int, int], box: tuple[float, float, float, float] = BOX
    ) -> Event:
        """Somebody comes, stays two seconds and goes; the entrance, decided after one."""
        begin = self.time_s
        track = Track(name, [], PERSON.copy(), np.zeros(0), np.zeros(0), state="confirmed")
        decided: list[Event] = []
        for k in range(11):
            self.time_s += 0.2
            track.observations.append(Observation(self.time_s, box, 0.9))
            entrance = Event(
                "entered", name, "person", 1.0, begin, 0.9, begin, self.time_s, None, box, edge="left"
            )
            image = np.full((240, 320, 3), 90, np.uint8)
            x, y, w, h = box
            image[int(y * 240) : int((y + h) * 240), int(x * 320) : int((x + w) * 320)] = colour
            decided += self.people.update(self.time_s, [track], image, [entrance] if k == 6 else [])
        track.state = "ended"
        self.wait(1.0)
        return decided[0]

    def wait(self, seconds: float) -> None:
        self.time_s += seconds
        self.people.update(self.time_s, [], np.zeros((240, 320, 3), np.uint8), [])


def test_who_returns_is_named_with_a_probability() -> None:
    scene = Scene()
    assert scene.visit("1", RED).same_as is None
    assert scene.visit("2", BLUE).same_as is None
    scene.wait(60)
    same = scene.visit("3", RED).same_as
    assert same is not None
    assert same[0] == "1"
    assert same[1] == pytest.approx(1 / (1 + np.exp(-packaged_tracking().same_person.sum())))


def test_who_left_long_ago_is_forgotten() -> None:
    scene = Scene()
    scene.visit("1", RED)
    scene.wait(1000)
    assert scene.visit("2", RED).same_as is None


@pytest.mark.parametrize("box", [(0.4, 0.2, 0.05, 0.1), (0.0, 0.2, 0.1, 0.3)])
def test_small_or_cut_views_say_nothing(box: tuple[float, float, float, float]) -> None:
    scene = Scene()
    scene.visit("1", RED, box)
    assert scene.visit("2", RED, box).same_as is None


def test_who_is_still_there_is_nobody_else() -> None:
    people = Reidentification(mean_colours, packaged_tracking())
    image = np.full((240, 320, 3), 90, np.uint8)
    boxes = (BOX, (0.7, 0.2, 0.1, 0.5))
    tracks = [Track(str(k), [], PERSON.copy(), np.zeros(0), np.zeros(0), state="confirmed") for k in (1, 2)]
    for k in range(10):
        for track, box in zip(tracks, boxes, strict=True):
            track.observations.append(Observation(k / 5, box, 0.9))
        events = people.update(k / 5, tracks, image, [])
    event = Event("appeared", "2", "person", 1.0, 0.0, 0.9, 0.0, 2.0, None, boxes[1])
    assert people.update(2.0, tracks, image, [event]) == [event]
    assert events == []
