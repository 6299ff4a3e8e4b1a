"""docs/record.md, the JSON Schema and what is written are one."""

import json

import pytest
from doc_pages import code_blocks, page, sections, table
from jsonschema import Draft202012Validator
from narrations import fullest

from pipeline.record import json_schema

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


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]) == {part["title"] for part in list(PARTS.values())[1:]}


def test_every_member_is_described():
    for part in PARTS.values():
        for name, member in part["properties"].items():
            assert member["description"], name


def test_every_member_is_written_and_every_written_one_is_in_the_schema():
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


def test_what_says_nothing_is_absent_and_not_null():
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
def test_the_page_has_a_line_for_every_member_and_no_other(part):
    rows = table(sections(page("record.md"))[part])
    assert [row[0] for row in rows] == list(PARTS[part]["properties"])
    optional = {row[0] for row in rows if row[1] == "optional"}
    assert optional == PARTS[part]["properties"].keys() - set(PARTS[part].get("required", ()))


def test_the_page_names_every_value_that_there_is():
    told = sections(page("record.md"))
    for part, schema in PARTS.items():
        lines = {row[0]: row[2] for row in table(told[part])}
        for name, member in schema["properties"].items():
            for value in member.get("enum", []):
                assert f"`{value}`" in lines[name], (name, value)


def test_the_example_has_only_members_that_there_are():
    (example,) = (json.loads(block) for block in code_blocks(page("record.md"), "json"))
    assert set(SCHEMA["required"]) <= example.keys() <= SCHEMA["properties"].keys()
    sentence = PARTS["A sentence's members"]
    assert set(sentence["required"]) <= example["sentences"][0].keys() <= sentence["properties"].keys()
