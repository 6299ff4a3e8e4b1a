"""Reading the files of released sets: every error names the file and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from train.samples import SampleError


def read_text(path: Path) -> str:
    """A text file.

    Raises:
        SampleError: it is missing or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        there = sorted(p.name for p in path.parent.iterdir())[:8] if path.parent.is_dir() else []
        raise SampleError(
            f"{path} does not exist; beside it is {', '.join(there) or 'nothing'}: unpack the release whole"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SampleError(f"{path} cannot be read ({error}); fetch it again") from error


def read_json(path: Path) -> object:
    """A JSON file.

    Raises:
        SampleError: it is missing or broken.
    """
    try:
        return json.loads(read_text(path))
    except ValueError as error:
        raise SampleError(f"{path} is not valid JSON ({error}); fetch it again") from error


def object_of(path: Path, content: object) -> Mapping[str, object]:
    """The content as an object.

    Raises:
        SampleError: it is something else.
    """
    if not isinstance(content, dict):
        raise SampleError(f"{path}: expected an object, found {type(content).__name__}; fetch it again")
    return content


def list_of(path: Path, content: Mapping[str, object], key: str) -> list[object]:
    """The list under a key.

    Raises:
        SampleError: there is none.
    """
    found = content.get(key)
    if not isinstance(found, list):
        raise SampleError(f"{path} has no list {key!r}; it has {', '.join(map(str, content)) or 'nothing'}")
    return found


def named_captions(path: Path) -> dict[str, tuple[str, ...]]:
    """Captions by image: an object of lists of texts, with those that have no word.

    Raises:
        SampleError: the file is missing or broken, or an entry is no list of texts.
    """
    content = object_of(path, read_json(path))
    found = {}
    for name in content:
        texts = list_of(path, content, name)
        if not all(isinstance(text, str) for text in texts):
            raise SampleError(f"{path}: {name} must have a list of texts; fetch it again")
        found[name] = tuple(" ".join(str(t).split()) for t in texts)
    return found


def rows_of(path: Path) -> list[tuple[str, str]]:
    """Lines of a key and a value with a space between, as CUB and NABirds have them.

    Raises:
        SampleError: the file is missing, or a line has no value.
    """
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        key, _, value = line.strip().partition(" ")
        if not value:
            raise SampleError(f"{path}, line {number}: expected a key and a value, found {line!r}")
        rows.append((key, value.strip()))
    return rows
