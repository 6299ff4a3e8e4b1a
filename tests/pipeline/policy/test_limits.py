"""Limits: what is held back and for how long, by the time of the frames; then whatever comes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from models.boxes import Box
from models.captioner import Sentence
from models.language.places import Zone
from pipeline.changes import SceneEvent
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.policy.hourly_cap import HOUR
from pipeline.policy.limits import NO_LIMITS, Fate, LimitOptions, Limits, joined
from pipeline.sources import Clock

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
LEFT, MIDDLE, RIGHT = (0.1, 0.4, 0.1, 0.2), (0.45, 0.4, 0.1, 0.2), (0.8, 0.4, 0.1, 0.2)
TOLD, MERGED, COOLDOWN, CAPPED = Fate.TOLD, Fate.MERGED, Fate.COOLDOWN, Fate.CAPPED


def came(place: Box = LEFT, thing: str = "person", moment_s: float | None = None) -> Sentence:
    text = f"A {thing} has appeared."
    return Sentence(text, "appeared", thing, place, 0.5, 0.9, after=place, moment_s=moment_s)


def went(place: Box = LEFT, thing: str = "person") -> Sentence:
    return Sentence(f"The {thing} is gone.", "disappeared", thing, place, 0.5, 0.9, before=place)


def narration(t: float, *sentences: Sentence, event: SceneEvent = SceneEvent.NONE) -> Narration:
    first, last = (FrameStamp(START + timedelta(seconds=s), round(s), "0" * 64) for s in (t - 4, t))
    model = ModelStamp("scripted", "0" * 64)
    said = sentences or (came(),)
    return Narration(f"n{t}", "yard", first, last, Clock.RTCP, event, said, 9.0, model, "0" * 64)


def verdicts(limits: Limits, *narrations: Narration) -> list[Fate]:
    return [limits.admit(each)[1] for each in narrations]


def test_a_kind_is_told_once_within_the_cooldown_and_what_is_suppressed_does_not_prolong_it() -> None:
    limits = Limits(LimitOptions(cooldown_s=20))
    told = verdicts(limits, *(narration(t) for t in range(0, 61, 4)))
    assert [4 * k for k, verdict in enumerate(told) if verdict is TOLD] == [0, 20, 40, 60]
    assert limits.dropped == {COOLDOWN: 12}


def test_a_sentence_held_back_beside_one_that_is_told_prolongs_no_cooldown() -> None:
    limits = Limits(LimitOptions(cooldown_s=20))
    said = [narration(0), narration(12, came(), came(RIGHT)), narration(20), narration(21, came(RIGHT))]
    assert verdicts(limits, *said) == [TOLD, TOLD, TOLD, COOLDOWN]


def test_another_type_object_or_place_is_another_kind() -> None:
    limits = Limits(LimitOptions())
    said = (came(), went(), came(thing="car"), came(RIGHT))
    assert verdicts(limits, *(narration(k, s) for k, s in enumerate(said))) == [TOLD] * 4
    assert limits.admit(narration(5, came(thing="van")))[1] is COOLDOWN  # easily taken for a car


def test_a_narration_keeps_the_sentences_that_are_news() -> None:
    limits = Limits(LimitOptions())
    whole, verdict = limits.admit(narration(0, came(), came(), went(RIGHT)))
    assert (len(whole.sentences), verdict) == (3, TOLD)  # two of a kind at once are no flood
    rest, verdict = limits.admit(narration(4, came(), came(MIDDLE)))
    assert ([s.box for s in rest.sentences], verdict) == ([MIDDLE], TOLD)
    assert limits.dropped == {COOLDOWN: 1}


def test_zones_are_places() -> None:
    zone = Zone("at the gate", ((0, 0), (1, 0), (1, 1), (0, 1)))
    limits = Limits(LimitOptions(), [zone])
    assert verdicts(limits, narration(0, came(LEFT)), narration(4, came(RIGHT))) == [TOLD, COOLDOWN]


def test_scene_events_have_their_own_cooldown() -> None:
    limits = Limits(LimitOptions())
    light = Sentence("The light has changed.", "none", "scene", None, 1, 1)
    flicker = [narration(t, light, event=SceneEvent.LIGHT) for t in range(0, 24, 4)]
    assert verdicts(limits, *flicker) == [TOLD, *[COOLDOWN] * 4, TOLD]
    assert limits.admit(narration(22, light, event=SceneEvent.VIEW))[1] is TOLD


def test_so_many_records_within_any_hour() -> None:
    limits = Limits(LimitOptions(cooldown_s=None, max_per_hour=3))
    every_ten_minutes = verdicts(limits, *(narration(600 * k) for k in range(12)))
    assert every_ten_minutes == [*[TOLD] * 3, *[CAPPED] * 3] * 2


def test_what_the_cap_suppresses_begins_no_cooldown() -> None:
    limits = Limits(LimitOptions(cooldown_s=600, max_per_hour=1))
    assert verdicts(limits, narration(0, came()), narration(3599, went())) == [TOLD, CAPPED]
    assert limits.admit(narration(3600, went()))[1] is TOLD


def test_what_follows_soon_shares_the_record_and_costs_nothing_of_the_cap() -> None:
    limits = Limits(LimitOptions(merge_s=10, cooldown_s=None, max_per_hour=2))
    told = verdicts(limits, *(narration(t) for t in (0, 4, 10, 11, 12, 30)))
    assert told == [TOLD, MERGED, MERGED, TOLD, MERGED, CAPPED]
    assert (limits.open_at(START), limits.dropped) == (False, {CAPPED: 1})


def test_a_record_that_is_closed_takes_nothing_more() -> None:
    limits = Limits(LimitOptions(merge_s=10))
    assert verdicts(limits, narration(0), narration(2, went())) == [TOLD, MERGED]
    limits.close()
    assert limits.admit(narration(4, came(RIGHT)))[1] is TOLD


def test_a_scene_event_is_told_alone() -> None:
    limits = Limits(LimitOptions(merge_s=10))
    light = Sentence("The light has changed.", "none", "scene", None, 1, 1)
    event = narration(2, light, event=SceneEvent.LIGHT)
    assert verdicts(limits, narration(0), event, narration(4, went())) == [TOLD] * 3


def test_a_clock_that_steps_back_an_hour_silences_nobody_for_longer_than_the_limits_say() -> None:
    limits = Limits(LimitOptions(cooldown_s=20, max_per_hour=1))
    assert verdicts(limits, narration(0), narration(-3600), narration(-3600 + 21)) == [TOLD, COOLDOWN, CAPPED]
    assert limits.admit(narration(0))[1] is TOLD  # an hour after the step, by the new clock


def test_a_clock_that_steps_back_ends_the_record_that_others_share() -> None:
    limits = Limits(LimitOptions(merge_s=10, cooldown_s=None))
    assert verdicts(limits, *(narration(t) for t in (0, 4, 10))) == [TOLD, MERGED, MERGED]
    assert verdicts(limits, *(narration(t) for t in (-7200, -7195, -7189))) == [TOLD, MERGED, TOLD]


def test_another_plan_goes_on_with_what_was_told() -> None:
    before = Limits(LimitOptions(cooldown_s=20, max_per_hour=2))
    assert before.admit(narration(0))[1] is TOLD
    after = Limits(LimitOptions(cooldown_s=60, max_per_hour=2))
    after.follow(before)
    said = narration(19), narration(20, went()), narration(21, came(RIGHT))
    assert verdicts(after, *said) == [COOLDOWN, TOLD, CAPPED]


def test_without_limits_everything_is_told_as_it_is() -> None:
    limits = Limits(NO_LIMITS)
    for t in range(100):
        each = narration(t / 10)
        assert limits.admit(each) == (each, TOLD)


def test_joined_narrations_tell_from_the_first_frame_to_the_last() -> None:
    parts = [narration(10, came(moment_s=1.5)), narration(14, went(RIGHT), came(MIDDLE, moment_s=2.0))]
    parts[1] = replace(parts[1], fallback="late", abstained="unsure")
    whole = joined(parts, 12.5)
    assert (whole.before, whole.after) == (parts[0].before, parts[1].after)
    assert whole.text == "A person has appeared. The person is gone. A person has appeared."
    assert [s.moment_s for s in whole.sentences] == [1.5, None, 6.0]
    assert (whole.l2, whole.fallback, whole.abstained) == (12.5, "late", "unsure")
    assert len({whole.id, *(part.id for part in parts)}) == 3
    assert whole.id == joined(parts, 12.5).id


SAID = st.builds(
    lambda kind, place, thing: kind(place, thing),
    st.sampled_from([came, went]),
    st.sampled_from([LEFT, MIDDLE, RIGHT]),
    st.sampled_from(["person", "car", "bag"]),
)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 900), st.lists(SAID, min_size=1, max_size=3)), max_size=60),
    merge_s=st.sampled_from([None, 5.0, 60.0]),
    cooldown_s=st.sampled_from([None, 20.0, 600.0]),
    cap=st.sampled_from([None, 1, 4]),
)
def test_no_limit_is_ever_exceeded(
    steps: list[tuple[int, list[Sentence]]],
    merge_s: float | None,
    cooldown_s: float | None,
    cap: int | None,
) -> None:
    options = LimitOptions(merge_s, cooldown_s, cap)
    limits, again = Limits(options), Limits(options)
    now, begun, sentences, decided = 0, [], [], 0
    for step, said in steps:
        now += step
        each = narration(now, *said)
        decision = limits.admit(each)
        assert decision == again.admit(each)
        if decision[1] is TOLD:
            begun.append(now)
        if decision[1] is MERGED:
            assert merge_s is not None
            assert now - begun[-1] <= merge_s
        if decision[1] in {TOLD, MERGED}:
            sentences += [(now, (s.type, s.object, s.box)) for s in decision[0].sentences]
            decided += len(decision[0].sentences)
    assert decided + limits.dropped.total() == sum(len(said) for _, said in steps)
    if cap is not None:
        assert all(sum(t - HOUR.total_seconds() < u <= t for u in begun) <= cap for t in begun)
    if cooldown_s is not None:
        for t, kind in sentences:
            assert not any(0 < t - u < cooldown_s for u, other in sentences if other == kind)


@settings(max_examples=100, deadline=None)
@given(
    before=st.lists(st.tuples(st.integers(0, 900), SAID), min_size=1, max_size=20),
    after=st.lists(st.tuples(st.integers(0, 900), SAID), min_size=1, max_size=20),
    back_s=st.integers(1, 100_000),
    merge_s=st.sampled_from([None, 5.0, 60.0]),
    cooldown_s=st.sampled_from([None, 20.0, 600.0]),
)
def test_one_step_back_of_the_clock_loosens_no_limit_and_prolongs_none(
    before: list[tuple[int, Sentence]],
    after: list[tuple[int, Sentence]],
    back_s: int,
    merge_s: float | None,
    cooldown_s: float | None,
) -> None:
    limits, now, begun, told = Limits(LimitOptions(merge_s, cooldown_s, 4)), 0, [], 0
    for step, said in before:
        now += step
        told += limits.admit(narration(now, said))[1] in {TOLD, MERGED}
    now -= back_s
    for step, said in after:
        now += step
        verdict = limits.admit(narration(now, said))[1]
        begun += [now] if verdict is TOLD else []
        told += verdict in {TOLD, MERGED}
    assert told + limits.dropped.total() == len(before) + len(after)
    assert all(sum(t - HOUR.total_seconds() < u <= t for u in begun) <= 4 for t in begun)
    an_hour_later = narration(now + HOUR.total_seconds(), came())
    assert limits.admit(an_hour_later)[1] is TOLD  # whatever was told, by whichever clock
    assert cooldown_s is not None or COOLDOWN not in limits.dropped
