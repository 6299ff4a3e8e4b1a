"""What is told again is dropped, and nothing else: rule by rule, then whatever comes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.boxes import Box
from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.sources import Clock
from pipeline.stories import AGAIN_S, MEMORY_S, Stories

START = datetime(2024, 3, 1, tzinfo=UTC)
DOOR, TABLE, WINDOW = (0.1, 0.4, 0.1, 0.3), (0.4, 0.4, 0.1, 0.3), (0.8, 0.4, 0.1, 0.3)
BESIDE = (0.42, 0.41, 0.1, 0.3)


def came(place: Box, thing: str = "person", count: int = 1) -> Sentence:
    text = f"A {thing} has appeared."
    return Sentence(text, "appeared", thing, place, 0.5, 0.9, count, None, place)


def went(place: Box, thing: str = "person", count: int = 1) -> Sentence:
    text = f"A {thing} is gone."
    return Sentence(text, "disappeared", thing, place, 0.5, 0.9, count, place, None)


def moved(was: Box, now: Box, thing: str = "person", kind: str = "moved") -> Sentence:
    return Sentence(f"The {thing} has {kind}.", kind, thing, now, 0.5, 0.9, 1, was, now)


def narration(
    before: float, after: float, *sentences: Sentence, event: SceneEvent = SceneEvent.NONE
) -> Narration:
    first, last = (FrameStamp(START + timedelta(seconds=t), round(t), "0" * 64) for t in (before, after))
    model = ModelStamp("scripted", "0" * 64)
    return Narration(f"n{after}", "yard", first, last, Clock.FILE, event, sentences, 9.0, model, "0" * 64)


def told(
    stories: Stories, before: float, after: float, *sentences: Sentence, returned: bool = False
) -> list[str]:
    followed = stories.follow(narration(before, after, *sentences), returned=returned)
    assert [s for s in sentences if s in followed.sentences] == list(followed.sentences)  # their order
    return [s.type for s in followed.sentences]


def test_one_who_comes_walks_about_and_leaves_is_two_sentences() -> None:
    stories = Stories()
    assert told(stories, 0, 4, came(DOOR)) == ["appeared"]
    assert told(stories, 4, 7, moved(DOOR, TABLE)) == []
    assert told(stories, 7, 10, moved(TABLE, WINDOW)) == []
    assert told(stories, 10, 13, went(WINDOW)) == ["disappeared"]
    assert stories.dropped == {"moving on": 2}


def test_a_clock_that_is_set_back_an_hour_keeps_nobody_in_memory_for_an_hour() -> None:
    stories = Stories()
    assert told(stories, 0, 4, came(DOOR)) == ["appeared"]
    assert told(stories, -3600, -3596, moved(DOOR, TABLE)) == []  # still the same story
    later = -3596 + MEMORY_S + 1
    assert told(stories, later, later + 4, came(TABLE)) == ["appeared"]
    assert told(stories, later + 5, later + 9, went(TABLE)) == ["disappeared"]


def test_a_narration_that_loses_nothing_is_the_same_object() -> None:
    whole = narration(0, 4, came(DOOR))
    assert Stories().follow(whole) is whole


def test_what_had_been_at_rest_is_told_when_it_moves() -> None:
    stories = Stories()
    assert told(stories, 0, 4, came(DOOR, "car")) == ["appeared"]
    assert told(stories, 4 + MEMORY_S, 7 + MEMORY_S, moved(DOOR, TABLE, "car")) == ["moved"]
    assert told(stories, 7 + MEMORY_S, 10 + MEMORY_S, moved(TABLE, WINDOW, "car")) == []


def test_what_was_never_told_is_told_when_it_moves_or_leaves() -> None:
    assert told(Stories(), 0, 4, moved(DOOR, TABLE, "car")) == ["moved"]
    assert told(Stories(), 0, 4, went(DOOR, "car")) == ["disappeared"]


def test_one_who_stirs_at_a_desk_is_not_told_however_long_until_he_walks() -> None:
    stories = Stories()
    told(stories, 0, 4, came(TABLE))
    for t in range(4, 80, 4):
        assert told(stories, t, t + 4, moved(TABLE, BESIDE) if t % 8 else moved(BESIDE, TABLE)) == []
    assert told(stories, 80, 84, moved(TABLE, DOOR)) == ["moved"]


def test_one_who_is_seen_anew_where_he_was_told_to_be_is_not_told_again() -> None:
    stories = Stories()
    told(stories, 0, 4, came(TABLE))
    assert told(stories, 4, 8, came(BESIDE)) == []
    assert told(stories, 8, 12, came(BESIDE, "something")) == []
    assert told(stories, 12, 16, came(WINDOW)) == ["appeared"]
    assert told(stories, 16, 20, came(TABLE, "car")) == ["appeared"]
    assert stories.dropped == {"there already": 2}


def test_after_a_while_the_same_sentence_is_news() -> None:
    stories = Stories()
    told(stories, 0, 4, came(TABLE))
    assert told(stories, 4 + AGAIN_S, 8 + AGAIN_S, came(TABLE)) == []
    assert told(stories, 9 + 2 * AGAIN_S, 12 + 2 * AGAIN_S, came(TABLE)) == ["appeared"]


@pytest.mark.parametrize(("one", "other"), [("person", "car"), ("car", "person")])
def test_one_of_another_family_at_the_same_place_has_a_story_of_its_own(one: str, other: str) -> None:
    stories = Stories()
    told(stories, 0, 4, came(TABLE, one))
    assert told(stories, 4, 8, came(TABLE, other)) == ["appeared"]
    assert told(stories, 8, 12, moved(TABLE, DOOR, other)) == []
    assert told(stories, 12, 16, came(TABLE, one)) == []  # it never left


def test_a_second_person_beside_the_first_is_told() -> None:
    stories = Stories()
    told(stories, 0, 4, came(TABLE))
    assert told(stories, 4, 8, came(TABLE, count=2)) == ["appeared"]


def test_of_one_who_crossed_nothing_is_remembered() -> None:
    stories = Stories()
    assert told(stories, 0, 4, came(TABLE), returned=True) == ["appeared"]
    assert told(stories, 6, 10, came(TABLE), returned=True) == ["appeared"]
    told(stories, 12, 16, came(DOOR))
    assert told(stories, 16, 20, moved(DOOR, TABLE), returned=True) == []
    assert told(stories, 22, 26, came(DOOR)) == []  # there he was all the time


def test_gone_is_told_once() -> None:
    stories = Stories()
    assert told(stories, 0, 4, went(TABLE)) == ["disappeared"]
    assert told(stories, 4, 8, went(BESIDE)) == []
    assert told(stories, 9, 12, went(BESIDE)) == ["disappeared"]
    assert stories.dropped == {"gone already": 1}


def test_in_a_queue_each_keeps_its_own_story() -> None:
    stories = Stories()
    told(stories, 0, 4, came(DOOR, "car"), came(TABLE, "car"))
    assert told(stories, 4, 8, moved(DOOR, TABLE, "car"), moved(TABLE, WINDOW, "car")) == []
    assert told(stories, 8, 12, went(WINDOW, "car"), went(TABLE, "car")) == ["disappeared", "disappeared"]
    assert told(stories, 12, 16, came(DOOR, "car")) == ["appeared"]


def test_replaced_is_always_told() -> None:
    stories = Stories()
    told(stories, 0, 4, came(TABLE))
    assert told(stories, 4, 8, moved(TABLE, TABLE, kind="replaced")) == ["replaced"]


def test_a_new_view_forgets_and_a_change_of_light_does_not() -> None:
    for event, again in ((SceneEvent.VIEW, ["appeared"]), (SceneEvent.LIGHT, [])):
        stories = Stories()
        told(stories, 0, 4, came(TABLE))
        turned = narration(4, 6, came(TABLE), event=event)
        assert stories.follow(turned) is turned
        assert told(stories, 6, 10, came(TABLE)) == again


def test_a_captioner_that_gives_one_box_or_none() -> None:
    def plain(kind: str, place: Box | None) -> Sentence:
        return Sentence(f"A person has {kind}.", kind, "person", place, 0.5, 0.9)

    stories = Stories()
    assert told(stories, 0, 4, plain("appeared", TABLE)) == ["appeared"]
    assert told(stories, 4, 8, plain("appeared", TABLE)) == []
    assert told(stories, 8, 12, plain("disappeared", TABLE)) == ["disappeared"]
    assert told(stories, 12, 16, plain("appeared", None), plain("unknown", TABLE)) == ["appeared", "unknown"]
    assert told(stories, 16, 20, plain("appeared", None)) == ["appeared"]


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


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.lists(SAID, max_size=4), st.floats(0.1, 20), st.floats(0, 20), st.booleans()),
        max_size=12,
    )
)
def test_any_story_is_the_same_twice_and_every_drop_has_a_reason(
    steps: list[tuple[list[Sentence], float, float, bool]],
) -> None:
    stories, again = Stories(), Stories()
    t, lost = 0.0, 0
    for sentences, length, pause, returned in steps:
        whole = narration(t, t + length, *sentences)
        followed = stories.follow(whole, returned=returned)
        assert followed == again.follow(whole, returned=returned)
        assert followed.id == whole.id
        assert not Counter(followed.sentences) - Counter(whole.sentences)
        assert {s for s in sentences if s.type in {"replaced", "none", "unknown"}} <= set(followed.sentences)
        lost += len(whole.sentences) - len(followed.sentences)
        t += length + pause
    assert stories.dropped.total() == lost
    assert len(stories._things) <= sum(len(s) for s, *_ in steps)


def test_little_is_remembered_whatever_happens() -> None:
    stories = Stories()
    for t in range(0, 5000, 2):
        told(stories, t, t + 2, came(((t % 97) / 97, (t % 89) / 89, 0.01, 0.01)))
        assert len(stories._things) <= MEMORY_S


def test_a_rider_who_is_taken_for_another_kind_of_rider_is_told_once() -> None:
    stories = Stories()
    assert told(stories, 0, 5, came(DOOR, "motorcyclist")) == ["appeared"]
    assert told(stories, 5, 6, came(DOOR, "cyclist")) == []
