"""A door that opens is reported once, and once that it closes; nothing else of its place is."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import av
import numpy as np
import pytest
from av.video.reformatter import VideoReformatter
from sliding_gate import GATE, Picture, scene

from models.boxes import Box
from models.families import OBJECTS
from models.language.places import Door
from pipeline import settings
from pipeline.doors import Doors
from pipeline.sources.frame import small_rgb_of
from pipeline.tracking import Event
from pipeline.tracking.tracks import Observation, Track

STEP_S = 0.2


def person(x: float, *, unseen_s: float = 0.0) -> Track:
    """Somebody whose middle is at x, in front of the gate from .32 to .68."""
    box = (x - 0.06, 0.3, 0.12, 0.5)
    classes = np.eye(len(OBJECTS))[OBJECTS.index("person")]
    return Track("p", [Observation(0, box, 0.9)], classes, np.zeros(1), np.zeros(0), unseen_s=unseen_s)


@dataclass
class Camera:
    """Watches a gate, five frames a second from second 1000 on."""

    doors: Doors = field(default_factory=lambda: Doors.of([GATE]))
    time_s: float = 1000.0

    def watch(
        self, seconds: float, picture: Callable[[float], Picture] = lambda _: scene(), *tracks: Track
    ) -> list[Event]:
        """Events while pictures are shown, by the seconds since the first of them."""
        events = []
        for n in range(round(seconds / STEP_S)):
            self.time_s += STEP_S
            events += self.doors.update(tracks, self.time_s, picture(n * STEP_S))
        return events

    def restart(self, away_s: float = 0.0) -> None:
        """Go on with what was saved as JSON."""
        self.doors = Doors.of([GATE], json.loads(json.dumps(self.doors.state())))
        self.time_s += away_s


def opening(seconds: float) -> Picture:
    return scene(min(seconds / 3, 1))


def closing(seconds: float) -> Picture:
    return scene(max(1 - seconds / 3, 0))


def is_open(_: float) -> Picture:
    return scene(1)


@pytest.fixture
def camera() -> Camera:
    """One that knows the closed gate."""
    camera = Camera()
    assert camera.watch(6) == []
    return camera


def test_it_opens_once_and_closes_once(camera):
    start_s = camera.time_s
    (opened,) = camera.watch(20, opening)
    assert (opened.kind, opened.object, opened.line, opened.seen) == ("opened", "gate", "the gate", True)
    assert opened.time_s == opened.before_time_s == pytest.approx(start_s, abs=1)
    assert opened.after_time_s <= start_s + 3 + 3
    assert opened.box_before == opened.box_after == GATE.box
    (closed,) = camera.watch(20, closing)
    assert (closed.kind, closed.track, closed.since_s) == ("closed", opened.track, opened.time_s)
    assert closed.duration_s == pytest.approx(20, abs=1)
    (again,) = camera.watch(20, opening)
    assert again.track != opened.track


@pytest.mark.parametrize("changed", [{"looks": ["AAAA", None]}, {"looks": ["!", None]}])
def test_a_state_that_cannot_be_read_is_left_out(changed):
    (state,) = Doors.of([GATE]).state()
    absent = {name: value for name, value in state.items() if name != "track"}
    for held in ({**state, **changed}, absent, {}, "state"):
        (watched,) = Doors.of([GATE], [held]).watched  # type: ignore[list-item]
        assert watched.looks == [None, None]


@pytest.mark.parametrize("restarts", [False, True])
def test_for_how_long_is_not_known_over_a_clock_that_was_set_back(camera, restarts):
    camera.watch(20, opening)
    camera.time_s -= 600
    if restarts:
        camera.restart()
    (closed,) = camera.watch(20, closing)
    assert (closed.kind, closed.seen, closed.since_s, closed.duration_s) == ("closed", True, None, None)


def test_a_door_may_usually_be_open():
    camera = Camera(Doors.of([Door(GATE.name, GATE.polygon, "open")]))
    assert camera.watch(6, is_open) == []
    (closed,) = camera.watch(10, closing)
    assert (closed.kind, closed.since_s, closed.duration_s) == ("closed", None, None)
    (opened,) = camera.watch(10, opening)
    assert (opened.kind, opened.track == closed.track) == ("opened", False)


def test_opening_further_is_no_news(camera):
    half = camera.watch(10, lambda seconds: scene(min(seconds / 3, 0.6)))
    assert [event.kind for event in half] == ["opened"]
    assert camera.watch(10, lambda seconds: scene(min(0.6 + seconds / 3, 1))) == []
    assert [event.kind for event in camera.watch(10, closing)] == ["closed"]


@pytest.mark.parametrize("light", [0.35, 0.6, 1.5])
def test_light_is_no_opening(camera, light):
    assert camera.watch(10, lambda _: scene(light=light)) == []
    assert camera.watch(10, lambda seconds: scene(light=light + (1 - light) * min(seconds / 5, 1))) == []
    assert [event.kind for event in camera.watch(10, opening)] == ["opened"]


def test_another_view_is_learnt_anew(camera):
    assert camera.watch(settings.DOOR_SCENE_S + 5, lambda _: np.roll(scene(seed=3), 90, 0)) == []
    assert camera.watch(settings.DOOR_SCENE_S + 5, lambda _: scene(seed=2)) == []
    assert [event.kind for event in camera.watch(10, lambda _: scene(1, seed=2))] == ["opened"]


def test_it_is_open_in_another_view_too(camera):
    (opened,) = camera.watch(10, opening)
    assert camera.watch(settings.DOOR_SCENE_S + 5, lambda _: scene(1, seed=2)) == []
    (closed,) = camera.watch(10, lambda _: scene(seed=2))
    assert (closed.kind, closed.track) == ("closed", opened.track)


def test_a_camera_that_sways_sees_the_same(camera):
    assert camera.watch(20, lambda seconds: scene(shift=round(3 * np.sin(seconds)))) == []
    assert camera.watch(10, lambda _: scene(shift=4)) == []


def test_who_stands_in_front_of_it_says_nothing(camera):
    def hidden(_: float) -> Picture:
        picture = scene().copy()
        picture[70:200, 140:180] = 20
        return picture

    assert camera.watch(30, hidden, person(0.5)) == []
    assert camera.watch(2, hidden, person(0.5, unseen_s=2.0)) == [], "nor is who was lost a moment ago"
    assert camera.watch(1, hidden) == [], "nor who is not detected for a moment"
    assert camera.watch(10) == []


def test_who_passes_beside_it_hides_nothing(camera):
    assert [event.kind for event in camera.watch(10, opening, person(0.2))] == ["opened"]


def test_what_was_hidden_opened_some_time_before(camera):
    assert camera.watch(settings.GAP_S + 2, is_open, person(0.5)) == []
    (opened,) = camera.watch(5, is_open)
    assert (opened.kind, opened.seen) == ("opened", False)
    assert opened.since_s == opened.time_s == pytest.approx(camera.time_s - 5, abs=1)


def test_a_restart_says_nothing_twice(camera):
    (opened,) = camera.watch(10, opening)
    camera.restart()
    assert camera.watch(10, is_open) == []
    (closed,) = camera.watch(10, closing)
    assert (closed.kind, closed.track, closed.since_s) == ("closed", opened.track, opened.time_s)


def test_what_changed_during_an_outage_is_told_as_such(camera):
    camera.restart(600)
    (opened,) = camera.watch(10, is_open)
    assert (opened.kind, opened.seen, opened.duration_s) == ("opened", False, None)
    camera.restart(600)
    (closed,) = camera.watch(10)
    assert (closed.kind, closed.seen, closed.duration_s) == ("closed", False, None)
    assert closed.since_s == closed.time_s


def test_a_door_that_was_drawn_elsewhere_is_learnt_anew(camera):
    moved = Door("the gate", tuple((x + 0.01, y) for x, y in GATE.polygon))
    camera.doors = Doors.of([moved], camera.doors.state())
    assert camera.watch(10, is_open) == []


def test_one_that_was_open_at_first_is_told_to_have_been(camera):
    """It is mostly closed: after an hour what was taken for open turns out to be that."""
    camera = Camera()
    assert camera.watch(60, is_open) == []
    assert [event.kind for event in camera.watch(10, closing)] == ["opened"]
    camera.time_s += 3600
    (closed,) = camera.watch(5)
    assert (closed.kind, closed.seen) == ("closed", False)
    assert camera.watch(5) == []
    assert [event.kind for event in camera.watch(10, opening)] == ["opened"]
    assert [event.kind for event in camera.watch(10, closing)] == ["closed"]


@pytest.mark.footage
def test_leaves_that_slide_in_real_footage(clips):
    """A screen and a piece of wall; into the room come and go six people, whom nothing detects here."""
    places: dict[str, Box] = {"the screen": (0.0, 0.05, 0.13, 0.3), "the wall": (0.2, 0.1, 0.2, 0.5)}
    corners = {
        name: ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
        for name, (x, y, width, height) in places.items()
    }
    doors, scaler, events = Doors.of([Door(*each) for each in corners.items()]), VideoReformatter(), []
    with av.open(str(clips / "intel_one-by-one-person-detection.mp4")) as container:
        for n, frame in enumerate(container.decode(video=0)):
            if n % 5 == 0:  # of 13 a second
                image = small_rgb_of(frame, 640, scaler)
                share = np.interp(frame.time, (30, 34, 60, 64, 90, 94, 120, 124), (0, 1, 1, 0, 0, 1, 1, 0))
                for place in places.values():
                    image = slid(image, place, share)
                events += doors.update([], frame.time + 1000, image)
    for name in places:
        own = [event for event in events if event.line == name]
        assert [event.kind for event in own] == ["opened", "closed"] * 2
        assert [event.time_s - 1000 for event in own] == pytest.approx([30, 60, 90, 120], abs=1.5)
        assert {event.seen for event in own} == {True}


def slid(image: Picture, door: Box, share: float) -> Picture:
    """The picture with a part of it slid to the left by a share of its width, before a dark room."""
    height, width = image.shape[:2]
    x, y, wide, high = (round(v) for v in np.multiply(door, (width, height) * 2))
    image, away = image.copy(), round(share * wide)
    leaf = image[y : y + high, x : x + wide].copy()
    image[y : y + high, x : x + wide] = 30
    image[y : y + high, x : x + wide - away] = leaf[:, away:]
    return image
