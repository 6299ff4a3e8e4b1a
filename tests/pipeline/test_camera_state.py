"""What a camera remembers: the last seconds of frames, what its tracks explain, and what it keeps on disk."""

import hashlib
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from still import NOON, shown

from models.captioner import DescribeOptions, packaged_tracking
from models.detections import Detections
from models.families import OBJECTS
from models.language.places import Door, Zone
from pipeline import camera_state, settings
from pipeline.camera_state import CameraMemory, CameraState
from pipeline.doors import Doors
from pipeline.gate import MotionFrame
from pipeline.limits import NO_LIMITS, MessageLimits, MinuteSummary
from pipeline.narration.narration import FrameStamp
from pipeline.tracking import Event, Observation, Track
from pipeline.tracking.reidentification import Reidentification
from pipeline.tracking.tracks import LastSeen

BEGIN = NOON.timestamp()
PLACE = (0.1, 0.5, 0.1, 0.2)
REPORTED = LastSeen("a", "person", PLACE, BEGIN, True)
IMAGE = np.full((120, 160, 3), 90, np.uint8)
NOTHING = Detections(*(np.zeros(shape) for shape in ((0, 4), 0, (0, 11), (0, 4))))


def motion(second: float, *, restart: bool = False) -> MotionFrame:
    return MotionFrame(shown(IMAGE, second), restart)


def event(time_s: float, before_s: float, after_s: float, **more: Any) -> Event:
    """Somebody's entrance or departure, in seconds after noon."""
    times = BEGIN + time_s, 0.9, BEGIN + before_s, BEGIN + after_s
    boxes = {"box_before": None, "box_after": None} | more
    return Event("left" if more.get("box_before") else "entered", "t", "car", 0.9, *times, *boxes.values())


def state() -> CameraState:
    return CameraState(MessageLimits(NO_LIMITS), MinuteSummary(None))


def watched(frames: int = 1, hz: float = 1.0) -> CameraState:
    """A camera before which nothing moved in so many frames."""
    camera = state()
    for k in range(frames):
        camera.track(motion(k / hz), NOTHING)
    return camera


def track(name: str, **more: Any) -> Track:
    return Track(name, [Observation(BEGIN, PLACE, 0.9)], *[np.ones(11)] * 3, **more)


def seconds(camera: CameraState) -> list[float]:
    return [(frame.time - NOON).total_seconds() for frame in camera.frames]


@pytest.mark.parametrize("hz", [2.0, 5.0, 10.0])
def test_the_last_seconds_are_held_densely_and_what_is_older_thinly(hz):
    camera = watched(int(15 * hz), hz)
    held = seconds(camera)
    now = held[-1]
    assert now - held[0] >= settings.RING_S - 1
    assert now - (camera.in_sight[0][0] - BEGIN) < settings.RING_S + 0.01
    assert sum(t >= now - settings.RECENT_S for t in held) == pytest.approx(settings.RECENT_S * hz + 1, abs=1)
    older = [t for t in held if t < now - settings.RECENT_S]
    assert len(older) <= (settings.RING_S - settings.RECENT_S) / 0.4 + 2
    assert max(b - a for a, b in pairwise(held)) <= max(1.0, 2 / hz)


def test_what_no_event_may_choose_is_let_go_but_for_the_last_frame():
    camera = watched(20, hz=5)
    camera.let_go(motion(4).frame)
    assert seconds(camera)[0] == 0
    camera.let_go(motion(8).frame)
    assert seconds(camera) == pytest.approx([3, 3.2, 3.4, 3.6, 3.8], abs=0.25)
    camera.let_go(motion(30).frame)
    assert seconds(camera) == [3.8]


def test_the_frame_that_showed_a_door_last_is_held_while_nothing_moves():
    camera = watched(20, hz=5)
    camera.doors = Doors.of([Door("the gate", ((0, 0), (0.5, 0), (0.5, 0.5)))])
    camera.doors.watched[0].shown_s = camera.frames[0].time.timestamp()
    camera.let_go(motion(30).frame)
    assert seconds(camera) == [0, 3.8]


