"""What rules mean, told of visits, gaps and clocks, and which a configuration has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from doc_pages import code_blocks, page, table

from daemon.config.configuration import ConfigurationError, parse_configuration
from daemon.questions.asker import Asker
from daemon.questions.facts import Fact
from daemon.questions.question import LocalTime, SearchError, microseconds
from daemon.rules.rule import configured_rules, read_rule
from daemon.rules.watch import Firing, Watch

NOON = datetime(2026, 5, 14, 12, tzinfo=UTC)
PLACES = ("gate", "desk", "lot", "gate line", "gate line into the yard", "gate line to the street")
LOCAL = LocalTime.named("Europe/Berlin")
ASKER = Asker(("yard",), frozenset(), LOCAL, PLACES.__contains__, lambda: list(PLACES))


def minute(number: float) -> int:
    return microseconds(NOON + timedelta(minutes=number))


STAY = "a van at the gate for 10 min"


def stories() -> list[tuple[str, str]]:
    """Rule and steps of each story."""
    text = Path(__file__).with_name("stories.txt").read_text(encoding="utf-8")
    blocks = ([line for line in block.splitlines() if line[:1] != "#"] for block in text.split("\n\n"))
    return [(when, ";".join(steps)) for when, *steps in filter(None, blocks)]


def fact(step: int, at: str, thing: str, track: str, action: str, *where: str) -> Fact:
    more = dict(word.split("=") for word in where if "=" in word)
    kinds = dict.fromkeys(("entered", "placed", "got_out"), "appeared") | {"left": "disappeared"}
    text = f"The {thing} {action} {' '.join(word for word in where if '=' not in word)}."
    happened = minute(float(at))
    time = happened + round(float(more.get("late", 1)) * 1_000_000)
    about = (kinds.get(action, "unknown"), action, thing, "", 0.9, 1, True)
    return Fact(
        step, time, "yard", happened, *about, more.get("other"), None if track == "-" else track, text
    )


def tell(watch: Watch, story: str) -> None:
    """Tell the steps of a story, and compare what fires."""
    for step, said in enumerate(story.split(";"), 1):
        told, _, expected = said.partition("=") if said.strip().startswith(("until", "=")) else (said, "", "")
        words = told.split()
        if words[:1] == ["gap"]:
            begin, end = (minute(float(word)) for word in words[1:3])
            watch.gap(step, end, begin, end, words[3])
        elif words[:1] == ["until"]:
            watch.advance(minute(float(words[1])))
        elif words:
            watch.take(fact(step, *words))
        if not words or words[0] == "until":
            ends = [((each.at - minute(0)) / 60e6, ",".join(map(str, each.records))) for each in watch.fired]
            assert [f"{at:g}({records})" for at, records in ends] == expected.split(), f"at {said!r}"


@pytest.mark.parametrize(("when", "story"), stories())
def test_a_rule_fires_when_it_is_met(when: str, story: str) -> None:
    watch = Watch(read_rule("a rule", when, ASKER), LOCAL)
    watch.begin(0, minute(0))
    tell(watch, story)


@pytest.mark.parametrize(
    ("when", "story", "met"),
    [
        (STAY, "1 vehicle v1 entered at the gate; 2 car v2 entered at the gate; until 30 = 11(1)", "vehicle"),
        ("at least 1 person for 10 min", "0 person a entered; 10.1 person a left; = 10(1)", "person"),
    ],
)
def test_an_open_class_may_be_it(when: str, story: str, met: str) -> None:
    watch = Watch(read_rule("a rule", when, ASKER), LOCAL)
    tell(watch, story)
    assert [(each.object, each.maybe) for each in watch.fired] == [(met, met == "vehicle")]


def test_a_record_of_a_rule_moves_the_clock_on() -> None:
    """So that the past fires what fired live, before records that were decided later."""
    watch = Watch(read_rule("a rule", STAY, ASKER), LOCAL)
    tell(watch, "1 van v1 entered at the gate")
    watch.take(fact(2, "11.3", "van", "-", "rule")._replace(kind="rule"))
    tell(watch, "= 11(1)")


@pytest.mark.parametrize(
    ("when", "named"),
    [
        ("a van at the gaet for 10 min", "'gaet' is no place here; did you mean gate?"),
        ("a veichle at the gate", "'veichle' is not understood; did you mean vehicle?"),
        ("a person at the gate yesterday", "'yesterday' is one span"),
        ("how many people came", "is no rule"),
        ("a bin lorry comes to the lot", "bin"),
        ("a postman at the desk", "'postman' cannot be asked for"),
        ("a car in the lot for 2 days", "longer than 12 hours"),
        ("nobody is taken away", "who puts down or takes away is not recorded"),
        ("fewer than 0 people", "'fewer' is not understood"),
        ("nobody at the desk for 3 hours between 9 and 11", "can never be met"),
        ("a person on camera yrad", "'yrad' is no camera here; did you mean yard?"),
        ("more than people", "'more' is not understood"),
        ("the most people at once in the lot", "a rule says what happens"),
        ("exactly 2 people in the lot", "exactly so many is no rule"),
        ("a van leaves without stopping", "what it is without"),
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


@pytest.mark.parametrize("between", [(0, 24 * 60), (8 * 60, 8 * 60)])
def test_hours_of_the_whole_day_are_no_hours(between: tuple[int, int]) -> None:
    rule = read_rule("a rule", "fewer than 2 people", ASKER, between=between)
    watch = Watch(rule, LOCAL)
    watch.begin(0, minute(0))
    tell(watch, "1 person a entered; 2 person b entered; 3 person a left; until 3000 = 0(0) 3(3)")
    assert "every day" not in rule.restate(LOCAL)


def test_a_rule_fires_once_within_its_cooldown() -> None:
    watch = Watch(read_rule("a rule", "a van comes", ASKER, cooldown_s=60), LOCAL)
    moments = [0, 0.5, 0.99, 1, 1.5, 3]
    firings = [Firing(minute(at), (), "van", 0.9, maybe=False) for at in moments]
    assert [watch.admits(each) for each in firings] == [True, False, False, True, False, True]


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("a van at the gate for 10 min", 'Vans, at "gate", for longer than 10 minutes'),
        ("more than 5 people in the lot", 'At least 6 people, at "lot"'),
        ("two vans in the lot", 'At least 2 vans, at "lot"'),
        ("fewer than 2 people at the desk for 5 min", 'Fewer than 2 people, at "desk", for 5 minutes'),
        ("no car on camera yard at night", "No cars, on camera yard, every day from 22:00 to 06:00"),
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
    assert read_rule("a rule", when, ASKER).restate(LOCAL) == words


CAMERAS = """
version: 1
timezone: Europe/Berlin
cameras:
  yard:
    url: rtsp://10.0.0.5/
    zones:
      - {name: at the gate, polygon: [[0, 0], [1, 0], [1, 1]]}
      - {name: at the yard gate, polygon: [[0, 0], [1, 0], [1, 1]]}
    doors: [{name: the gate, polygon: [[0, 0], [1, 0], [1, 1]], usually: open}]
    lines:
      - {name: the gate line, points: [[0, 0.5], [1, 0.5]]}
      - {name: the yard line, points: [[0, 0.5], [1, 0.5]]}
      - {name: kerb, points: [[0, 0.5], [1, 0.5]], directions: [into the yard, to the street]}
      - {name: lawn line, points: [[0, 0.5], [1, 0.5]], directions: [to the left lawn, to the right lawn]}
  desk: {url: rtsp://10.0.0.6/, zones: [{name: at the desk, polygon: [[0, 0], [1, 0], [1, 1]]}]}
rules:
"""


def rules(*lines: str) -> dict[str, list[str]]:
    configuration = parse_configuration(
        CAMERAS + "".join(f"  - {{name: r{n}, {each}}}\n" for n, each in enumerate(lines))
    )
    return {name: [rule.name for rule in each] for name, each in configured_rules(configuration).items()}


def test_rules_are_of_all_cameras_or_of_those_named() -> None:
    found = rules(
        "when: a person", "when: a person, cameras: desk", "when: a person on camera yard, cooldown: 5m"
    )
    assert found == {"yard": ["r0", "r2"], "desk": ["r0", "r1"]}


@pytest.mark.parametrize(
    "when",
    [
        "a person crosses the gate line from top to bottom",
        "a person crosses the gate line",
        "a person crosses the yard line from bottom to top",
        "a person crosses the yard line",
        "a van at the yard gate longer than 10 min",
        "somebody crosses the kerb into the yard",
        "a person crosses the lawn line to the left lawn",
        "a van stands at the gate longer than 10 min",
        "the gate closes",
    ],
)
def test_zones_and_lines_are_known(when: str) -> None:
    assert rules(f"when: {when}, cameras: yard") == {"yard": ["r0"], "desk": []}


def test_every_example_of_its_page_is_understood() -> None:
    text = page("rules.md")
    configuration, examples = "version: 1\n" + code_blocks(text, "yaml")[0], table(text)
    said = [each.strip() for _, row in examples for each in row.split(";")]
    areas = [f"      - {{name: {name}, polygon: [[0, 0], [1, 0], [1, 1]]}}\n"
             for name in ("in the lot", "at the entrance", "at the desk", "in the lobby")]  # fmt: skip
    configuration = configuration.replace("    zones:\n", "".join(["    zones:\n", *areas]))
    told = "".join(f"  - {{name: r{n}, when: {each}}}\n" for n, each in enumerate(said))
    found = configured_rules(parse_configuration(configuration + told))
    assert len(found["yard"]) == len(said) + 1 > 10


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("when: a van at the gaet", "rules: r0: 'gaet' is no place here; did you mean gate? places: gate,"),
        ("when: a van at the gate, cameras: desk", "rules: r0: 'gate' is no place here; places: desk"),
        (
            "when: a van, cameras: yrad",
            "rules: r0: 'yrad' is no camera here; did you mean yard? cameras: yard, desk",
        ),
        ("when: a van on camera yard, cameras: desk", "is about another camera than its cameras"),
        ('when: a van at night, hours: "22:00-06:00"', "write them once"),
        ("when: a van, cooldown: 1d", "the cooldown is longer than 12 hours"),
    ],
)
def test_a_mistake_names_the_rule_and_the_word(rule: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        rules("when: a person", rule)
    (problem,) = refused.value.problems
    assert reason.replace("r0", "r1") in problem
