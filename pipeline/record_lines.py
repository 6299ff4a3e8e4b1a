"""Records in their lines, read without the model, which takes a tenth of a second to load.

The model is asked where a line does not fit the JSON Schema that was made of it, `record.schema.json`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.record_format import CAMERA, SINCE, TIME, check_camera, check_since, check_time

if TYPE_CHECKING:
    from pipeline.record import Record

_Check = Callable[[Any], bool]

_CHECKS = {TIME: check_time, SINCE: check_since, CAMERA: check_camera}
"""Of the model, by pattern: what the schema cannot say."""


def read_record(line: bytes | str) -> Record:
    from pipeline import record  # noqa: PLC0415

    return record.read_record(line)


def read_members(line: str) -> dict[str, Any]:
    """The JSON members of the record in a line, those that say nothing left out; raises as `read_record`.

    Raises `RecordError`.
    """
    try:
        members = json.loads(line)
    except (ValueError, RecursionError):
        return read_record(line).members()
    is_plain = "\\u" not in line  # such an escape may be half a character
    return members if is_plain and fits(members) else read_record(line).members()


def fits(members: object) -> bool:
    """True where `members`, as read from JSON, are a record's: never where the model would refuse them."""
    return _record_check()(members)


@cache
def _record_check() -> _Check:
    schema = json.loads(Path(__file__).with_name("record.schema.json").read_bytes())
    return _compile(schema, schema["$defs"])


def _compile(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> _Check:
    """The check of a JSON Schema, as far as the record's goes; types are exact, as in the model."""
    if "$ref" in schema:
        return _compile(parts[schema["$ref"].removeprefix("#/$defs/")], parts)
    if "anyOf" in schema:
        either = [_compile(each, parts) for each in schema["anyOf"]]
        return lambda value: any(check(value) for check in either)
    return _COMPILERS[schema["type"]](schema, parts)


def _compile_object(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> _Check:
    if "patternProperties" in schema:
        [(pattern, values)] = schema["patternProperties"].items()
        matches, check = re.compile(pattern, re.ASCII).fullmatch, _compile(values, parts)
        return lambda value: type(value) is dict and all(matches(k) and check(v) for k, v in value.items())
    checks = {name: _compile(each, parts) for name, each in schema["properties"].items()}
    required = frozenset(schema.get("required", ()))
    return lambda value: (
        type(value) is dict
        and value.keys() >= required
        and all(name in checks and checks[name](each) for name, each in value.items())
    )


def _compile_array(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> _Check:
    least, most = schema.get("minItems", 0), schema.get("maxItems", sys.maxsize)
    check = _compile(schema.get("items") or schema["prefixItems"][0], parts)  # those of a tuple are alike
    return lambda value: type(value) is list and least <= len(value) <= most and all(map(check, value))


def _compile_number(schema: Mapping[str, Any], _: Mapping[str, Any]) -> _Check:
    kinds = (int,) if schema["type"] == "integer" else (int, float)
    above, most = schema.get("exclusiveMinimum", float("-inf")), schema["maximum"]
    least = schema.get("minimum", above)
    return lambda value: type(value) in kinds and least <= value <= most and value > above


def _compile_string(schema: Mapping[str, Any], _: Mapping[str, Any]) -> _Check:
    if "enum" in schema:
        return lambda value: value in schema["enum"]
    least, most = schema.get("minLength", 0), schema.get("maxLength", sys.maxsize)
    pattern = schema.get("pattern", "(?s:.*)")
    matches, check = re.compile(pattern, re.ASCII).fullmatch, _CHECKS.get(pattern)

    def check_string(value: Any) -> bool:
        if type(value) is not str or not least <= len(value) <= most or not matches(value):
            return False
        try:
            return check is None or bool(check(value))
        except ValueError:
            return False

    return check_string


_COMPILERS = {
    "object": _compile_object,
    "array": _compile_array,
    "number": _compile_number,
    "integer": _compile_number,
    "string": _compile_string,
    "null": lambda *_: lambda value: value is None,
}