def test_an_event_gets_the_frames_nearest_to_its_moments():
    camera = watched(20, hz=5)
    before, after = camera.frames_of(event(3, 2.45, 3.79, box_after=(0, 0, 0.1, 0.1)))
    assert abs((before.time - NOON).total_seconds() - 2.4) <= 0.25
    assert (after.time - NOON).total_seconds() == pytest.approx(3.8)


@pytest.mark.parametrize("restart", [motion(200, restart=True), motion(0)], ids=["cut", "clock set back"])
def test_a_cut_or_a_clock_that_goes_back_lets_tracks_and_frames_go(restart):
    camera = state()
    camera.track(motion(100), NOTHING)
    before = camera.tracker
    camera.track(restart, NOTHING)
    assert camera.tracker is not before
    assert [frame.time for frame in camera.frames] == [restart.frame.time]


@pytest.mark.parametrize("second", [-3600, 0, 60])
def test_a_clock_that_went_back_over_a_restart_costs_the_saved_tracks_alone(second):
    camera = state()
    camera.saved = watched().tracker.state()
    assert camera.track(motion(second), NOTHING) == []


@pytest.mark.parametrize(("features", "goes_on"), [(4, True), (6, False)])
def test_tracks_of_another_captioner_are_not_taken_up(features, goes_on):
    earlier, camera = state(), state()
    seen = [np.array([[0.2, 0.2, 0.2, 0.3]]), np.array([0.9]), np.eye(11)[:1]]
    for k in range(20):
        earlier.track(motion(k / 5), Detections(*seen, np.ones((1, 4))))
    camera.saved = earlier.tracker.state()
    camera.track(motion(10), Detections(*seen, np.ones((1, features))))
    known = {track.id for track in earlier.tracker.tracks}
    assert ({track.id for track in camera.tracker.tracks} == known) == goes_on


@pytest.mark.parametrize("ahead_s", [3600.0, 365 * 86_400.0])
def test_what_stands_there_has_not_stood_for_as_long_as_a_clock_was_set_forward(ahead_s):
    camera, box = state(), np.array([[0.2, 0.2, 0.2, 0.3]])
    camera.doors = Doors.of([Door("the gate", ((0.5, 0), (1, 0), (1, 0.5)), usually="open")])
    car = Detections(box, np.array([0.9]), np.eye(11)[[OBJECTS.index("car")]], np.ones((1, 4)) / 2)
    for k in range(300):
        frame = shown(IMAGE, k / 5 + (ahead_s if k >= 150 else 0), steady_s=k / 5)
        camera.track(MotionFrame(frame), car)
    (track,) = [each for each in camera.tracker.tracks if each.state != "ended"]
    assert track.last.time_s - track.rests_since_s < 60
    assert sum(camera.doors.watched[0].seconds) < 60


def test_what_lies_in_a_mask_is_not_reported():
    camera = watched()
    happened = event(0, 0, 0, box_after=(0.1, 0.1, 0.1, 0.1))
    corner = ((0.0, 0.0), (0.3, 0.0), (0.3, 0.3), (0.0, 0.3))
    assert camera.is_masked(happened, (corner,))
    assert not camera.is_masked(happened, (tuple((x + 0.5, y + 0.5) for x, y in corner),))
    assert not camera.is_masked(happened, ())


