"""The configuration file: strict, with units, and with errors that say where and what instead."""

from __future__ import annotations

import difflib
import logging
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from daemon.config.removed import drop_removed
from daemon.config.settings import Configuration
from pipeline.record import RecordError, check_camera
from pipeline.yaml_lines import KeyPath, YamlError, YamlTree, read_yaml

_EXPECTED = {
    "missing": "this key is missing",
    "model_type": "write keys and their values here, such as {{key: value}}",
    "dict_type": "write names and their values here, such as {{name: value}}",
    "tuple_type": "write a list: [.., ..]",
    "too_short": "give at least one",
    "string_type": "write text, in quotes if it looks like a number",
    "bool_type": "write true or false",
    "int_type": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "finite_number": "write a finite number",
    "path_type": "write a path",
    "greater_than": "write more than {gt:g}",
    "greater_than_equal": "write {ge:g} or more",
    "less_than_equal": "write {le:g} or less",
    "less_than": "write less than {lt:g}",
    "literal_error": "write {expected}",
}
"""What to write instead, by pydantic's kind of error."""
_SHARES = "write corners in shares of the picture, 0 to 1; `narrated snapshot --overlay` draws a ruler"
_A_CAMERA = "name at least one camera: {yard: {url: rtsp://...}}"

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
    problems = [_problem(name, tree, ("cameras", camera), bad) for camera, bad in _bad_names(tree.values)]
    try:
        configuration = Configuration.model_validate(tree.values)
    except ValidationError as error:
        found = [
            _problem(name, tree, _written(tree, _key_path(each["loc"])), expected(each))
            for each in error.errors(include_url=False)
        ]
        problems += dict.fromkeys(found)  # a mistake under defaults shows at every camera
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return configuration


def expected(error: ErrorDetails) -> str:
    """What to write in place of a value that pydantic refuses."""
    kind, loc = error["type"], error["loc"]
    if kind == "extra_forbidden":
        known = sorted(_fields_at(loc[:-1]))
        near = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.5)
        return "unknown key; " + (f'did you mean "{near[0]}"?' if near else "known here: " + ", ".join(known))
    special = (
        ({"lower", "upper"} & set(loc), "write auto, or a number of grey levels 0..255"),
        ({"polygon", "masks", "privacy"} & set(loc) and isinstance(loc[-1], int), _SHARES),
        (loc == ("cameras",) and kind in {"too_short", "missing"}, _A_CAMERA),
        (kind == "value_error", str(error.get("ctx", {}).get("error"))),
        (kind in _EXPECTED, _EXPECTED.get(kind, "").format(**error.get("ctx", {}))),
    )
    for applies, text in special:
        if applies:
            return text
    return f"cannot be used; it is: {_description(loc)}"


def configuration_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the file, for editors, with defaults spelt as in the file."""
    schema = Configuration.model_json_schema(mode="serialization")
    for section in (schema, *schema["$defs"].values()):
        for key in section["properties"].values():
            if isinstance(key.get("default"), dict):
                del key["default"]  # a section's keys have their own
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "narrated.yaml"}


def _bad_names(values: dict[str, Any]) -> list[tuple[str, str]]:
    cameras = values.get("cameras")
    problems = []
    for name in cameras if isinstance(cameras, dict) else {}:
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


def _model_at(loc: tuple[int | str, ...]) -> Any:
    """The model of the section at a place of the configuration."""
    model: Any = Configuration
    for part in loc:
        fields = getattr(model, "model_fields", None)
        if fields is None or part not in fields:
            continue  # the name of a camera
        annotation = fields[part].annotation
        model = next(
            (a for a in get_args(annotation) if isinstance(a, type) and issubclass(a, BaseModel)), annotation
        )
    return model


def _fields_at(loc: tuple[int | str, ...]) -> set[str]:
    return set(getattr(_model_at(loc), "model_fields", {}))


def _description(loc: tuple[int | str, ...]) -> str:
    """What is documented of the innermost key at a place."""
    for end in range(len(loc), 0, -1):
        field = getattr(_model_at(loc[: end - 1]), "model_fields", {}).get(loc[end - 1])
        if field is not None and field.description:
            return str(field.description)
    return "another kind of value"
