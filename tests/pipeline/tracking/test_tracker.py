"""Association and events on made scenes: rectangles of one colour that go where they are told."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.captioner import packaged_tracking
from models.detections import Detections
from models.families import OBJECTS
from pipeline.tracking import Event, Observation, Track, Tracker
from pipeline.tracking.association import candidates
from pipeline.tracking.ends import EVIDENCE

HEIGHT, WIDTH = 180, 320
STEP_S = 0.2
Box = tuple[float, float, float, float]
Way = Callable[[float], Box | None]
Thing = tuple[str, tuple[int, int, int], Way]
Scene = tuple[
    list[Thing], float, list[str], *tuple[list[Thing], ...]
]  # what is seen, and shown if that differs


def frame(things: Sequence[Thing], time_s: float) -> tuple[Detections, np.ndarray]:
    """Boxes within the frame, their embeddings from their colours, and a picture."""
    image = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    boxes, classes, looks = [], [], []
    for name, colour, way in things:
        if (box := way(time_s)) is None:
            continue
        x, y, w, h = box
        left, top, right, low = max(x, 0.0), max(y, 0.0), min(x + w, 1.0), min(y + h, 1.0)
        if right - left < 0.3 * w or low - top < 0.3 * h:
            continue
        boxes.append((left, top, right - left, low - top))
        image[int(top * HEIGHT) : int(low * HEIGHT), int(left * WIDTH) : int(right * WIDTH)] = colour
        classes.append([0.8 if each == name else 0.02 for each in OBJECTS])
        embedding = np.array([*colour, 40.0])
        looks.append(embedding / np.linalg.norm(embedding))
    count = len(boxes)
    return (
        Detections(
            np.array(boxes).reshape(count, 4),
            np.full(count, 0.8),
            np.array(classes).reshape(count, len(OBJECTS)),
            np.array(looks).reshape(count, 4),
        ),
        image,
    )


def follow(
    things: Sequence[Thing],
    seconds: float,
    tracker: Tracker | None = None,
    start: float = 0.0,
    quiet_s: float = 0.0,
    *,
    shown: Sequence[Thing] | None = None,
    scores: Sequence[float] = (),
) -> tuple[Tracker, list[Event]]:
    """A tracker after so many seconds of a scene, quiet before, and its events.

    `shown` is what the pictures show where the detector sees something else; `scores` are of its detections.
    """
    tracker = tracker or Tracker(WIDTH / HEIGHT)
    events = []
    for k in range(round(seconds / STEP_S)):
        time_s = start + k * STEP_S
        found, image = frame(things, time_s)
        image = image if shown is None else frame(shown, time_s)[1]
        found.score[: len(scores)] = scores[: len(found)]
        events += tracker.update(time_s, found, image, 0.0 if k else quiet_s)
    return tracker, events


def line(
    x: float, y: float, vx: float, vy: float = 0.0, size: tuple[float, float] = (0.06, 0.3)
) -> Callable[[float], Box]:
    """A way straight on."""
    return lambda t: (x + vx * t, y + vy * t, *size)


def crossing(start_s: float, pace: float = 0.12) -> Way:
    """In from the left at this moment, out on the right."""
    return lambda t: None if t < start_s else (-0.06 + pace * (t - start_s), 0.4, 0.06, 0.3)


def at(box: Box) -> Way:
    return lambda _t: box


def between(start: float, end: float, way: Way) -> Way:
    """A way, seen from one moment to another."""
    return lambda t: way(t) if start < t < end else None


def beside(way: Way, dx: float, dy: float, size: tuple[float, float]) -> Way:
    """Something that goes along."""
    return lambda t: (box := way(t)) and (box[0] + dx, box[1] + dy, *size)


def stroll(stays_s: float) -> Way:
    """Walks in from the left, stands in the middle, and walks on."""

    def way(t: float) -> Box | None:
        walked = 0.12 * min(max(t - 2, 0), 4) + 0.12 * max(t - 6 - stays_s, 0)
        return (walked - 0.05, 0.4, 0.05, 0.25) if t >= 2 else None

    return way


def drive(stays_s: float) -> Way:
    """In from the left, a stay in the middle, and on to the right."""

    def way(t: float) -> Box | None:
        if t < 2:
            return None
        go = 0.5 / 0.15 + 2 + stays_s
        x = min(0.15 * (t - 2), 0.5) + (0.15 * (t - go) if t > go else 0.0) - 0.2
        return (x, 0.5, 0.2, 0.2)

    return way


RED, BLUE, GREEN = (200, 30, 30), (30, 30, 200), (30, 180, 40)
PARKED = (0.4, 0.5, 0.2, 0.2)
BAG = (0.5, 0.6, 0.05, 0.08)


def test_who_crosses_the_picture_enters_and_leaves_by_the_edges() -> None:
    _, events = follow([("person", RED, crossing(3.0))], 15.0)
    assert [(e.kind, e.edge) for e in events] == [("entered", "left"), ("left", "right")]
    came, went = events
    assert came.track == went.track
    assert came.object == went.object == "person"
    assert came.time_s == pytest.approx(3.2, abs=0.3)
    assert went.duration_s == pytest.approx(8.3, abs=0.7)
    assert came.before_time_s < 3.0 < came.after_time_s
    assert came.box_before is None
    assert went.box_after is None
    assert went.before_time_s < went.time_s < went.after_time_s


def test_an_entrance_is_decided_a_second_after_it() -> None:
    tracker = Tracker(WIDTH / HEIGHT)
    things = [("person", RED, crossing(3.0))]
    for k in range(60):
        if events := tracker.update(k * STEP_S, *frame(things, k * STEP_S)):
            assert k * STEP_S - events[0].time_s == pytest.approx(1.0, abs=0.05)
            return
    pytest.fail("no entrance")


def test_what_was_there_at_the_start_has_not_entered() -> None:
    tracker, events = follow([("car", BLUE, line(0.4, 0.5, 0.0, size=(0.2, 0.2)))], 10.0)
    assert not events
    (track,) = tracker.tracks
    assert track.since_s is None
    assert track.rests_since_s == 0.0


def test_who_comes_through_the_edge_in_the_first_second_has_entered() -> None:
    late = ("car", BLUE, between(0.3, 99, at(PARKED)))
    _, events = follow([("person", RED, crossing(0.1)), late], 14.0)
    assert [(e.kind, e.object) for e in events] == [("entered", "person"), ("left", "person")]
    assert events[0].before_time_s == 0.0


def test_what_a_turning_camera_shows_has_not_entered() -> None:
    for turned, kinds in ((False, ["entered"]), (True, [])):
        tracker, _ = follow([], 2.0)
        tracker.interrupt(turned=turned)
        _, events = follow([("person", RED, crossing(2.3))], 3.0, tracker, start=2.0)
        assert [event.kind for event in events] == kinds, turned


def test_at_the_end_of_footage_the_ways_through_the_edge_are_told() -> None:
    hidden = ("person", GREEN, between(-1, 10.5, line(0.2, 0.4, 0.04)))
    found = ("car", BLUE, between(11.5, 99, at(PARKED)))  # may have been there
    for seconds, kinds in ((3.7, []), (3.9, ["entered"]), (11.9, ["entered"]), (12.3, ["entered", "left"])):
        tracker, events = follow([("person", RED, crossing(3.0)), hidden, found], seconds)
        assert [e.kind for e in [*events, *tracker.finish()]] == kinds, seconds


def test_the_end_of_footage_tells_nothing_of_who_was_lost_before() -> None:
    tracker, _ = follow([("person", RED, crossing(3.0))], 11.0)
    tracker.interrupt()  # whoever was at the edge may be anywhere
    follow([("car", BLUE, at((0.88, 0.3, 0.12, 0.5)))], 1.4, tracker, start=11.0)
    assert tracker.finish() == []
    flicker = [("person", GREEN, between(3.3, 3.65, crossing(3.0)))]
    tracker, events = follow(flicker, 5.0)
    for late in (5.8, 6.6, 7.4):  # two observations suffice where frames are so rare
        events += tracker.update(late, *frame(flicker, late))
    assert [*events, *tracker.finish()] == []


def test_two_who_pass_each_other_keep_their_identities() -> None:
    things = [("person", RED, line(0.1, 0.4, 0.08)), ("person", GREEN, line(0.9, 0.42, -0.08))]
    tracker, _ = follow(things, 9.0)
    assert len(tracker.tracks) == 2
    by_first = {round(t.first.box[0], 1): t.last.box[0] for t in tracker.tracks}
    assert by_first[0.1] > 0.7
    assert by_first[0.9] < 0.3


def test_the_order_of_detections_does_not_matter() -> None:
    things = [
        ("person", RED, line(0.1, 0.4, 0.08)),
        ("person", GREEN, line(0.9, 0.42, -0.08)),
        ("car", BLUE, crossing(2.0)),
    ]
    events, shuffled = [], []
    one, other = Tracker(WIDTH / HEIGHT), Tracker(WIDTH / HEIGHT)
    for k in range(60):
        found, image = frame(things, k * STEP_S)
        events += one.update(k * STEP_S, found, image)
        shuffled += other.update(k * STEP_S, found.select(np.arange(len(found))[::-1]), image)
    assert events == shuffled == follow(things, 12.0)[1]
    assert [t.last for t in one.tracks] == [t.last for t in other.tracks]


def test_what_follows_through_the_same_edge_is_another_track() -> None:
    things = [("car", BLUE, crossing(2.0, pace=0.3)), ("car", BLUE, crossing(4.0, pace=0.3))]
    _, events = follow(things, 12.0)
    assert [e.kind for e in events].count("entered") == 2
    assert len({e.track for e in events}) == 2


class Doubtful(Tracker):
    """One that is shown other classes: at every third frame, or at all."""

    def __init__(self, every: int, **votes: float) -> None:
        super().__init__(WIDTH / HEIGHT)
        self._every, self._votes, self._seen = every, votes, 0

    def update(
        self, time_s: float, detections: Detections, image: np.ndarray, quiet_s: float = 0.0
    ) -> list[Event]:
        if len(detections):
            if self._seen % self._every == 0:
                label = [self._votes.get(name, self._votes.get("other", 0.02)) for name in OBJECTS]
                detections = replace(detections, label=np.tile(label, (len(detections), 1)))
            self._seen += 1
        return super().update(time_s, detections, image, quiet_s)


def test_the_class_is_voted_along_the_track() -> None:
    _, events = follow([("car", BLUE, crossing(2.0))], 14.0, Doubtful(3, bus=0.7, car=0.1))
    assert {e.object for e in events} == {"car"}
    assert len({e.track for e in events}) == 1


def test_nothing_is_said_of_what_nobody_can_name() -> None:
    assert not follow([("person", RED, crossing(2.0))], 14.0, Doubtful(1, other=0.3))[1]


def test_who_is_followed_twice_leaves_as_the_one_that_was_seen_to_come() -> None:
    way = crossing(2.0)
    half = between(5.0, 99.0, beside(way, 0.02, 0.0, (0.04, 0.24)))  # leaves the frame first
    _, events = follow([("person", (200, 30, 30), way), ("person", (200, 30, 30), half)], 16.0)
    came, left = events
    assert (came.kind, left.kind, left.track) == ("entered", "left", came.track)
    assert left.duration_s == pytest.approx(left.time_s - came.time_s, abs=0.3)


def test_who_goes_on_as_a_figure_that_stood_there_leaves_as_the_one_that_was_seen_to_come() -> None:
    """A shadow is taken for a person; somebody stops before it, and its box walks off in place of his."""
    blue, walker = (40, 60, 170), stroll(5)
    shadow = (0.43, 0.4, 0.05, 0.25)
    things = [
        ("person", blue, between(-1, 8, walker)),
        ("person", blue, lambda t: shadow if t < 11 else walker(t)),
    ]
    _, events = follow(things, 22)
    assert [each.kind for each in events if each.kind in ("entered", "left")] == ["entered", "left"]
    came, left = (each for each in events if each.kind in ("entered", "left"))
    assert left.track == came.track
    assert left.duration_s == pytest.approx(left.time_s - came.time_s, abs=1)


@pytest.mark.parametrize(("score", "p"), [(0.8, 0.6), (0.33, 0.9), (0.33, 0.6), (0.33, 0.4)])
def test_what_is_hardly_detected_leaves_as_it_came(score: float, p: float) -> None:
    weights = np.zeros(len(EVIDENCE))
    weights[0] = np.log(p / (1 - p))
    confident = Tracker(WIDTH / HEIGHT, replace(packaged_tracking(), entrance=weights, departure=weights))
    _, events = follow([("person", RED, crossing(2.0))], 16.0, confident, scores=(score,))
    assert [event.kind for event in events] == (["entered", "left"] if p > 0.5 else [])


def test_doubles_and_weak_boxes_as_large_as_a_road_are_no_candidates() -> None:
    places = [
        ("car", PARKED),
        ("bus", PARKED),
        ("person", (0.8, 0.3, 0.06, 0.3)),
        ("truck", (0, 0, 0.5, 0.5)),
    ]
    found, image = frame([(name, BLUE, at(place)) for name, place in places], 0.0)
    found.score[:] = [0.5, 0.7, 0.6, 0.3]
    assert candidates(found, image).scores.tolist() == [0.7, 0.6]


def test_a_rider_and_the_machine_are_one() -> None:
    way = crossing(2.0, pace=0.2)
    machine = beside(way, -0.02, 0.15, (0.1, 0.2))
    tracker, events = follow([("person", RED, way), ("bicycle", GREEN, machine)], 5.0)
    assert [e.object for e in events] == ["cyclist"]
    assert len([t for t in tracker.tracks if t.state == "confirmed"]) == 1


def halting(t: float) -> Box | None:
    """In from the left, and a stay behind others from 4.6 s on."""
    return (min(0.15 * (t - 2), 0.4) - 0.2, 0.5, 0.2, 0.2) if t >= 2 else None


def approaching(t: float) -> Box | None:
    """Near the camera, and there after a short way."""
    return (min(0.1 * t, 0.35), max(1.0 - 0.4 * (t - 2), 0.2), 0.3, 0.9) if t >= 2 else None


def body(t: float) -> Box:
    return (0.2 + 0.12 * t, 0.3, 0.1, 0.5)


def leg(t: float) -> Box:
    """A part of it that is nearer to the edge."""
    return (0.2 + 0.12 * t + min(0.04 * (t - 5), 0.02), 0.5, 0.06, 0.29)


def arriving(side: int) -> Way:
    """From the left (1) or the right (-1) edge to a place beside the middle."""
    start, end = (0.1, 0.42) if side == 1 else (0.85, 0.5)
    return lambda t: (side * min(side * start + 0.08 * max(t - 1, 0), side * end), 0.4, 0.06, 0.3)


def driving_off(grows: float) -> Way:
    """Up to the far edge, where it stays in view, and smaller or not."""

    def way(t: float) -> Box | None:
        size = 0.2 + grows * min(t - 2, 3)
        return (0.5, max(0.45 - 0.15 * (t - 2), 0.0), size, size) if t >= 2 else None

    return way


MIDDLE = (0.5, 0.4, 0.06, 0.3)
STRAIGHT = line(0.2, 0.4, 0.06)
WALK, STAY, STOOD = crossing(2.0), stroll(30.0), at(stroll(30.0)(9))


def now_and_then(t: float) -> Box | None:
    """Of cars that pass a place one after another some lie where the first one was."""
    return halting(t) if t < 5.5 or round(t / STEP_S) % 3 == 0 else None


def setting_off(distance: float) -> Way:
    return lambda t: (0.4 + min(max(0.06 * (t - 7), 0), distance), 0.3, 0.06, 0.4)


def pulls_out(at: float, x: float = 0.4) -> Way:
    return lambda t: (x + 0.15 * max(t - at, 0), 0.5, 0.2, 0.2)


def backing_in(t: float) -> Box:
    return (min(-0.2 + 0.05 * t, 0.0), 0.5, 0.2, 0.2)


CARS: list[Thing] = [("car", BLUE, at((0.02, 0.5, 0.1, 0.15))), ("car", GREEN, at((0.14, 0.5, 0.1, 0.15)))]
AROUND = between(3, 5, lambda t: (0.01 - 0.03 * (t - 3), 0.45, 0.26, 0.25))
SCENES: dict[str, Scene] = {
    "what is seen in few frames at one place has not stopped": (
        [("car", BLUE, now_and_then)],
        10.0,
        ["entered"],
        [("car", BLUE, halting)],
    ),
    "whoever is taken for one who stood there all along has not stopped": (
        [("person", RED, STAY)],
        12.0,
        ["entered"],
        [("person", RED, STAY), ("person", RED, STOOD)],
    ),
    "whoever takes over the track of one who stood there has not stopped": (
        [("person", RED, STAY), ("person", RED, between(-1, 5.5, STOOD))],
        12.0,
        ["entered"],
        [("person", RED, STAY), ("person", RED, STOOD)],
    ),
    "who sways has not set off": ([("person", RED, setting_off(0.02))], 16.0, []),
    "who leaves a vacant place set off, and who comes to one stopped": (
        [("person", RED, setting_off(0.08))],  # less than his own size
        16.0,
        ["resumed", "stopped"],
    ),
    "who leaves a place where somebody stands may stand there": (
        [("person", RED, setting_off(0.08)), ("person", GREEN, between(8, 99, at((0.4, 0.3, 0.06, 0.4))))],
        16.0,
        ["stopped"],
    ),
    "a parked car whose place looks as before has not set off": (
        [("car", BLUE, pulls_out(8))],  # its track has passed to another one
        12.0,
        [],
        [("car", BLUE, at(PARKED))],
    ),
    "a bag that is seen late or no more was neither put down nor taken": (
        [("bag", GREEN, between(3, 9, at(BAG)))],
        14.0,
        [],
        [("bag", GREEN, at(BAG))],
    ),
    "what is no longer detected and still there has not left": (
        [("car", BLUE, between(-1, 7, backing_in))],
        14.0,
        ["entered", "stopped"],
        [("car", BLUE, backing_in)],
    ),
    "a box around two cars that stay is none that leaves": (
        [*CARS, ("car", RED, AROUND)],
        10.0,
        [],
        CARS,
    ),
    "half of a person is not another person": (
        [("person", RED, WALK), ("person", RED, beside(WALK, 0.01, 0, (0.035, 0.12)))],
        14.0,
        ["entered", "left"],
    ),
    "a flicker is no event": ([("person", RED, between(4, 4.3, at(MIDDLE)))], 9.0, []),
    "a short occlusion does not end a track": (
        [("person", RED, lambda t: None if 6.0 < t < 6.7 else crossing(3.0)(t))],
        15.0,
        ["entered", "left"],
    ),
    "a car that stops behind others has stopped": (
        [
            ("car", BLUE, halting),
            *(("car", GREEN, line(0.42 + 0.22 * k, 0.5, 0, size=(0.2, 0.2))) for k in (0, 1)),
        ],
        10.0,
        ["entered", "stopped"],
    ),
    "what has no name is neither put down nor taken": ([("object", GREEN, between(3, 9, at(BAG)))], 14.0, []),
    "whoever is seen twice, as a whole and a half, has stopped": (
        [("person", RED, STAY), ("person", RED, beside(STAY, 0, 0.1, (0.05, 0.13)))],
        12.0,
        ["entered", "stopped"],
    ),
    "whoever comes near the camera has stopped after a short way": (
        [("person", RED, approaching)],
        9.0,
        ["entered", "stopped"],
    ),
    "whoever joins those who stand has stopped": (
        [
            ("person", RED, stroll(8.0)),
            *(("person", GREEN, line(0.15 + 0.12 * k, 0.7, 0, size=(0.05, 0.25))) for k in range(5)),
        ],
        13.0,
        ["entered", "stopped"],
    ),
    "what never moved has not gone": ([("person", RED, between(-1, 4, at(MIDDLE)))], 12.0, []),
    "who is lost in the middle and found nearby has neither gone nor appeared": (
        # its colours are others: the tracks are not joined
        [("person", RED, between(-1, 5, STRAIGHT)), ("person", GREEN, between(7.8, 99, STRAIGHT))],
        11.0,
        [],
    ),
    "a bag that is carried is no event": (
        [("person", RED, WALK), ("bag", GREEN, beside(WALK, 0.09, 0.2, (0.04, 0.06)))],
        14.0,
        ["entered", "left"],
    ),
    "a rider who waits has not parked": (
        [("motorcycle", BLUE, drive(30.0)), ("person", RED, drive(30.0))],
        30.0,
        ["entered", "stopped"],
    ),
    "a car that waits has parked": ([("car", BLUE, drive(30.0))], 30.0, ["entered", "stopped", "parked"]),
    "who comes back has come again": (
        [("person", RED, crossing(2.0)), ("person", RED, crossing(16.0))],
        30.0,
        ["entered", "left"] * 2,
    ),
    "two who come together and stand have met": (
        [("person", RED, arriving(1)), ("person", GREEN, arriving(-1))],
        16.0,
        ["stopped", "met"],  # one of them was there first
    ),
    "half a box that ends before the whole does not leave besides": (
        [("person", RED, body), ("person", RED, between(4.5, 6.1, leg))],
        12.0,
        ["left"],
    ),
    "what stands at the edge does not leave without moving": (
        [("car", BLUE, between(-1, 7, at((0.0, 0.5, 0.15, 0.2))))],
        14.0,
        [],
    ),
    "what shrinks at the edge drives off and has not stopped": (
        [("car", BLUE, driving_off(-0.02))],
        9.5,
        ["appeared"],
    ),
    "what stays as large at the edge has stopped": (
        [("car", BLUE, driving_off(0.0))],
        9.5,
        ["appeared", "stopped"],
    ),
    "a bag that somebody uncovers has not been put down": (
        [
            ("bag", GREEN, between(4.3, 99, at(BAG))),
            ("person", RED, lambda t: (0.49 + 0.1 * max(t - 4, 0), 0.4, 0.08, 0.3)),
        ],
        12.0,
        ["resumed", "left"],
    ),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_a_scene_has_its_events(
    scene: tuple[list[Thing], float, list[str], *tuple[list[Thing], ...]],
) -> None:
    things, seconds, kinds, *shown = scene
    _, events = follow(things, seconds, shown=shown[0] if shown else None)
    assert [event.kind for event in events] == kinds


def test_nothing_is_kept_of_those_who_stood_beside_somebody_and_are_gone() -> None:
    others = [between(20 * k, 20 * k + 6, at((0.58, 0.4, 0.06, 0.3))) for k in range(3)]
    tracker, _ = follow([("person", RED, at(MIDDLE)), *(("person", GREEN, each) for each in others)], 60.0)
    assert sum("beside" in each for track in tracker.tracks for each in track.announced) == 1  # the last


def test_what_a_turn_promises_is_what_a_reader_finds() -> None:
    _, events = follow(*SCENES["a car that waits has parked"][:2])
    assert [round(event.confidence, 2) for event in events if event.kind in ("stopped", "parked")] == [
        0.89
    ] * 2


def test_frames_must_be_in_order() -> None:
    tracker, _ = follow([], 1.0)
    with pytest.raises(ValueError, match="order"):
        tracker.update(0.5, *frame([], 0.5))


@pytest.mark.parametrize(
    ("away_s", "colour", "x", "is_same", "is_since_known"),
    [
        (5, BLUE, 0, 1, 1),
        (600, BLUE, 0, 1, 0),
        (3e6, BLUE, 0, 0, 0),
        (5, RED, 0, 0, 0),  # another one stands there
        (5, BLUE, 0.3, 0, 0),  # one like it stands elsewhere
    ],
)
def test_a_parked_car_keeps_its_identity_over_a_restart_by_place_and_appearance(
    away_s: float, colour: tuple[int, int, int], x: float, is_same: bool, is_since_known: bool
) -> None:
    tracker, _ = follow([("car", BLUE, at(PARKED))], 10.0)
    things = [("car", colour, at((PARKED[0] - x, *PARKED[1:])))]
    state = json.loads(json.dumps(tracker.state()))
    (before,) = tracker.tracks
    again = Tracker(WIDTH / HEIGHT)
    again.restore(state)
    _, events = follow(things, 10.0, again, start=10.0 + away_s)
    assert not events
    (after,) = [track for track in again.tracks if track.state == "confirmed"]
    assert (after.id == before.id) == is_same
    assert (after.first.time_s == before.first.time_s) == is_since_known


@pytest.mark.parametrize("away_s", [300.0, 3e6])
def test_how_long_is_not_known_of_what_nobody_watched(away_s: float) -> None:
    tracker, events = follow([("car", BLUE, drive(99.0))], 20.0)
    tracker.interrupt()
    again = 20.0 + away_s
    later = ("car", BLUE, lambda t: drive(6.0)(t - again + 6))
    _, more = follow([later], 14.0, tracker, start=again)
    assert [e.kind for e in events] == ["entered", "stopped"]
    assert [e.kind for e in more] == ["resumed", "left"]
    assert {(e.duration_s, e.since_s) for e in more} == {(None, None)}
    assert more[1].seen_s == pytest.approx(more[1].time_s - again, abs=0.1)


def test_no_new_track_is_named_like_one_begun_after_the_last_save() -> None:
    tracker, _ = follow([("car", BLUE, at(PARKED))], 10.0)
    state = json.loads(json.dumps(tracker.state()))
    person = ("person", RED, at((0.8, 0.3, 0.06, 0.3)))
    follow([("car", BLUE, at(PARKED)), person], 10.0, tracker, start=20.0)
    again = Tracker(WIDTH / HEIGHT)
    again.restore(state)
    follow([person], 10.0, again, start=600.0)
    new = {track.id for track in again.tracks} - {track["id"] for track in state["tracks"]}
    assert new
    assert new.isdisjoint(track.id for track in tracker.tracks)


def test_what_is_found_a_moment_after_a_restart_goes_on() -> None:
    tracker, _ = follow([("car", BLUE, at(PARKED))], 10.0)
    again = Tracker(WIDTH / HEIGHT)
    again.restore(json.loads(json.dumps(tracker.state())))
    late = ("car", BLUE, between(600.5, 999, at(PARKED)))
    _, events = follow([late], 10.0, again, start=600.0)
    assert not events
    assert [t.id for t in again.tracks if t.state == "confirmed"] == [tracker.tracks[0].id]


def test_what_is_not_found_after_an_outage_ends_in_silence_and_nobody_has_entered() -> None:
    tracker, _ = follow([("car", BLUE, at(PARKED))], 10.0)
    tracker.interrupt()
    _, events = follow([("person", RED, at((0.8, 0.3, 0.06, 0.3)))], 10.0, tracker, start=600.0)
    assert not events
    (track,) = [t for t in tracker.tracks if t.state == "confirmed"]
    assert track.since_s is None
    assert track.object == "person"


def test_a_long_step_without_an_interruption_means_that_nothing_moved() -> None:
    tracker, _ = follow([("car", BLUE, at(PARKED))], 10.0)
    walker = ("person", RED, crossing(3600.0))
    _, events = follow([("car", BLUE, at(PARKED)), walker], 14.0, tracker, start=3600.2)
    assert [(e.kind, e.object) for e in events] == [("entered", "person"), ("left", "person")]


def test_a_state_of_another_shape_is_refused() -> None:
    tracker, _ = follow([("car", BLUE, at(PARKED))], 3.0)
    with pytest.raises(ValueError, match="start without it"):
        Tracker(1.0).restore(tracker.state())


def test_a_simulated_week_takes_no_more_memory() -> None:
    tracker = Tracker(WIDTH / HEIGHT)
    held = []
    for day in range(7):
        start = day * 86400.0
        things = [
            ("car", BLUE, at(PARKED)),
            *(("person", RED, lambda t, k=k, s=start: crossing(s + 5 * k)(t)) for k in range(4)),
        ]
        follow(things, 30.0, tracker, start=start)
        held.append(len(pickle.dumps(tracker)))
    car = next(t for t in tracker.tracks if t.object == "car")
    assert car.first.time_s == 0.0
    assert len(car.observations) < 250
    assert len(tracker.tracks) < 10
    assert held[-1] - held[2] < 6000  # bytes: a few of its places a day, until they are thinned out


def test_a_car_that_drives_in_and_stays_has_stopped_and_parked_and_then_drives_on() -> None:
    _, events = follow([("car", BLUE, drive(30.0))], 48.0)
    assert [e.kind for e in events] == ["entered", "stopped", "parked", "resumed", "left"]
    stopped, parked, resumed = events[1:4]
    assert stopped.rests
    assert stopped.time_s == pytest.approx(5.4, abs=0.6)
    assert parked.completes
    assert not stopped.completes
    assert resumed.duration_s == pytest.approx(30.0, abs=1.5)
    assert events[4].duration_s == pytest.approx(events[4].time_s - events[0].time_s)


@pytest.mark.parametrize(
    ("name", "way", "usual_s", "turns"),
    [
        ("person", stroll(99.0), 20.0, ["stopped", "waiting"]),
        ("person", stroll(99.0), 60.0, ["stopped"]),
        ("car", drive(99.0), 20.0, ["stopped", "waiting"]),
    ],
)
def test_who_stands_longer_than_is_usual_where_things_move_waits(
    name: str, way: Way, usual_s: float, turns: list[str]
) -> None:
    tracker = Tracker(WIDTH / HEIGHT)
    places = [
        f"{family} {(row, column)}" for family in ("person", "vehicle") for row, column in np.ndindex(16, 16)
    ]
    known = {"driven": np.full((16, 16), 3.0).tolist(), "rests": {place: [usual_s] * 8 for place in places}}
    tracker.restore(tracker.state() | {"turns": known})
    _, events = follow([(name, BLUE, way)], 75.0, tracker)
    assert [event.kind for event in events] == ["entered", *turns]
    assert events[-1].duration_s == pytest.approx(60.0 if turns[1:] else 3.0, abs=1.5)


@pytest.mark.parametrize(("score", "kinds"), [(0.5, ["placed"]), (0.95, ["placed", "placed"])])
def test_a_weak_second_box_within_a_bag_is_not_put_down(score: float, kinds: list[str]) -> None:
    bag = ("bag", GREEN, between(3, 99, at((0.5, 0.4, 0.1, 0.3))))
    half = ("bag", GREEN, between(4, 99, lambda t: (min(0.25 * (t - 4), 0.5), 0.4, 0.1, 0.14)))
    _, events = follow([bag, half], 14.0, scores=(0.8, score))
    assert [event.kind for event in events] == kinds


def test_nothing_happens_while_the_camera_turns() -> None:
    """The picture moves by a fifth of its width, and what stands there with it."""
    street = np.random.default_rng(3).integers(40, 200, (30, 60, 3), np.uint8)
    wide = cv2.resize(street, (2 * WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)

    def view(t: float, *, turns: bool) -> tuple[Detections, np.ndarray]:
        shift = 0.1 * min(max(t - 4, 0), 2) if turns else 0.0
        cars = [("car", RED, lambda _t, k=k: (0.1 + 0.3 * k + shift, 0.4, 0.15, 0.2)) for k in range(3)]
        passing = ("bus", BLUE, lambda t: (-0.8 + 0.3 * (t - 3), 0.45, 0.8, 0.5))
        found, image = frame([*cars, *([] if turns else [passing])], t)
        ground, paint = (
            np.roll(wide, -round(s * WIDTH), 1)[:, :WIDTH] for s in (0.5 - shift, -0.8 - 0.3 * (t - 3))
        )
        bus = (image == BLUE).all(-1, keepdims=True)
        return found, np.where(bus, paint[::-1], np.where(image == 90, ground, image)).astype(np.uint8)

    for turns, expected in ((True, []), (False, ["entered", "left"])):
        tracker, events = Tracker(WIDTH / HEIGHT), []
        for time_s in np.arange(0, 13, STEP_S).tolist():
            events += tracker.update(time_s, *view(time_s, turns=turns))
        assert [e.kind for e in events] == expected


def test_how_long_it_had_stood_is_said_only_if_it_was_seen_to_stop() -> None:
    _, events = follow([("car", BLUE, pulls_out(8))], 16.0)
    assert [(e.kind, e.duration_s) for e in events] == [("resumed", None), ("left", None)]


@pytest.mark.parametrize("known", [True, False])
def test_a_parked_car_that_pulls_out_of_a_quiet_scene_has_driven_off(known: bool) -> None:
    """It begins to move 1.6 s after the first frame that the gate passes on, with another one beside it."""

    late = between(100.5, 999, at((0.1, 0.5, 0.2, 0.2)))  # it is detected a moment late
    things: list[Thing] = [("car", BLUE, pulls_out(101.6, 0.5)), ("car", RED, late)]
    tracker = follow([], 5.0)[0] if known else None
    _, events = follow(things, 10.0, tracker, start=100.0, quiet_s=90.0)
    assert [(e.kind, e.since_s, e.duration_s) for e in events] == [
        ("resumed", None, None),
        ("left", None, None),
    ]


def test_who_walks_in_when_a_quiet_scene_comes_to_life_has_entered() -> None:
    _, events = follow([("person", RED, crossing(100.4))], 14.0, start=100.0, quiet_s=90.0)
    assert [e.kind for e in events] == ["entered", "left"]


def test_who_is_seen_late_on_a_straight_way_through_the_edge_came_through_it() -> None:
    def way(t: float) -> Box | None:
        return (-0.2 + 0.3 * (t - 3), 0.4, 0.1, 0.2) if t > 3.95 else None

    _, events = follow([("car", BLUE, way)], 9.0)
    assert [(e.kind, e.way) for e in events] == [("entered", "left"), ("left", "right")]


def test_who_is_hidden_on_the_straight_way_through_the_edge_came_and_left() -> None:
    def back_and_forth(t: float) -> Box | None:
        x = 0.15 * (t - 3.5) if t < 7 else 0.525 - 0.15 * (t - 7)
        return (x, 0.4, 0.06, 0.3) if x > 0.22 else None  # nearer to the edge somebody passes before it

    def others(t: float) -> Box | None:
        return 0.75 - 0.12 * (t if t < 7 else t - 4.2), 0.38, 0.1, 0.36

    _, events = follow([("person", GREEN, back_and_forth), ("person", RED, others)], 16.0)
    came, went = (e for e in events if e.kind in ("appeared", "disappeared"))
    assert came.track == went.track
    assert came.before_time_s < 3.5  # before it came through the edge
    assert went.after_time_s > 10.5


def test_what_passes_along_an_edge_did_not_come_from_beyond_it() -> None:
    def way(t: float) -> Box | None:
        return (0.3 + 0.1 * (t - 2), 0.0, 0.1, 0.12) if t > 2 else None

    _, events = follow([("car", BLUE, way)], 5.0)
    assert [(e.kind, e.edge, e.way) for e in events] == [("entered", "far", "")]


def test_a_bag_that_is_put_down_and_taken_away_again_is_told_both_times() -> None:
    """Whoever brings and takes it stands before it at that moment, and something else passes by meanwhile."""

    def owner(t: float) -> Box | None:
        x = 0.08 * (t - 2) - 0.06 if t < 10 else 1.0 - 0.08 * (t - 9)
        return (x, 0.4, 0.06, 0.3) if t >= 2 else None

    bag = ("bag", GREEN, between(9.2, 15.4, at(BAG)))
    _, events = follow([bag, ("person", RED, owner)], 26.0)
    told = [(e.kind, e.time_s) for e in events if e.object == "bag"]
    assert [kind for kind, _ in told] == ["placed", "removed"]
    assert [when for _, when in told] == [pytest.approx(9.3, abs=0.5), pytest.approx(15.3, abs=0.5)]
    owners = [e.track for e in events if e.object == "person" and e.kind == "entered"]
    assert [e.other for e in events if e.object == "bag"] == [owners[0], owners[-1]]
    by_two = ("person", BLUE, at((0.548, 0.4, 0.06, 0.3)))
    _, events = follow([bag, ("person", RED, owner), by_two], 26.0)
    told = [(e.kind, e.other) for e in events if e.object == "bag"]
    assert told[0] == ("placed", ""), "who of two it was is not known"


@pytest.mark.parametrize(
    ("votes", "ridden", "name"),
    [
        ({"car": 0.6, "truck": 0.15, "bus": 0.1}, 0.0, "car"),
        ({"car": 0.4, "truck": 0.25, "bus": 0.15}, 0.0, "vehicle"),
        ({"car": 0.3, "motorcycle": 0.16, "person": 0.16}, 0.1, "vehicle"),
        ({"person": 0.3, "motorcycle": 0.25, "bicycle": 0.05}, 0.7, "motorcyclist"),
        ({"person": 0.3, "motorcycle": 0.15, "bicycle": 0.15}, 0.8, "rider"),
        ({"person": 0.3, "motorcycle": 0.18, "bicycle": 0.12}, 0.6, "person"),
        ({"person": 0.5, "motorcycle": 0.05}, 0.5, "person"),
        ({"person": 0.55, "motorcycle": 0.15, "bicycle": 0.05}, 0.15, "motorcyclist"),
        ({"person": 0.55, "motorcycle": 0.11, "bicycle": 0.08}, 0.15, "person"),
    ],
)
def test_a_kind_is_left_open_where_votes_differ(votes: dict[str, float], ridden: float, name: str) -> None:
    classes = np.array([votes.get(each, 0.01) for each in OBJECTS])
    seen = [Observation(0.0, (0, 0, 0.1, 0.1), 0.5)]
    track = Track("a", seen, classes, np.zeros(1), np.zeros(0), ridden=ridden)
    assert track.vote()[0] == name


def test_who_comes_to_a_standing_car_and_is_gone_there_got_in() -> None:
    def way(t: float) -> Box | None:
        x = -0.06 + 0.1 * (t - 3)
        return (x, 0.45, 0.06, 0.25) if t >= 3 and x < 0.42 else None

    tracker, events = follow([("car", BLUE, at(PARKED)), ("person", RED, way)], 14.0)
    assert [e.kind for e in events] == ["entered", "got_in"]
    assert events[1].other == next(t.id for t in tracker.tracks if t.object == "car")


def test_who_rises_beside_a_car_that_stopped_at_the_edge_got_out() -> None:
    def car(t: float) -> Box | None:
        return (0.4, min(0.3 + 0.15 * (t - 2), 0.7), 0.3, 0.3) if t >= 2 else None

    def driver(t: float) -> Box | None:
        return (0.5 - 0.1 * max(t - 13, 0), max(0.88 - 0.2 * (t - 12), 0.7), 0.07, 0.3) if t >= 12 else None

    for way, kind in ((car, "got_out"), (at((0.4, 0.7, 0.3, 0.3)), "entered"), (at(PARKED), "entered")):
        _, events = follow([("car", BLUE, way), ("person", RED, driver)], 16.0)
        assert [e.kind for e in events if e.object == "person"] == [kind]


def test_who_was_glimpsed_has_not_come_in_later_when_frames_are_few() -> None:
    glimpsed = ("person", RED, between(0.9, 1.3, at((0.4, 0.4, 0.06, 0.3))))
    tracker, events = follow([glimpsed], 5.0)
    for hole_s in (1.6, 1.6, 1.6):
        _, later = follow([glimpsed], 0.4, tracker, (tracker.time_s or 0.0) + hole_s)
        events += later
    assert not events


@settings(max_examples=15)
@given(st.lists(st.tuples(*[st.floats(0.0, 20.0)] * 2, st.sampled_from([0.2, 1.1, 3.0, 12.0])), max_size=6))
def test_an_event_names_a_track_that_is_there(visits: list[tuple[float, float, float]]) -> None:
    """Whatever comes and goes, and whichever frames are missing."""
    things = [
        ("person", RED, lambda t, a=at, x=place, s=stay: (x / 22, 0.3, 0.06, 0.3) if a <= t < a + s else None)
        for at, place, stay in visits
    ]
    tracker, time_s = Tracker(WIDTH / HEIGHT), 0.0
    holes = [stay for *_, stay in visits]
    for k in range(100):
        time_s += STEP_S if k % 25 or not holes else holes[k // 25 % len(holes)]
        events = tracker.update(time_s, *frame(things, time_s))
        assert {event.track for event in events} <= {track.id for track in tracker.tracks}


def test_a_picture_of_one_row_is_looked_at() -> None:
    nothing, strip = Detections(*(np.zeros(shape) for shape in ((0, 4), 0, (0, 11), (0, 4)))), (1, 640, 3)
    tracker = Tracker(640.0)
    assert not any(tracker.update(k * STEP_S, nothing, np.full(strip, k, np.uint8)) for k in range(10))