@pytest.mark.parametrize(
    ("name", "other", "score", "frame", "among"),
    [
        ("car", (0.8, 0.2, 0.1, 0.3), 0.5, 0, True),  # nobody has told of it, nor will
        ("car", (0.8, 0.2, 0.1, 0.3), 0.2, 0, False),
        ("person", (0.8, 0.2, 0.1, 0.3), 0.5, 0, False),
        ("car", (0.4, 0.2, 0.1, 0.3), 0.5, 0, False),  # in the middle
        ("car", (0.65, 0.5, 0.1, 0.05), 0.5, 0, False),  # a part of the same one
        ("car", (0.8, 0.2, 0.1, 0.3), 0.5, 5, False),  # it came later
        ("car", (0.4, 0.7, 0.1, 0.2), 0.5, 0, True),  # also at the gate
    ],
)
def test_the_one_on_the_right_is_said_where_one_is_in_sight(name, other, score, frame, among):
    camera, options = state(), DescribeOptions()
    if other[1] == 0.7:
        gate = Zone("at the gate", ((0.2, 0.2), (1, 0.2), (1, 1), (0.2, 1)))
        options = DescribeOptions(zones=(gate,))
    seen = np.array([[0.6, 0.4, 0.2, 0.3], other])
    labels = np.eye(len(OBJECTS))[[OBJECTS.index("car"), OBJECTS.index(name)]]
    found = Detections(seen, np.array([0.9, score]), labels, np.ones((2, 4)))
    for k in range(10):
        camera.track(motion(k / 5), found if k == frame else found.select(np.arange(1)))
    camera.tracker.tracks.clear()
    gone = event(0.5, 0, 1.5, box_before=(0.6, 0.4, 0.2, 0.3))
    assert camera.is_among(gone, options) == among
    assert not camera.is_among(replace(gone, object="gate"), options)


def test_boxes_are_where_the_track_was_in_the_frames_that_are_shown():
    camera = watched()
    walk = [Observation(BEGIN + k / 5, (0.1 * k, 0.5, 0.1, 0.2), 0.9) for k in range(6)]
    camera.tracker.tracks.append(Track("t", walk, np.ones(11), np.ones(4), np.ones(4)))
    frames = motion(0.8).frame, motion(2).frame
    boxed = camera.with_boxes_at(event(1, 0.6, 2, box_before=walk[3].box), frames)
    assert boxed.box_before == pytest.approx(walk[4].box)
    assert boxed.box_after is None


def test_nothing_is_remembered_of_tracks_that_are_gone():
    camera = watched()
    camera.tracker.tracks.append(track("open"))
    for name in ("open", "gone"):
        camera.colours.by_track[name] = Counter(["red"])
        camera.entered_from[name] = "left"
    camera.track(motion(0.2), NOTHING)
    assert camera.colours.by_track.keys() == camera.entered_from.keys() == {"open"}


def test_who_was_reported_as_there_and_vanished_while_moving_is_lost_once():
    camera = watched()
    tracks = {name: track(name) for name in "abcd"}
    tracks["b"].rests_since_s = BEGIN
    camera.tracker.tracks += tracks.values()
    for name in "abc":
        camera.note(replace(event(0, 0, 0, box_after=PLACE), track=name))
    camera.note(replace(event(1, 0, 1, box_before=PLACE), track="c"))
    assert camera.lose(BEGIN + settings.RESTING_LOST_S) == []
    assert camera.lose(BEGIN + settings.RESTING_LOST_S + 1) == [tracks["a"].last_seen]
    camera.tracker.tracks.clear()
    assert camera.lose(BEGIN + 1000) == []
    assert not camera.present


def test_who_rested_is_lost_with_the_view():
    camera = watched()
    camera.present["a"] = REPORTED
    camera.track(motion(1, restart=True), NOTHING)
    assert [each.track for each in camera.lose(BEGIN + settings.RESTING_LOST_S + 1)] == ["a"]


@pytest.mark.parametrize(("set_s", "lost"), [(3600, ["a"]), (-3600, ["a"]), (30, []), (0, [])])
def test_nobody_stays_for_the_time_by_which_a_clock_is_set(set_s, lost):
    camera = state()
    for k in range(2):
        seen = motion(k + 1 + k * set_s)
        camera.track(replace(seen, frame=replace(seen.frame, steady_s=k)), NOTHING)
        camera.present.setdefault("a", REPORTED)
        if k == 0:
            camera.tracker.tracks.append(track("a", rests_since_s=BEGIN))
    assert [each.track for each in camera.lose(seen.frame.time.timestamp())] == lost


