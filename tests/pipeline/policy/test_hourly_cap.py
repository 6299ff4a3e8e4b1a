"""The hourly cap: when a silence begins and ends, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from narrations import narration

from pipeline.journal import Journal, compare
from pipeline.narration.narration import CapEvent, Narration
from pipeline.policy.hourly_cap import HOUR
from pipeline.policy.limits import Fate, LimitOptions, Limits
from pipeline.sources import Clock

REACHED, ENDED = CapEvent.REACHED, CapEvent.ENDED
BEGIN = narration(0).after.time


def limits(cap: int = 4) -> Limits:
    return Limits(LimitOptions(cooldown_s=None, max_per_hour=cap))


def told(asked: Limits, *said: Narration) -> list[str]:
    """The verdicts and notices, in order."""
    found = list[str]()
    for each in said:
        asked.advance(each.after.time)
        found += [notice.event for notice in asked.notices()]
        verdict = asked.admit(each)[1]
        found += [notice.event for notice in asked.notices()]
        found.append(verdict)
    return found


def test_a_silence_lasts_until_a_quarter_of_the_hour_has_room() -> None:
    asked = limits(8)
    flood = told(asked, *(narration(100 * k) for k in range(10)))
    assert flood == [*[Fate.TOLD] * 8, REACHED, *[Fate.CAPPED] * 2]
    assert asked.silent_until == BEGIN + timedelta(seconds=100) + HOUR
    assert told(asked, narration(3699)) == [Fate.CAPPED]
    assert told(asked, *(narration(3700 + k) for k in range(3))) == [
        ENDED,
        *[Fate.TOLD] * 2,
        REACHED,
        Fate.CAPPED,
    ]


def test_a_flood_that_goes_on_is_a_few_silences() -> None:
    hours = 5
    found = told(limits(60), *(narration(10 * k) for k in range(hours * 360)))
    assert found.count(Fate.TOLD) >= 60 * (hours - 1)
    assert found.count(REACHED) <= 4 * hours
    assert found.count(REACHED) - found.count(ENDED) in (0, 1)


def test_the_end_is_rounded_up_to_a_minute() -> None:
    asked = limits(1)
    for second, clock in ((0, "01:00"), (3600.5, "02:01")):
        asked.admit(narration(second))
        asked.admit(narration(second + 10))
        (notice,) = (n for n in asked.notices() if n.event is REACHED)
        assert notice.text == f"1 record within an hour: nothing more is told until {clock} UTC."


def test_many_kinds_are_counted_and_the_most_frequent_worded() -> None:
    asked = limits(1)
    (plain,) = narration().sentences
    things = [f"thing {n}" for n in range(7) for _ in range(n + 1)]
    asked.admit(narration(0))
    for k, thing in enumerate(things):
        asked.admit(narration(k + 1, sentences=(replace(plain, object=thing, type="moved"),)))
    asked.end_silences()
    _, ended = asked.notices()
    assert ended.counts == tuple(("moved", f"thing {n}", n + 1) for n in reversed(range(7)))
    assert "thing 6 moved (7), thing 5 moved (6)" in ended.text
    assert ended.text.endswith("others (3).")


def test_a_camera_at_its_cap_keeps_what_is_told_without_the_captioner_back_too() -> None:
    asked = limits(1)
    late = narration(5, fallback="late")
    assert told(asked, narration(0), late, narration(6), narration(7, fallback="late")) == [
        *[Fate.TOLD] * 2,
        REACHED,
        *[Fate.CAPPED] * 2,
    ]


def test_other_limits_of_the_same_camera_go_on_from_both_caps() -> None:
    for first, other in ((None, "late"), ("late", None)):
        asked, after = limits(1), limits(1)
        assert told(asked, narration(0, fallback=first)) == [Fate.TOLD]
        after.follow(asked)
        if first:
            assert told(after, narration(5, fallback=other)) == [Fate.TOLD]
        assert told(after, narration(6, fallback=first))[-1] == Fate.CAPPED


def test_a_silence_goes_on_after_a_restart_and_is_not_told_again() -> None:
    asked = limits(1)
    asked.remember(BEGIN, "change", narration(0).sentences)
    asked.remember(BEGIN, "cap_reached", (), until=BEGIN + HOUR)
    assert asked.silent_until == BEGIN + HOUR
    assert told(asked, narration(10), narration(3600)) == [Fate.CAPPED, ENDED, Fate.TOLD]
    asked = limits(1)
    asked.remember(BEGIN, "cap_reached", (), until=BEGIN + HOUR)
    asked.remember(BEGIN, "cap_ended", ())
    assert (asked.silent_until, told(asked, narration(10))) == (None, [Fate.TOLD])


def test_a_recording_tells_of_the_same_silences_at_other_times(tmp_path: Path) -> None:
    for name, shift_s in (("live", 0), ("told", 7200)):
        asked = limits(1)
        clock = Clock.FILE if shift_s else Clock.RTCP
        with Journal(tmp_path / name, "yard", fsync=False) as journal:
            for k in range(3):
                each = narration(shift_s + k, clock=clock, id=f"{name}-{k}")
                each = replace(each, after=replace(each.after, sha256=f"{k:064x}"))
                if asked.admit(each)[1] is Fate.TOLD:
                    journal.append(each)
                for notice in asked.notices():
                    journal.append(notice.narration(each))
    comparison = compare(tmp_path / "live", tmp_path / "told")
    assert (comparison.same, comparison.differences) == ({"yard": 2}, ())
