"""The configuration file: strict, with units, and with errors that say where and what instead."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from daemon.config.durations import DURATION_PATTERN, RATE_PATTERN, format_duration, format_rate
from daemon.config.settings import CaptionerName, Configuration
from daemon.config.sizes import SIZE_PATTERN, format_size
from pipeline.record import RecordError, check_camera
from pipeline.yaml_lines import KeyPath, YamlError, YamlTree, read_yaml


class ConfigurationError(Exception):
    """The configuration cannot be used.

    Attributes:
        problems: one line each: file, line, key, what is wrong and what to write instead.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_configuration(path: Path) -> Configuration:
    """Read and check a configuration file; secrets stay unread.

    Raises:
        ConfigurationError: it cannot be read or used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError([f"{path}: cannot be read: {reason}"]) from None
    return parse_configuration(text, str(path))


def parse_configuration(text: str, name: str = "configuration") -> Configuration:
    """Check the text of a configuration; `name` stands in the messages.

    Raises:
        ConfigurationError: with one line per problem.
    """
    try:
        tree = read_yaml(text)
    except YamlError as error:
        raise ConfigurationError([error.within(name)]) from None
    if not isinstance(tree.values, dict):
        raise ConfigurationError([f"{name}: is empty: start from configs/narrated.yaml"])
    problems = [_problem(name, tree, ("cameras", camera), bad) for camera, bad in _bad_names(tree.values)]
    try:
        configuration = Configuration.model_validate(tree.values)
    except ValidationError as error:
        found = [
            _problem(name, tree, _written(tree, _key_path(e["loc"])), _message(e["type"], e["msg"], e["loc"]))
            for e in error.errors(include_url=False, include_input=False)
        ]
        problems += dict.fromkeys(found)  # a mistake under defaults shows at every camera: tell it once
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return configuration


def configuration_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the file, for editors, with defaults spelt as in the file."""
    schema = Configuration.model_json_schema()
    spellings = {DURATION_PATTERN: format_duration, RATE_PATTERN: format_rate, SIZE_PATTERN: format_size}
    for section in (schema, *schema["$defs"].values()):
        for key in section["properties"].values():
            if isinstance(key.get("default"), dict):
                del key["default"]  # a section's keys tell their own
            elif key.get("default") is not None:
                for kind in (key, *key.get("anyOf", ())):
                    if spelling := spellings.get(kind.get("pattern")):
                        key["default"] = spelling(key["default"])
    captioner = schema["properties"]["captioner"]
    short = {"enum": list(get_args(CaptionerName)), "description": "one that is shipped"}
    schema["properties"]["captioner"] = {"anyOf": [short, captioner]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "narrated.yaml"}


def _bad_names(values: dict[str, Any]) -> list[tuple[str, str]]:
    cameras = values.get("cameras")
    names = cameras if isinstance(cameras, dict) else {}
    problems = []
    for name in names:
        try:
            check_camera(name)
        except RecordError as error:
            problems.append((name, str(error)))
    return problems


def _key_path(loc: tuple[int | str, ...]) -> KeyPath:
    """The path without pydantic's name of a union's member (a threshold is "auto" or a number)."""
    for key in ("lower", "upper"):
        if key in loc[:-1]:
            return loc[: loc.index(key) + 1]
    return loc


def _written(tree: YamlTree, path: KeyPath) -> KeyPath:
    """Where a camera's value was really written: at the camera, or under the defaults."""
    if len(path) > 2 and path[0] == "cameras" and path not in tree.lines:  # noqa: PLR2004 - cameras.NAME.key
        inherited = ("defaults", *path[2:])
        return inherited if inherited in tree.lines else path
    return path


def _problem(name: str, tree: YamlTree, path: KeyPath, message: str) -> str:
    line = tree.line(path)
    key = ".".join(str(part) for part in path)
    return f"{name}:{line}: {key}: {message}" if key else f"{name}:{line}: {message}"


def _message(kind: str, message: str, loc: tuple[int | str, ...]) -> str:
    if kind == "missing":
        return "this key is missing"
    if kind == "extra_forbidden":
        known = sorted(_fields_at(loc[:-1]))
        near = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.5)
        return "unknown key; " + (f'did you mean "{near[0]}"?' if near else "known here: " + ", ".join(known))
    if {"lower", "upper"} & set(loc):
        return "write auto, or a number of grey levels 0..255"
    return message.removeprefix("Value error, ")


def _fields_at(loc: tuple[int | str, ...]) -> set[str]:
    """Names of the keys that are allowed at a place of the configuration."""
    model: Any = Configuration
    for part in loc:
        fields = getattr(model, "model_fields", None)
        if fields is None or part not in fields:
            continue  # the name of a camera
        annotation = fields[part].annotation
        model = next(
            (a for a in get_args(annotation) if isinstance(a, type) and issubclass(a, BaseModel)), annotation
        )
    return set(getattr(model, "model_fields", {}))
