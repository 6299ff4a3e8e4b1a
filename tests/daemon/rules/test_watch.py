"""What rules mean: one of each kind, told of visits, gaps and clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from daemon.questions.asker import Asker
from daemon.questions.facts import Fact
from daemon.questions.local_time import LocalTime, microseconds, moment_of
from daemon.questions.question import SearchError
from daemon.rules.reading import read_rule
from daemon.rules.watch import Cooldown, Firing, Watch

NOON = datetime(2026, 5, 14, 12, tzinfo=UTC)
PLACES = ("gate", "desk", "lot", "gate line", "gate line into the yard", "gate line to the street")
LOCAL = LocalTime.named("Europe/Berlin")
ASKER = Asker(("yard",), frozenset(), LOCAL, PLACES.__contains__, lambda: list(PLACES))


def minute(number: float) -> int:
    return microseconds(NOON + timedelta(minutes=number))


class Story:
    """A rule, and what it is told minute by minute; records are named by what they say."""

    def __init__(self, when: str, **more: object) -> None:
        self.watch = Watch(read_rule("a rule", when, ASKER, **more), LOCAL)  # type: ignore[arg-type]
        self.watch.begin("first", minute(0))

    def tell(
        self,
        at: float,
        text: str,
        thing: str,
        track: str | None,
        action: str = "entered",
        late_s: float = 1.0,
        other: str | None = None,
    ) -> None:
        kinds = dict.fromkeys(("entered", "placed", "got_out"), "appeared")
        kinds |= dict.fromkeys(("left", "removed", "got_in"), "disappeared")
        time = minute(at) + round(late_s * 1_000_000)
        self.watch.take(
            Fact(
                text,
                time,
                minute(at),
                kinds.get(action, "unknown"),
                action,
                thing,
                "",
                0.9,
                1,
                True,
                other,
                track,
                f"A {thing} {text}.",
            )
        )

    def fired(self, until: float | None = None) -> list[tuple[float, tuple[str | int, ...]]]:
        """Minutes and records, up to a minute until which the camera was watched."""
        if until is not None:
            self.watch.advance(minute(until))
        return [((each.at - minute(0)) / 60e6, each.records) for each in self.watch.fired]


def test_a_stay_is_met_at_its_length_by_what_began_it() -> None:
    story = Story("a van stands at the gate longer than 10 min")
    story.tell(1, "came in at the gate", "van", "v1")
    story.tell(2, "came in at the gate later", "van", "v2")
    story.tell(3, "came in on the left", "van", "v3")
    story.tell(4, "came in at the gate too", "car", "c1")
    story.tell(8, "left", "van", "v2", "left")
    assert story.fired(11.2) == []  # it may have left just before, and be told of late
    assert story.fired(30) == [(11, ("came in at the gate",))]


def test_who_left_in_time_but_is_told_of_late_has_not_stayed() -> None:
    story = Story("a van at the gate for 10 min")
    story.tell(1, "came in at the gate", "van", "v1")
    story.tell(10.95, "left", "van", "v1", "left", late_s=10)
    assert story.fired(30) == []
    story.tell(31, "came in at the gate", "van", "v2")
    story.tell(41.05, "left", "van", "v2", "left", late_s=10)
    assert [at for at, _ in story.fired(60)] == [41]


def test_who_stops_elsewhere_is_not_at_the_place_any_more() -> None:
    story = Story("a van at the gate for 10 min")
    story.tell(1, "came in at the gate", "van", "v1")
    story.tell(2, "has stopped on the left", "van", "v1", "stopped")
    story.tell(3, "has stopped at the gate", "van", "v1", "stopped")
    story.tell(4, "crossed the gate line", "van", "v1", "crossed")
    assert story.fired(30) == [(13, ("has stopped at the gate", "crossed the gate line"))]


def test_an_open_class_may_be_it() -> None:
    story = Story("a van at the gate for 10 min")
    story.tell(1, "came in at the gate", "vehicle", "v1")
    story.tell(2, "came in at the gate", "car", "v2")
    story.fired(30)
    assert [(each.object, each.maybe) for each in story.watch.fired] == [("vehicle", True)]


def test_after_an_outage_a_stay_is_met_by_the_next_sign_of_it() -> None:
    story = Story("a van at the gate for 10 min")
    story.tell(1, "came in at the gate", "van", "v1")
    story.watch.gap("gap", minute(15), minute(5), minute(15), "camera_down")
    assert story.fired(20) == []
    story.tell(21, "left", "van", "v1", "left")
    assert [at for at, _ in story.fired()] == [21]


def test_a_count_is_met_once_each_time_it_is_reached() -> None:
    story = Story("more than 2 people in the lot")
    for n in range(4):
        story.tell(n, f"p{n} in the lot", "person", f"p{n}")
    assert story.fired() == [(2, ("p0 in the lot", "p1 in the lot", "p2 in the lot"))]
    for n in range(2):
        story.tell(5, "left", "person", f"p{n}", "left")
    story.tell(6, "p4 in the lot", "person", "p4")
    assert [at for at, _ in story.fired(30)] == [2, 6]


def test_a_count_may_have_to_last() -> None:
    story = Story("at least 2 people in the lot for 5 minutes")
    for n, at in enumerate((0, 1, 8, 9)):
        story.tell(at, f"p{n} in the lot", "person", f"p{n}")
        if n == 1:
            story.tell(4, "left", "person", "p0", "left")
    assert [at for at, _ in story.fired(30)] == [13]


def test_absence_is_met_when_the_last_has_left_for_long_enough() -> None:
    story = Story("nobody at the desk for 15 min")
    story.tell(1, "came in at the desk", "person", "p1")
    story.tell(2, "came in at the desk", "person", "p2")
    story.tell(20, "left", "person", "p1", "left")
    story.tell(30, "went", "person", "p2", "left")
    story.tell(44, "came in on the left", "person", "p3")
    assert story.fired(44) == []
    assert story.fired(300) == [(45, ("went",))]  # once, until somebody comes again
    story.tell(301, "came in at the desk", "person", "p4")
    story.tell(302, "went again", "person", "p4", "left")
    assert [at for at, _ in story.fired(400)] == [45, 317]


def test_absence_is_not_met_where_nobody_looked() -> None:
    story = Story("nobody at the desk for 15 min")
    story.tell(1, "came in at the desk", "person", "p1")
    story.tell(2, "went", "person", "p1", "left")
    story.watch.gap("overloaded", minute(16), minute(10), minute(16), "overload")
    assert story.fired(30) == []
    assert story.fired(40) == [(31, ("overloaded",))]
    story.tell(41, "came in at the desk", "person", "p2")
    story.watch.gap("down", minute(60), minute(45), minute(60), "outage")
    assert len(story.fired(600)) == 1  # who was there before may still be there


def test_absence_within_hours_is_met_every_day() -> None:
    story = Story("nobody at the desk for 15 min between 9 and 17")  # noon is 14:00 there
    story.tell(1, "came in at the desk", "person", "p1")
    story.tell(170, "went", "person", "p1", "left")  # 16:50: closed before 15 min are over
    assert story.fired(24 * 60) == [(24 * 60 - 300 + 15, ("went",))]  # 9:15 of the next day
    assert [at for at, _ in story.fired(5 * 24 * 60)][-1] == 5 * 24 * 60 - 285
    assert len(story.watch.fired) == 5
    assert story.watch.fired[-1].records == ()  # nobody was told of for a day


def test_somebody_without_a_track_ends_an_absence() -> None:
    story = Story("nobody at the desk for 15 min")
    story.tell(14, "came in at the desk", "person", None)
    assert [at for at, _ in story.fired(60)] == [29]


def test_what_got_out_of_still_stands_there() -> None:
    story = Story("a person left the car and the car still stands there after 30 min")
    story.tell(0, "old car in the lot", "car", "c0")
    story.tell(5, "new car in the lot", "car", "c1")
    story.tell(6, "got out", "person", "p1", "got_out")
    story.tell(20, "left", "car", "c0", "left")
    assert story.fired(60) == [(36, ("got out", "new car in the lot"))]
    story.tell(61, "got out again", "person", "p2", "got_out")
    story.tell(62, "left", "car", "c1", "left")
    assert len(story.fired(200)) == 1


def test_what_somebody_got_out_of_is_known_where_the_record_names_it() -> None:
    story = Story("a person left the car and the car still stands there after 30 min")
    story.tell(0, "old car in the lot", "car", "c0")
    story.tell(5, "new car in the lot", "car", "c1")
    story.tell(6, "got out", "person", "p1", "got_out", other="c0")
    story.tell(7, "got out of a van", "person", "p2", "got_out", other="v1")
    story.tell(20, "left", "car", "c1", "left")
    assert story.fired(60) == [(36, ("got out", "old car in the lot"))]


def test_one_event_after_another_in_time() -> None:
    story = Story("a car comes to the lot and then a person comes to the gate within 5 min")
    story.tell(0, "car in the lot", "car", "c0")
    story.tell(6, "person at the gate", "person", "p1")
    story.tell(7, "second car in the lot", "car", "c1")
    story.tell(9, "second person at the gate", "person", "p2")
    story.tell(10, "third person at the gate", "person", "p3")
    assert story.fired(60) == [(9, ("second car in the lot", "second person at the gate"))]


def test_an_event_that_does_not_follow() -> None:
    story = Story("a bag is put down and no person comes within 5 min")
    story.tell(0, "bag one", "bag", "b1", "placed")
    story.tell(4, "person", "person", "p1")
    story.tell(10, "bag two", "bag", "b2", "placed")
    story.tell(20, "bag three", "bag", "b3", "placed")
    story.watch.gap("down", minute(30), minute(24), minute(30), "outage")
    assert story.fired(60) == [(15, ("bag two",))]


def test_a_crossing_has_a_direction() -> None:
    story = Story("a person crosses the gate line into the yard")
    story.tell(1, "has crossed the gate line to the street", "person", "p1", "crossed")
    story.tell(2, "has crossed the gate line into the yard", "person", "p1", "crossed")
    assert [at for at, _ in story.fired()] == [2]


def test_hours_bound_every_rule() -> None:
    story = Story("a person comes to the gate", between=(13 * 60, 14 * 60 + 30))
    for at in (-61, -1, 29, 31):
        story.tell(at, "came in at the gate", "person", f"p{at}")
    assert [at for at, _ in story.fired()] == [-1, 29]


def test_a_clock_that_was_set_back_forgets_who_was_there() -> None:
    story = Story("a van at the gate for 10 min")
    story.tell(100, "came in at the gate", "van", "v1")
    story.tell(1, "came in at the gate", "van", "v2")
    assert [at for at, _ in story.fired(200)] == [11]


def test_what_nobody_has_told_of_for_a_day_is_not_there() -> None:
    story = Story("more than 1 car in the lot")
    story.tell(0, "c1 in the lot", "car", "c1")
    story.tell(24 * 60 + 1, "c2 in the lot", "car", "c2")
    assert story.fired() == []


@pytest.mark.parametrize(
    ("when", "named"),
    [
        ("a van at the gaet for 10 min", "'gaet' is no place here; did you mean gate?"),
        ("a veichle at the gate", "'veichle' is not understood; did you mean vehicle?"),
        ("a person at the gate yesterday", "'yesterday' is one span"),
        ("how many people came", "is no rule"),
        ("a customer at the desk", "'customer' cannot be asked for"),
        ("a car in the lot for 2 days", "longer than 12 hours"),
        ("nobody is taken away", "who puts down or takes away is not told"),
        ("fewer than 0 people", "always or never"),
        ("nobody at the desk for 3 hours between 9 and 11", "can never be met"),
        ("a person on camera yrad", "'yrad' is no camera here; did you mean yard?"),
        ("more than people", "needs a number"),
        ('a person saying "hello"', "quoted words"),
        ("parked for 10 minutes", "does not say who or what is there"),
        ("nobody comes to the desk for 15 min", "leave the verb out"),
        ("", "is no rule"),
        ("a person and a dog at the gate", "'and' may mean both at once or either"),
        ("a person at the gate and in the lot", "'and' may mean both at once or either"),
        ("a person comes and then leaves within 5 min", "does not say who or what"),
        ("a person stands still at the gate", "go with an event before"),
        ("a car comes at night and then a car leaves at night within 5 min", "write them once"),
        ("a van at the gate for less than 10 minutes", "a longest length"),
        ("more than 5 people leave the lot", "leave the verb out"),
    ],
)
def test_a_rule_that_is_not_understood_names_the_word(when: str, named: str) -> None:
    with pytest.raises(SearchError, match=named.replace("?", r"\?")):
        read_rule("a rule", when, ASKER)


def test_times_are_kept_to_the_microsecond() -> None:
    firing = Firing(microseconds(NOON) + 1, (), "car", 0.9, maybe=False)
    assert moment_of(firing.at) - NOON == timedelta(microseconds=1)


def test_a_stay_goes_on_while_the_machine_is_too_slow() -> None:
    story = Story("a van at the gate for 10 min")
    story.tell(1, "came in at the gate", "van", "v1")
    story.watch.gap("gap", minute(12), minute(5), minute(12), "overload")
    assert [at for at, _ in story.fired(20)] == [11]


def test_absence_has_lasted_though_somebody_comes_before_it_is_looked_at() -> None:
    story = Story("nobody at the desk for 15 min")
    story.tell(0, "came in at the desk", "person", "p1")
    story.tell(1, "went", "person", "p1", "left")
    story.tell(16.05, "came in at the desk", "person", "p2")
    assert story.fired() == [(16, ("went",))]


def test_a_record_of_a_rule_moves_the_clock_on() -> None:
    """So that the past fires what fired live, before records that were decided later."""
    story = Story("a van at the gate for 10 min")
    story.tell(1, "came in at the gate", "van", "v1")
    story.watch.take(
        Fact("rule", minute(11.3), minute(11), "rule", None, "van", "", 0.9, 1, False, None, None, "Rule.")
    )
    assert [at for at, _ in story.fired()] == [11]


def test_a_rule_fires_once_within_its_cooldown() -> None:
    rule = read_rule("a rule", "a van comes", ASKER, cooldown_s=60)
    cooldown = Cooldown(rule)
    moments = [0, 0.5, 0.99, 1, 1.5, 3]
    firings = [Firing(minute(at), (), "van", 0.9, maybe=False) for at in moments]
    assert [cooldown.admits(each) for each in firings] == [True, False, False, True, False, True]
    cooldown.remember(minute(10))
    assert not cooldown.admits(Firing(minute(10.5), (), "van", 0.9, maybe=False))


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("a van at the gate for 10 min", 'Vans, at "gate", for longer than 10 minutes'),
        ("more than 5 people in the lot", 'At least 6 people, at "lot"'),
        ("fewer than 2 people at the desk for 5 min", 'Fewer than 2 people, at "desk", for 5 minutes'),
        ("no car on camera yard at night", "No cars, on camera yard, between 22:00 and 06:00 of every day"),
        (
            "a car parks and the car is still there after 5 min",
            "Cars that parked; 5 minutes later still there: Cars",
        ),
        (
            "a bag is put down and no person comes within 5 min",
            "Bags that were put down; within 5 minutes not: People who came",
        ),
    ],
)
def test_a_rule_is_restated(when: str, words: str) -> None:
    assert read_rule("a rule", when, ASKER).restated(LOCAL) == words
