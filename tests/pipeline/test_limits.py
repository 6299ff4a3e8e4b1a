"""Limits hold messages, never the record; summaries name what they cover."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.boxes import Box
from models.captioner import Sentence
from pipeline.limits import NO_LIMITS, LimitOptions, MessageLimits, MinuteSummary

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
LEFT: Box = (0.05, 0.5, 0.1, 0.2)
RIGHT: Box = (0.85, 0.5, 0.1, 0.2)


def sentence(box: Box = LEFT, name: str = "person", kind: str = "appeared") -> Sentence:
    return Sentence(f"A {name}.", kind, name, box, 0.5, 0.9)


def held(limits: MessageLimits, *seconds: float, box: Box = LEFT) -> list[str]:
    return [limits.hold(START + timedelta(seconds=s), "change", [sentence(box)]) for s in seconds]


def test_one_kind_is_sent_once_within_the_cooldown_and_what_is_held_does_not_prolong_it():
    limits = MessageLimits(LimitOptions(cooldown_s=20, max_per_hour=None))
    assert held(limits, 0, 10, 19, 21, 30) == ["", "cooldown", "cooldown", "", "cooldown"]
    assert held(limits, 31, box=RIGHT) == [""]
    both = [sentence(LEFT), sentence(LEFT, name="car")]
    assert limits.hold(START + timedelta(seconds=32), "change", both) == ""  # the car is news
    restarted = MessageLimits(LimitOptions(cooldown_s=20, max_per_hour=None))
    restarted.remember(START, "change", [sentence()])
    assert held(restarted, 5) == ["cooldown"]


def test_an_hour_has_so_many_messages():
    limits = MessageLimits(LimitOptions(cooldown_s=None, max_per_hour=3))
    assert held(limits, 0, 600, 1200, 1800, 3599, 3601) == ["", "", "", "hourly", "hourly", ""]
    assert limits.at_hourly_limit


def test_nothing_is_held_without_limits():
    assert held(MessageLimits(NO_LIMITS), *range(200)) == [""] * 200


def test_a_clock_set_back_prolongs_no_limit():
    limits = MessageLimits(LimitOptions(cooldown_s=20, max_per_hour=1))
    assert held(limits, 7200) == [""]
    assert held(limits, 0, 3601) == ["cooldown", ""]


@given(st.lists(st.integers(0, 10_000), max_size=60).map(sorted), st.integers(1, 5))
def test_no_hour_has_more_messages_than_its_limit(seconds, most):
    limits = MessageLimits(LimitOptions(cooldown_s=None, max_per_hour=most))
    answers = held(limits, *seconds)
    sent = [s for s, reason in zip(seconds, answers, strict=True) if not reason]
    assert all(sum(begin <= s < begin + 3600 for s in sent) <= most for begin in sent)


CAR, PERSON = ("entered", "car", "left"), ("left", "person", "right")


def add(summary: MinuteSummary, second: float, number: int, kind: tuple[str, str, str]) -> str:
    """What the summary holds an event for, as the narrator asks."""
    held = "summary" if summary.is_usual(kind) else ""
    return summary.add(START + timedelta(seconds=second), f"id{number}", [kind], held)


def test_a_summary_counts_the_minute_and_names_what_it_holds():
    summary = MinuteSummary(4)
    held = [add(summary, 10 * k, k, CAR if k % 2 else PERSON) for k in range(5)]
    assert held == [""] * 2 + ["summary"] * 3
    assert not summary.is_over(START + timedelta(seconds=59))
    assert summary.is_over(START + timedelta(seconds=60))
    closed = summary.close()
    text, covers = closed[0].text, closed[1]
    assert covers == ("id2", "id3", "id4")
    assert "three people left on the right" in text
    assert "two cars came in on the left" in text
    assert summary.close() is None
    assert not add(summary, 61, 9, CAR)  # a new minute


def test_a_summary_counts_what_another_limit_holds():
    summary, other = MinuteSummary(3), ("", "cooldown", "cooldown", "")
    held = [summary.add(START + timedelta(seconds=k), f"id{k}", [CAR], other[k]) for k in range(4)]
    assert held == [*other[:3], "summary"]
    [sentence, covers] = summary.close()
    assert (sentence.text, covers) == ("Within a minute: four cars came in on the left.", ("id3",))


@pytest.mark.parametrize(
    ("cars", "minutes", "sent"),
    [
        (1, 29, (9, 0)),  # nobody knows yet what is usual
        (1, 30, (10, 2)),  # a quiet camera has a busy minute: all of it is news
        (5, 90, (10, 2)),
        (6, 90, (0, 2)),  # through traffic is in the summary, whoever walks is not
        (200, 29, (9, 0)),
    ],
)
def test_what_is_usual_at_a_camera_is_learnt(cars, minutes, sent):
    summary, busy = MinuteSummary(20), ("entered", "van", "right")
    for minute in range(minutes):
        for k in range(cars):
            add(summary, 60 * minute + k / 10, k, busy)
        assert summary.is_over(START + timedelta(minutes=minute + 1))
        summary.close()
    later = 60 * minutes
    told = [[add(summary, later + k, k, kind) for k in range(n)] for kind, n in ((CAR, 10), (PERSON, 2))]
    assert tuple(each.count("") for each in told) == sent
    closed = summary.close()
    assert len(closed[1] if closed else ()) == 12 - sum(sent)


def known(most: int = 20) -> MinuteSummary:
    summary = MinuteSummary(most)
    summary.minutes.extend([{"entered vehicle": 1}] * 60)
    return summary


@given(st.lists(st.tuples(st.sampled_from(["track", "pair", "camera"]), st.integers(1, 20)), max_size=60))
def test_no_minute_has_more_sentences_than_its_limit(narrations):
    summary, sent, covered = known(), 0, 0
    for of, sentences in narrations:
        number = sentences if of == "pair" else 1
        events = {"track": [CAR], "pair": [("appeared", "person", "")] * number}.get(of, [])
        held = summary.add(START, "id", events, of=of, sentences=number)
        sent, covered = sent + number * (not held), covered + bool(held)
    closed = summary.close()
    assert sent + bool(closed) <= 20
    assert len(closed[1] if closed else ()) == covered


def test_a_full_minute_says_what_happens_to_the_camera():
    summary = known()
    assert [add(summary, k, k, CAR) for k in range(30)].count("") == 18
    assert not summary.add(START, "covered", [], of="camera")
    assert summary.add(START, "turned", [], of="camera") == "summary"  # one place is kept, and no more
    assert summary.close()[0].text == "Within a minute: 30 cars came in on the left, further changes."


def test_two_stills_with_as_many_changes_as_a_minute_may_have_are_counted_in_its_summary():
    summary = MinuteSummary(20)
    assert summary.add(START, "id", [("appeared", "car", "")] * 20, of="pair", sentences=20) == "summary"
    assert summary.close()[0].text == "Within a minute: 20 cars appeared."


def test_the_first_pair_of_a_minute_is_told_whole_and_others_are_counted():
    summary, moved = MinuteSummary(20), [("moved", "car", "")] * 12 + [("unknown", "something", "")]
    assert [summary.add(START, f"{k}", moved, of="pair", sentences=13) for k in range(2)] == ["", "summary"]
    assert summary.close()[0].text == "Within a minute: 24 cars moved."
    assert not summary.minutes  # what is usual is learnt of tracks
    for k in range(2):
        summary.add(START, f"{k}", [("unknown", "something", "")], of="pair", sentences=19)
    assert summary.close()[0].text == "Within a minute: further changes."
