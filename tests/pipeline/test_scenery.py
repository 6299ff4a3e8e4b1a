"""What was reported at a place and never moved is reported once; what moves there is always reported."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from narrations import narration
from still import shown

from models.boxes import Box
from models.captioner import Sentence
from models.detections import Detections
from models.families import OBJECTS
from pipeline.camera_state import CameraState
from pipeline.gate import MotionFrame
from pipeline.limits import NO_LIMITS, MessageLimits, MinuteSummary
from pipeline.narration.narration import FrameStamp
from pipeline.pairs import Cause, FramePair
from pipeline.repetitions import Scenery

STREET = np.random.default_rng(0).integers(60, 120, (180, 320, 3)).astype(np.uint8)
BENCH = (0.4, 0.4, 0.06, 0.25)
Way = Callable[[float], Box | None]


def camera(scenery: Scenery | None = None) -> CameraState:
    return CameraState(MessageLimits(NO_LIMITS), MinuteSummary(None), scenery=scenery or Scenery())


def watched(state: CameraState, name: str, way: Way, seconds: float, start: float = 0.0) -> list[str]:
    """Kinds of events while something of one colour goes its way before the camera."""
    kinds = []
    for k in range(round(5 * seconds)):
        t, image = start + k / 5, STREET.copy()
        found = Detections(*(np.zeros(shape) for shape in ((0, 4), 0, (0, len(OBJECTS)), (0, 4))))
        if box := way(t):
            x, y = max(box[0], 0.0), box[1]
            right = min(box[0] + box[2], 1.0)
            if right - x > 0.3 * box[2]:
                image[int(y * 180) : int((y + box[3]) * 180), int(x * 320) : int(right * 320)] = (200, 30, 30)
                arrays = [x, y, right - x, box[3]], 0.8, [0.8 if each == name else 0.02 for each in OBJECTS]
                found = Detections(*(np.array([each]) for each in arrays), np.full((1, 4), 0.5))
        kinds += [event.kind for event in state.track(MotionFrame(shown(image, t)), found)]
    return kinds


def sign(t: float) -> Box | None:
    """A sign that lights up for 15 s and is dark for 15 s."""
    return BENCH if t % 30 >= 15 else None


def passing(start: float) -> Way:
    return lambda t: (0.12 * (t - start) - 0.06, 0.4, 0.06, 0.25) if t >= start else None


@pytest.fixture(scope="module")
def known() -> dict[str, object]:
    """What is kept of a place where a sign was reported, and that as a car too."""
    state = camera()
    assert watched(state, "person", sign, 60) == ["appeared"]
    assert watched(state, "car", sign, 40, start=300)[0] == "appeared"
    return json.loads(json.dumps(state.scenery.state()))


def test_what_never_moves_is_reported_once_also_after_a_restart(known):
    assert watched(camera(Scenery.of(known)), "person", sign, 40, start=600) == []


def test_who_moves_is_reported_at_a_place_of_scenery_as_well(known):
    state = camera(Scenery.of(known))
    assert watched(state, "person", passing(102), 14, start=100) == ["entered", "left"]


def test_a_place_where_something_comes_to_rest_is_no_scenery(known):
    state = camera(Scenery.of(known))
    assert state.scenery.knows("car", BENCH)

    def parks(t: float) -> Box | None:
        return (min(0.12 * (t - 102) - 0.06, BENCH[0]), *BENCH[1:]) if t >= 102 else None

    watched(state, "car", parks, 14, start=100)
    assert not state.scenery.knows("car", BENCH)


def test_slow_change_at_a_place_is_reported_once_where_the_camera_was_watched():
    state = camera()
    came = Sentence("", "appeared", "person", BENCH, salience=1.0, confidence=0.9, after=BENCH)
    went = replace(came, type="disappeared", before=BENCH, after=None)
    bag = replace(came, object="bag")

    def told(cause: Cause, *sentences: Sentence) -> int:
        pair = FramePair(shown(STREET), shown(STREET, 300), 5.0, cause=cause)
        before, after = (FrameStamp(each.time, each.pts, "a" * 64) for each in (pair.before, pair.after))
        said = narration(before=before, after=after, sentences=sentences)
        return len(state.drop_known(said, pair).sentences)

    watched(state, "car", lambda _: (0.7, 0.6, 0.2, 0.2), 2.0)  # which its track reports
    came_by_car = replace(came, object="car", box=(0.7, 0.6, 0.2, 0.2))
    assert told(Cause.PAUSE, came_by_car) == told(Cause.BASELINE, came_by_car) == 0
    assert [told(Cause.PAUSE, each) for each in (came, went, came)] == [1, 1, 1]
    assert [told(Cause.BASELINE, each) for each in (came, went, came)] == [1, 0, 0]
    assert [told(Cause.BASELINE, each) for each in (bag, replace(bag, type="disappeared"), bag)] == [1, 1, 0]
