"""Reading the files of released sets: every error names the file and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from train.samples import SampleError

_Value = TypeVar("_Value")

CAPTIONS = TypeAdapter(dict[str, list[str]])
"""Captions by the name of an image."""


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        there = sorted(p.name for p in path.parent.iterdir())[:8] if path.parent.is_dir() else []
        raise SampleError(
            f"{path} does not exist; beside it is {', '.join(there) or 'nothing'}: unpack the release whole"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SampleError(f"{path} cannot be read ({error}); fetch it again") from error


def read_json(path: Path, kind: TypeAdapter[_Value]) -> _Value:
    """The content of a JSON file."""
    try:
        return kind.validate_python(json.loads(read_text(path)))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or "its content"
        raise SampleError(f"{path}: {at}: {first['msg']}; fetch it again") from error
    except ValueError as error:
        raise SampleError(f"{path} is not valid JSON ({error}); fetch it again") from error


def rows_of(path: Path) -> list[tuple[str, str]]:
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        key, _, value = line.strip().partition(" ")
        if not value:
            raise SampleError(f"{path}, line {number}: expected a key and a value, found {line!r}")
        rows.append((key, value.strip()))
    return rows
