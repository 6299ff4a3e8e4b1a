"""The configuration file: strict, with units, and with errors that say where and what instead."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from daemon.config.removed import drop_removed
from daemon.config.settings import Configuration
from pipeline.yaml_lines import KeyPath, YamlError, YamlTree, read_yaml

_IN_YAML = {
    "model_type": "write keys and their values here: {{key: value}}",
    "dict_type": "write names and their values here: {{name: value}}",
    "tuple_type": "write a list: [.., ..]",
    "too_short": "name at least one",
    "missing": "this key is missing",
    "string_type": "write a text, in quotes if it looks like a number or a date",
    "path_type": "write a path, in quotes if it looks like a number or a date",
    "bool_type": "write true or false",
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing_size"), "write a whole number"),
    **dict.fromkeys(("float_type", "finite_number"), "write a number"),
    "literal_error": "write {expected}",
    "enum": "write {expected}",
    "string_pattern_mismatch": "write what matches {pattern}",
    "greater_than_equal": "write {ge} or more",
    "greater_than": "write more than {gt}",
    "less_than_equal": "write {le} or less",
}
"""Messages in place of pydantic's own, which speak of Python's types."""

logger = logging.getLogger(__name__)


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

    Keys of the version before are read with a warning in the log.

    Raises:
        ConfigurationError: with one line per problem.
    """
    try:
        tree = read_yaml(text)
    except YamlError as error:
        raise ConfigurationError([error.within(name)]) from None
    if not isinstance(tree.values, dict):
        raise ConfigurationError([f"{name}: is empty: start from configs/narrated.yaml"])
    for path, advice in drop_removed(tree.values):
        logger.warning("%s", _problem(name, tree, path, advice))
    try:
        return Configuration.model_validate(tree.values)
    except ValidationError as error:
        found = (
            _problem(name, tree, _place_in_file(tree, each["loc"]), _advice(each))
            for each in error.errors(include_url=False)
        )
        # A mistake under defaults shows at every camera.
        raise ConfigurationError(list(dict.fromkeys(found))) from None


def _advice(error: ErrorDetails) -> str:
    """Message for one error; suggests a similar key for an unknown one."""
    if error["type"] != "extra_forbidden":
        own = _IN_YAML.get(error["type"])
        return own.format(**error.get("ctx", {})) if own else error["msg"].removeprefix("Value error, ")
    *section, key = error["loc"]
    known = sorted(_keys_at(section))
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
    return "unknown key; " + (f'did you mean "{near[0]}"?' if near else "known here: " + ", ".join(known))


def configuration_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the file, for editors, with defaults spelt as in the file."""
    schema = Configuration.model_json_schema(mode="serialization")
    for section in (schema, *schema["$defs"].values()):
        for key in section["properties"].values():
            if isinstance(key.get("default"), dict):
                del key["default"]  # a section's keys have their own
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "narrated.yaml"}


def _place_in_file(tree: YamlTree, path: KeyPath) -> KeyPath:
    """Path of a value as the file has it: a camera inherits from `defaults`."""
    if path[-1:] == ("[key]",):
        path = path[:-1]  # pydantic's way to say that the key itself is wrong
    if path[:1] == ("cameras",) and path[2:] and path not in tree.lines:
        inherited = ("defaults", *path[2:])
        return inherited if inherited in tree.lines else path
    return path


def _problem(name: str, tree: YamlTree, path: KeyPath, message: str) -> str:
    key = ".".join(str(part) for part in path)
    return f"{name}:{tree.line(path)}: {key}: {message}" if key else f"{name}:{tree.line(path)}: {message}"


def _keys_at(path: Sequence[int | str]) -> set[str]:
    """Keys of the section at a path."""
    model: Any = Configuration
    for part in path:
        field = getattr(model, "model_fields", {}).get(part)
        if field is None:
            continue  # the name of a camera, or a place in a list
        sections = [kind for kind in get_args(field.annotation) if hasattr(kind, "model_fields")]
        model = sections[0] if sections else field.annotation
    return set(getattr(model, "model_fields", {}))
