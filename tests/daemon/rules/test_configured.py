"""Rules of a configuration: each camera's, by its own zones and lines."""

from __future__ import annotations

import pytest
from doc_pages import code_blocks, page, table

from daemon.config.configuration import ConfigurationError, parse_configuration
from daemon.rules.rule import configured_rules

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
