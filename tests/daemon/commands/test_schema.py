"""What `narrated tail --schema` promises holds for what a replay writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

Run = Callable[..., Any]


def undescribed(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "") -> Iterator[str]:
    """Members of a value that the schema says nothing of."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, dict) and "properties" in schema:
        for name, part in value.items():
            member = schema["properties"].get(name, {})
            if not member.get("description"):
                yield f"{path}.{name}"
            yield from undescribed(part, member, root, f"{path}.{name}")
    elif isinstance(value, list):
        for part in value:
            yield from undescribed(part, schema.get("items", {}), root, f"{path}[]")


def test_records_of_a_replay_are_as_the_schema_says(
    narrated: Run, clip: Path, checkpoint: Path, tmp_path: Path
) -> None:
    schema = json.loads(narrated("tail", "--schema").out)
    config = tmp_path / "n.yaml"
    config.write_text("version: 1\ncameras: {room: {url: x, narrate: {max_per_hour: 1, cooldown: 0s}}}\n")
    done = narrated(
        *("replay", clip, "-c", config, "--camera", "room", "--limits", "--evidence"),
        *("--out", tmp_path / "out", "--captioner-file", checkpoint),
    )
    assert done.code == 0, done.err
    records = [json.loads(line) for line in (tmp_path / "out" / "narrations.jsonl").read_bytes().splitlines()]
    assert [record["event"] for record in records] == ["change", "change"]
    assert "evidence" in records[0]
    for record in records:
        Draft202012Validator(schema).validate(record)
        assert not list(undescribed(record, schema, schema))
    assert list(undescribed(records[0] | {"host": "x"}, schema, schema)) == [".host"]
