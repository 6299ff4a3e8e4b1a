"""What is told again, or of a place where nothing moves, is dropped, and nothing else."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrations import narration
from still import shown

from models.boxes import Box
from models.captioner import Sentence
from models.detections import Detections
from models.families import OBJECTS
from pipeline.camera_state import CameraState
from pipeline.changes import SceneEvent
from pipeline.gate import MotionFrame
from pipeline.limits import NO_LIMITS, MessageLimits, MinuteSummary
from pipeline.narration.narration import FrameStamp, Narration
from pipeline.pairs import Cause, FramePair
from pipeline.repetitions import Scenery, Stories
from pipeline.settings import STORY_AGAIN_S, STORY_S

START = datetime(2024, 3, 1, tzinfo=UTC)
DOOR, TABLE, WINDOW = (0.1, 0.4, 0.1, 0.3), (0.4, 0.4, 0.1, 0.3), (0.8, 0.4, 0.1, 0.3)
BESIDE = (0.42, 0.41, 0.1, 0.3)


def came(place: Box, thing: str = "person", count: int = 1) -> Sentence:
    text = f"A {thing} has appeared."
    return Sentence(text, "appeared", thing, place, 0.5, 0.9, count, None, place)


def went(place: Box, thing: str = "person", count: int = 1) -> Sentence:
    text = f"A {thing} is gone."
    return Sentence(text, "disappeared", thing, place, 0.5, 0.9, count, place, None)


def moved(was: Box | None, now: Box | None, thing: str = "person", kind: str = "moved") -> Sentence:
    return Sentence(f"The {thing} has {kind}.", kind, thing, now or was, 0.5, 0.9, 1, was, now)


def narrated(before: float, after: float, *sentences: Sentence, **changed: Any) -> Narration:
    first, last = (FrameStamp(START + timedelta(seconds=t), round(t), "0" * 64) for t in (before, after))
    return narration(after, before=first, after=last, sentences=sentences, **changed)


def told(
    stories: Stories, before: float, after: float, *sentences: Sentence, returned: bool = False
) -> list[str]:
    followed = stories.follow(narrated(before, after, *sentences), returned=returned)
    assert [s for s in sentences if s in followed.sentences] == list(followed.sentences)  # their order
    return [s.type for s in followed.sentences]


def plain(kind: str, place: Box | None) -> Sentence:
    """As a captioner says it that gives one box or none."""
    return Sentence(f"A person has {kind}.", kind, "person", place, 0.5, 0.9)


LATER = -3596 + STORY_S + 1
CROSSED = {"returned": True}
SCENARIOS: dict[str, list[tuple[Any, ...]]] = {
    "who comes, walks about and leaves is two sentences": [
        (0, 4, [came(DOOR)], ["appeared"]),
        (4, 7, [moved(DOOR, TABLE)], []),
        (7, 10, [moved(TABLE, WINDOW)], []),
        (10, 13, [went(WINDOW)], ["disappeared"]),
    ],
    "a clock that is set back an hour keeps nobody in memory for an hour": [
        (0, 4, [came(DOOR)], ["appeared"]),
        (-3600, -3596, [moved(DOOR, TABLE)], []),  # still the same story
        (LATER, LATER + 4, [came(TABLE)], ["appeared"]),
        (LATER + 5, LATER + 9, [went(TABLE)], ["disappeared"]),
    ],
    "what had been at rest is told when it moves": [
        (0, 4, [came(DOOR, "car")], ["appeared"]),
        (4 + STORY_S, 7 + STORY_S, [moved(DOOR, TABLE, "car")], ["moved"]),
        (7 + STORY_S, 10 + STORY_S, [moved(TABLE, WINDOW, "car")], []),
    ],
    "a move with one known end is told as others are": [
        (0, 4, [came(DOOR, "car")], ["appeared"]),
        (4, 7, [moved(DOOR, None, "car")], []),
        (7, 10, [moved(None, WINDOW, "car")], ["moved"]),
        (10, 13, [moved(None, WINDOW, "car")], []),
        (13 + STORY_S, 16 + STORY_S, [moved(WINDOW, None, "car")], ["moved"]),
    ],
    "what was never told is told when it moves": [(0, 4, [moved(DOOR, TABLE, "car")], ["moved"])],
    "what was never told is told when it leaves": [(0, 4, [went(DOOR, "car")], ["disappeared"])],
    "who stirs at a desk is not told however long, until he walks": [
        (0, 4, [came(TABLE)], ["appeared"]),
        *((t, t + 4, [moved(TABLE, BESIDE) if t % 8 else moved(BESIDE, TABLE)], []) for t in range(4, 80, 4)),
        (80, 84, [moved(TABLE, DOOR)], ["moved"]),
    ],
    "who is seen anew where he was told to be is not told again": [
        (0, 4, [came(TABLE)], ["appeared"]),
        (4, 8, [came(BESIDE)], []),
        (8, 12, [came(BESIDE, "something")], []),
        (12, 16, [came(WINDOW)], ["appeared"]),
        (16, 20, [came(TABLE, "car")], ["appeared"]),
    ],
    "after a while the same sentence is news": [
        (0, 4, [came(TABLE)], ["appeared"]),
        (4 + STORY_AGAIN_S, 8 + STORY_AGAIN_S, [came(TABLE)], []),
        (9 + 2 * STORY_AGAIN_S, 12 + 2 * STORY_AGAIN_S, [came(TABLE)], ["appeared"]),
    ],
    "a second person beside the first is told": [
        (0, 4, [came(TABLE)], ["appeared"]),
        (4, 8, [came(TABLE, count=2)], ["appeared"]),
    ],
    "of one who crossed nothing is remembered": [
        (0, 4, [came(TABLE)], ["appeared"], CROSSED),
        (6, 10, [came(TABLE)], ["appeared"], CROSSED),
        (12, 16, [came(DOOR)], ["appeared"]),
        (16, 20, [moved(DOOR, TABLE)], [], CROSSED),
        (22, 26, [came(DOOR)], []),  # there he was all the time
    ],
    "gone is told once": [
        (0, 4, [went(TABLE)], ["disappeared"]),
        (4, 8, [went(BESIDE)], []),
        (9, 12, [went(BESIDE)], ["disappeared"]),
    ],
    "in a queue each keeps its own story": [
        (0, 4, [came(DOOR, "car"), came(TABLE, "car")], ["appeared", "appeared"]),
        (4, 8, [moved(DOOR, TABLE, "car"), moved(TABLE, WINDOW, "car")], []),
        (8, 12, [went(WINDOW, "car"), went(TABLE, "car")], ["disappeared", "disappeared"]),
        (12, 16, [came(DOOR, "car")], ["appeared"]),
    ],
    "replaced is always told": [
        (0, 4, [came(TABLE)], ["appeared"]),
        (4, 8, [moved(TABLE, TABLE, kind="replaced")], ["replaced"]),
    ],
    "a captioner that gives one box or none": [
        (0, 4, [plain("appeared", TABLE)], ["appeared"]),
        (4, 8, [plain("appeared", TABLE)], []),
        (8, 12, [plain("disappeared", TABLE)], ["disappeared"]),
        (12, 16, [plain("appeared", None), plain("unknown", TABLE)], ["appeared", "unknown"]),
        (16, 20, [plain("appeared", None)], ["appeared"]),
    ],
    "a rider who is taken for another kind of rider is told once": [
        (0, 5, [came(DOOR, "motorcyclist")], ["appeared"]),
        (5, 6, [came(DOOR, "cyclist")], []),
    ],
}
for one, other in (("person", "car"), ("car", "person")):
    SCENARIOS[f"a {other} where a {one} is has a story of its own"] = [
        (0, 4, [came(TABLE, one)], ["appeared"]),
        (4, 8, [came(TABLE, other)], ["appeared"]),
        (8, 12, [moved(TABLE, DOOR, other)], []),
        (12, 16, [came(TABLE, one)], []),  # it never left
    ]


@pytest.mark.parametrize("steps", SCENARIOS.values(), ids=SCENARIOS)
def test_what_is_told_again_is_dropped_and_nothing_else(steps):
    stories = Stories()
    for before, after, sentences, expected, *more in steps:
        assert told(stories, before, after, *sentences, **dict(*more)) == expected


def test_a_narration_that_loses_nothing_is_the_same_object_and_drops_are_counted_by_reason():
    stories, whole = Stories(), narrated(0, 4, came(TABLE))
    assert stories.follow(whole) is whole
    for sentence in (moved(TABLE, WINDOW), came(WINDOW), went(WINDOW), went(WINDOW)):
        told(stories, 4, 8, sentence)
    assert stories.dropped == {"moving on": 1, "there already": 1, "gone already": 1}


def test_a_new_view_forgets_and_a_change_of_light_does_not():
    for event, again in ((SceneEvent.VIEW, ["appeared"]), (SceneEvent.LIGHT, [])):
        stories = Stories()
        told(stories, 0, 4, came(TABLE))
        turned = narrated(4, 6, came(TABLE), event=event)
        assert stories.follow(turned) is turned
        assert told(stories, 6, 10, came(TABLE)) == again


PLACES = st.tuples(st.floats(0, 0.9), st.floats(0, 0.9), st.floats(0, 0.4), st.floats(0, 0.4))
SAID = st.builds(
    Sentence,
    text=st.just("Something."),
    type=st.sampled_from(
        ["appeared", "disappeared", "moved", "more", "fewer", "replaced", "none", "unknown"]
    ),
    object=st.sampled_from(["person", "car", "bus", "something"]),
    box=st.none() | PLACES,
    salience=st.just(0.5),
    confidence=st.just(0.5),
    count=st.integers(1, 3),
    before=st.none() | PLACES,
    after=st.none() | PLACES,
    moment_s=st.none() | st.floats(0, 5),
)


@settings(max_examples=80, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.lists(SAID, max_size=4), st.floats(0.1, 20), st.floats(0, 20), st.booleans()),
        max_size=12,
    )
)
def test_any_story_is_the_same_twice_and_every_drop_has_a_reason(steps):
    stories, again = Stories(), Stories()
    t, lost = 0.0, 0
    for sentences, length, pause, returned in steps:
        whole = narrated(t, t + length, *sentences)
        followed = stories.follow(whole, returned=returned)
        assert followed == again.follow(whole, returned=returned)
        assert followed.id == whole.id
        assert not Counter(followed.sentences) - Counter(whole.sentences)
        assert {s for s in sentences if s.type in {"replaced", "none", "unknown"}} <= set(followed.sentences)
        lost += len(whole.sentences) - len(followed.sentences)
        t += length + pause
    assert stories.dropped.total() == lost
    assert len(stories._things) <= sum(len(s) for s, *_ in steps)


def test_little_is_remembered_whatever_happens():
    stories = Stories()
    for t in range(0, 1500, 2):
        told(stories, t, t + 2, came(((t % 97) / 97, (t % 89) / 89, 0.01, 0.01)))
        assert len(stories._things) <= STORY_S


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