def test_who_rested_over_a_restart_is_there_until_the_tracks_are_taken_up():
    camera = state()
    camera.saved = watched().tracker.state()
    camera.present["a"] = REPORTED
    assert camera.lose(BEGIN + 100) == []  # nothing has moved since
    camera.track(motion(101), NOTHING)
    assert [each.track for each in camera.lose(BEGIN + 101)] == ["a"]


def test_who_returns_is_named_in_the_events_of_the_camera():
    """Somebody walks through the frame in four seconds, twice."""
    person = np.zeros((1, 11))
    person[0, OBJECTS.index("person")] = 0.9
    coat = np.random.default_rng(1).integers(0, 256, (72, 24, 3), np.uint8)
    same = Reidentification(lambda _image, boxes: np.ones((len(boxes), 1), np.float32), packaged_tracking())
    camera = CameraState(MessageLimits(NO_LIMITS), MinuteSummary(None), people=same)
    named = []
    for k in range(100):
        left = 8 * (k % 50) - 100
        image, found = IMAGE.copy(), NOTHING
        if -20 < left < 156:
            first, last = max(left, 0), min(left + 24, 160)
            image[24:96, first:last] = coat[:, first - left : last - left]
            box = [first / 160, 0.2, (last - first) / 160, 0.6]
            found = Detections(np.array([box]), np.array([0.9]), person, np.ones((1, 4)))
        events = camera.track(MotionFrame(shown(image, k / 5)), found)
        named += [each.same_as for each in events if each.kind == "entered"]
    assert [each is None for each in named] == [True, False]


TRACKS = {"version": 1, "tracks": []}
SEEN = FrameStamp(datetime(2024, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC), 4711, "a" * 64)


def test_the_last_frame_comes_back(tmp_path):
    path = tmp_path / "cameras" / "yard.json"
    assert CameraMemory(path).seen is None
    memory = CameraMemory(path)
    memory.present = [LastSeen("a", "person", (0.1, 0.2, 0.3, 0.4), 1.5, False)]
    memory.save(SEEN, TRACKS)
    again = CameraMemory(path)
    assert (again.seen, again.tracks) == (SEEN, TRACKS)
    assert again.present[0][3:] == (1.5, False)
    assert again.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.stat().st_mode & 0o007 == 0  # as private as the journals


def test_the_monotonic_clock_counts_until_a_reboot(tmp_path, monkeypatch):
    path, boot = tmp_path / "yard.json", tmp_path / "boot_id"
    boot.write_text("one")
    monkeypatch.setattr(camera_state, "_BOOT_ID", boot)
    CameraMemory(path).save(replace(SEEN, steady_s=60.5), TRACKS)
    kept = []
    for boot_id in ("one", "two"):
        boot.write_text(boot_id)
        seen = CameraMemory(path).seen
        kept.append(seen.steady_s if seen else "nothing")
    assert kept == [60.5, None]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"narrated-camera/1": {}}', '{"narrated-camera/2": {}}']
)
def test_a_damaged_file_is_no_memory(tmp_path, content):
    path = tmp_path / "yard.json"
    path.write_text(content)
    assert CameraMemory(path).seen is None
    CameraMemory(path).save(SEEN, TRACKS)
    assert CameraMemory(path).seen == SEEN


@pytest.mark.parametrize("minutes", [5, [5], [None], [{"entered vehicle": "many"}]])
def test_damaged_counts_are_no_memory(tmp_path, minutes):
    path = tmp_path / "yard.json"
    memory = CameraMemory(path)
    memory.minutes = minutes
    memory.save(SEEN, TRACKS)
    assert not CameraMemory(path).sha256


@pytest.mark.logs_errors
def test_a_disk_that_fails_costs_only_the_memory(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(camera_state, "_BOOT_ID", tmp_path)  # no file, as where too many are open
    CameraMemory(tmp_path / "yard.json").save(replace(SEEN, steady_s=60.5), TRACKS)
    caplog.clear()
    (tmp_path / "file").write_text("")
    memory = CameraMemory(tmp_path / "file" / "yard.json")
    memory.save(SEEN, TRACKS)
    memory.save(SEEN, TRACKS)
    assert len(caplog.records) == 2  # one of reading, one of writing
