"""docs/record.md, the JSON Schema and what is written are one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from doc_pages import code_blocks, page, sections, table
from jsonschema import Draft202012Validator
from narrations import narration

from models.captioner import Sentence
from pipeline.narration.narration import RecordEvent
from pipeline.record import ChainEnd, Evidence, build_record, json_schema

SCHEMA = json_schema()
PARTS = {
    "The record's members": SCHEMA,
    "A sentence's members": SCHEMA["$defs"]["RecordSentence"],
    "A frame's members": SCHEMA["$defs"]["RecordFrame"],
    "The model's members": SCHEMA["$defs"]["RecordModel"],
    "A count's members": SCHEMA["$defs"]["RecordCount"],
    "The evidence's members": SCHEMA["$defs"]["Evidence"],
    "A return's members": SCHEMA["$defs"]["SameAs"],
    "A deletion's members": SCHEMA["$defs"]["Deletion"],
    "A rule's members": SCHEMA["$defs"]["RuleFired"],
}
RETIRED = {"counts"}  # only records of narrated/1 have it
FULL = Sentence(
    "Two cars have moved.",
    "moved",
    "car",
    (0.1, 0.2, 0.6, 0.3),
    0.9,
    0.8,
    count=2,
    before=(0.1, 0.2, 0.2, 0.3),
    after=(0.5, 0.2, 0.2, 0.3),
    outline_before=((0.1, 0.2), (0.3, 0.2), (0.2, 0.5)),
    outline_after=((0.5, 0.2), (0.7, 0.2), (0.6, 0.5)),
    moment_s=0.5,
    paths=(((0.2, 0.5), (0.6, 0.5)),),
    action="left",
    track="3f2a-7",
    since_s=-12.5,
    until_s=0.5,
    since_known=False,
    duration_s=13.0,
    same_as=("3f2a-2", 0.93),
    other="3f2a-4",
    english="Two cars have moved.",
)


def fullest() -> dict[str, Any]:
    """A record that has every member there is."""
    digest = "sha256:" + "1" * 64
    record = build_record(
        narration(
            sentences=(FULL,),
            event=RecordEvent.GAP,
            abstained="unsure",
            fallback="late",
            until=datetime(2024, 5, 1, 13, tzinfo=UTC),
            continues="front_door-1",
            covers=("front_door-2",),
            rate_hz=5.0,
            state_sha256="e" * 64,
            since=datetime(2024, 5, 1, 12, tzinfo=UTC),
            reason="overload",
            deletion={
                "reason": "age",
                "time": "2024-05-01T12:00:00.000000Z",
                "records": 3,
                "first_seq": 1,
                "last_seq": 3,
                "last_hash": "a" * 64,
            },
            rule={"name": "a van stands at the gate", "records": ("front_door-1",)},
        ),
        ChainEnd(),
        latency_ms={"batch": 1.5},
        evidence=Evidence(before=digest, after=digest, overlay=digest),
    )
    return json.loads(record.line()) | {"held": "hourly"}


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]) == {part["title"] for part in list(PARTS.values())[1:]}


def test_every_member_is_described() -> None:
    for part in PARTS.values():
        for name, member in part["properties"].items():
            assert member["description"], name


def test_every_member_is_written_and_every_written_one_is_in_the_schema() -> None:
    record = fullest()
    Draft202012Validator(SCHEMA).validate(record)
    written = {
        "The record's members": record,
        "A sentence's members": record["sentences"][0],
        "A frame's members": record["before"],
        "The model's members": record["model"],
        "The evidence's members": record["evidence"],
        "A return's members": record["sentences"][0]["same_as"],
        "A deletion's members": record["deletion"],
        "A rule's members": record["rule"],
    }
    for part, members in written.items():
        assert members.keys() == PARTS[part]["properties"].keys() - RETIRED, part


def test_what_says_nothing_is_absent_and_not_null() -> None:
    record = fullest()
    validator = Draft202012Validator(SCHEMA)
    for name in SCHEMA["properties"]:
        without = {key: value for key, value in record.items() if key != name}
        assert validator.is_valid(without) == (name not in SCHEMA["required"]), name
        assert not validator.is_valid({**record, name: None}), name
    nowhere = {**record["sentences"][0], "box": None}
    assert validator.is_valid({**record, "sentences": [nowhere]})
    assert not validator.is_valid({**record, "sentences": [{**nowhere, "count": None}]})


@pytest.mark.parametrize("part", PARTS)
def test_the_page_has_a_line_for_every_member_and_no_other(part: str) -> None:
    rows = table(sections(page("record.md"))[part])
    assert [row[0] for row in rows] == list(PARTS[part]["properties"])
    optional = {row[0] for row in rows if row[1] == "optional"}
    assert optional == PARTS[part]["properties"].keys() - set(PARTS[part].get("required", ()))


def test_the_page_names_every_value_that_there_is() -> None:
    told = sections(page("record.md"))
    for part, schema in PARTS.items():
        lines = {row[0]: row[2] for row in table(told[part])}
        for name, member in schema["properties"].items():
            for value in member.get("enum", []):
                assert f"`{value}`" in lines[name], (name, value)


def test_the_example_has_only_members_that_there_are() -> None:
    (example,) = (json.loads(block) for block in code_blocks(page("record.md"), "json"))
    assert set(SCHEMA["required"]) <= example.keys() <= SCHEMA["properties"].keys()
    sentence = PARTS["A sentence's members"]
    assert set(sentence["required"]) <= example["sentences"][0].keys() <= sentence["properties"].keys()
