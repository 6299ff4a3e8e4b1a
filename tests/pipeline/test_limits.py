"""Limits hold messages, never the record; summaries name what they cover."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from models.boxes import Box
from models.sentences import Sentence
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


def add(summary: MinuteSummary, second: float, number: int, kind: tuple[str, str, str]) -> bool:
    return summary.add(START + timedelta(seconds=second), f"id{number}", kind)


def test_a_summary_counts_the_minute_and_names_what_it_holds():
    summary = MinuteSummary(2)
    car, person = ("entered", "car", "left"), ("left", "person", "right")
    assert [add(summary, 10 * k, k, car if k % 2 else person) for k in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert not summary.is_over(START + timedelta(seconds=59))
    assert summary.is_over(START + timedelta(seconds=60))
    closed = summary.close()
    text, covers = closed[0].text, closed[1]
    assert covers == ("id2", "id3", "id4")
    assert "three people left on the right" in text
    assert "two cars came in on the left" in text
    assert summary.close() is None
    assert not add(summary, 61, 9, car)  # a new minute


def test_a_summary_counts_what_another_limit_holds():
    summary, car = MinuteSummary(1), ("entered", "car", "left")
    held = [summary.add(START + timedelta(seconds=k), f"id{k}", car, held=k in (1, 2)) for k in range(4)]
    assert held == [False, False, False, True]
    [sentence, covers] = summary.close()
    assert (sentence.text, covers) == ("Within a minute: four cars came in on the left.", ("id3",))


def test_a_quiet_minute_has_no_summary():
    summary = MinuteSummary(2)
    add(summary, 0, 0, ("entered", "car", "left"))
    assert not summary.is_over(START + timedelta(minutes=5))
    assert summary.close() is None
