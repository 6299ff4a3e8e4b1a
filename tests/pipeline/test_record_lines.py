"""What is read without the record's model is what the model reads, and nothing else."""

import json
from collections.abc import Iterator
from copy import deepcopy
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrations import fullest

from pipeline.record import json_schema
from pipeline.record_format import RecordError
from pipeline.record_lines import fits, read_members, read_record

FULL = {**fullest(), "counts": [{"type": "appeared", "object": "car", "count": 2}]}
NEAR = [
    *(None, True, False, 0, 1, 2, -1, 0.0, 1.0, 0.5, -0.5, 1.0000001, 255, 255.5, 1000, 1001),
    *(2**53 - 1, 2**53, -(2**53), 1e300, 10**30, float("nan"), float("inf")),
    *(
        "",
        " ",
        "a" * 128,
        "a" * 129,
        "a\n",
        "1" * 64,
        "1" * 63,
        "sha256:" + "1" * 64,
        "A" * 64,
        "1-2",
        "0-0\n",
    ),
    *("2024-02-30T00:00:00.000000Z", "2024-02-29T00:00:00.000000Z", "before 2024-02-30T00:00:00.000000Z"),
    *("2024-05-01T24:00:00.000000Z", "2024-05-01T12:00:60.000000Z", "before 2024-02-29T00:00:00.000000Z"),
    *(
        "\u0662024-05-01T12:00:00.000000Z",
        "yard",
        "yard.000000000001",
        "yard.000000000001\n",
        ".yard",
        "x" * 65,
    ),
    *(
        "narrated/1",
        "narrated/3",
        "gap",
        "hourly",
        "moved",
        "left",
        "file",
        "overload",
        "mask",
        "é",
        "\U0001f697",
    ),
    *(
        [],
        {},
        [0, 0, 1, 1],
        [0, 0, 1, 1.5],
        [0.1],
        [[0, 0], [1, 1]],
        [[0, 0], [1, 1], [0, 1]],
        [[]],
        ["a"],
        [1],
    ),
    *({"batch": 1}, {"Batch": 1}, {"batch": -1}, {"batch": None}, {"before": None}),
]
VALUES = st.one_of(
    st.sampled_from(NEAR),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.floats(0, 1), max_size=5),
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths to all that is in `value`."""
    for key in (
        list(value) if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    ):
        yield (*path, key)
        yield from places(value[key], (*path, key))


PLACES = [*places(FULL)]


def reads(line: str) -> dict[str, Any] | None:
    """The members as the model reads them; None where it refuses."""
    try:
        return read_record(line).members()
    except RecordError:
        return None


def holds_null(members: Any) -> bool:
    """True where a member is null that would be absent from what is written."""
    if isinstance(members, dict):
        return any((v is None and k != "box") or holds_null(v) for k, v in members.items())
    return isinstance(members, list) and any(map(holds_null, members))


def check(line: str) -> dict[str, Any] | None:
    expected, members = reads(line), json.loads(line)
    assert fits(members) == (expected is not None and not holds_null(members)), line
    return expected


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    members = deepcopy(FULL)
    place: Any = members
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return members


def test_the_schema_beside_the_reader_is_that_of_the_model():
    stored = json.loads(files("pipeline").joinpath("record.schema.json").read_bytes())
    assert stored == json_schema(), "narrated tail --schema | jq -c . > pipeline/record.schema.json"
    assert fits(FULL)


def keywords(schema: Any) -> set[str]:
    """The words of JSON Schema that a schema says."""
    if not isinstance(schema, dict):
        return set[str]().union(*map(keywords, schema)) if isinstance(schema, list) else set()
    tuple_items = schema.get("prefixItems", [])
    assert all(each == tuple_items[0] for each in tuple_items), "the reader takes them to be alike"
    named = [
        each
        for word in ("properties", "$defs", "patternProperties")
        for each in schema.get(word, {}).values()
    ]
    return {
        *schema,
        *keywords([*named, *(schema[word] for word in schema if word in {"items", "anyOf", "prefixItems"})]),
    }


def test_the_reader_knows_every_word_that_the_schema_says():
    checked = {"$ref", "anyOf", "type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum"}
    checked |= {"exclusiveMinimum", "items", "prefixItems", "minItems", "maxItems", "properties", "required"}
    checked |= {"patternProperties", "additionalProperties", "$defs"}
    assert keywords(json_schema()) <= checked | {"$schema", "title", "description"}


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_every_damage_is_found_that_the_model_finds(path):
    """Every second of the values, the others at the place behind it."""
    for value in NEAR[PLACES.index(path) % 2 :: 2]:
        check(json.dumps(changed(path, value)))
    members = changed(path, "?")
    *way, last = path
    place: Any = members
    for key in way:
        place = place[key]
    del place[last]
    check(json.dumps(members))
    if isinstance(place, dict):
        place["?"] = 1
        check(json.dumps(members))


@settings(max_examples=250)
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
def test_any_damage_is_found_that_the_model_finds(changes):
    members = deepcopy(FULL)
    for path, value in changes:
        place: Any = members
        for key in path[:-1]:
            try:
                place = place[key]
            except (KeyError, IndexError, TypeError):
                break
        else:
            if isinstance(place, dict) or (
                isinstance(place, list) and isinstance(path[-1], int) and path[-1] < len(place)
            ):
                place[path[-1]] = value
    line = json.dumps(members)
    expected = check(line)
    try:
        assert read_members(line) == expected
    except RecordError:
        assert expected is None


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "null", "1", '"a"', "[" * 100_000, '{"a":1}', "\ufeff{}", "1" * 5000]
)
def test_what_is_no_object_is_refused(line):
    with pytest.raises(RecordError):
        read_members(line)


def test_half_a_character_is_refused_and_a_written_out_one_is_not():
    line = json.dumps(FULL | {"text": "a car \U0001f697 came"})
    assert r"\ud83d\ude97" in line
    assert read_members(line) == read_record(line).members()
    with pytest.raises(RecordError):
        read_members(line.replace(r"\ude97", ""))
