"""The configuration file: strict, with units, and with errors that say where and what instead."""

import difflib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from daemon.config.settings import Configuration
from models.language.catalogue import language
from pipeline.yaml_lines import KeyPath, YamlError, find_line, read_yaml

_IN_YAML = {
    "byte_size": "write a number and its unit, such as 500MB or 10GB",
    "byte_size_unit": "write a number and its unit, such as 500MB or 10GB",
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

_FIXED = "this key is gone and has no effect any more: delete it"
_CONSTANTS = {
    "redis": ("maxlen",),
    "signing": ("every",),
    "captioner": ("batch", "wait"),
    "CAMERA.rtsp": ("open_timeout", "stall_timeout", "clock_skew", "hardware"),
    "CAMERA.pairs": ("settle", "max_wait", "max_gap", "long_gap"),
    "CAMERA.narrate": ("max_sentences", "min_salience", "beam_size", "deadline"),
    "CAMERA.evidence": ("format", "quality"),
}
REMOVED = {
    **{f"{section}.{key}": _FIXED for section, keys in _CONSTANTS.items() for key in keys},
    "CAMERA.clusters": "what counts as a change is as the captioner was trained: delete this section",
    "CAMERA.narrate.merge": f"{_FIXED} (each event is a record of its own)",
}
"""Keys of 0.1.0, read once more, with what to do; CAMERA stands for `defaults` and each camera."""

_EMBEDDED = (
    "a server of its own is for `narrated demo` alone: install redis-server, write its URL; until then only "
    "the journal is written"
)

logger = logging.getLogger(__name__)


class ConfigurationError(Exception):
    """The configuration cannot be used; a problem is one line: file, line, key, and what to write instead."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_configuration(path: Path) -> Configuration:
    """Read and check a file, and speak its language; secrets stay unread; raises `ConfigurationError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError([f"{path}: cannot be read: {reason}"]) from None
    configuration = parse_configuration(text, str(path))
    language.use(configuration.language.read_bytes() if configuration.language else b"")
    return configuration


def parse_configuration(text: str, name: str = "configuration") -> Configuration:
    """Check the text of a configuration; `name` stands in the messages of a `ConfigurationError`."""
    try:
        values = read_yaml(text)
        if not isinstance(values, dict):
            raise ConfigurationError([f"{name}: is empty: start from configs/narrated.yaml"])
        for path, advice in _drop_removed(values):
            logger.warning("%s", _locate(name, text, path, advice))
        return Configuration.model_validate(values, context={"language": values.get("language")})
    except YamlError as error:
        raise ConfigurationError([error.within(name)]) from None
    except RecursionError:
        raise ConfigurationError([f"{name}: broken YAML: an alias contains itself"]) from None
    except ValidationError as error:
        problems = (
            _locate(name, text, each["loc"], _advise(each)) for each in error.errors(include_url=False)
        )
        # A mistake under defaults shows at every camera.
        raise ConfigurationError(list(dict.fromkeys(problems))) from None


def _advise(error: ErrorDetails) -> str:
    if error["type"] != "extra_forbidden":
        own = _IN_YAML.get(error["type"])
        return own.format(**error.get("ctx", {})) if own else error["msg"].removeprefix("Value error, ")
    *section, key = error["loc"]
    known = sorted(_keys_at(section))
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
    return "unknown key; " + (f'did you mean "{near[0]}"?' if near else "known here: " + ", ".join(known))


def _locate(name: str, text: str, path: KeyPath, message: str) -> str:
    """The message with the place in the file: a camera inherits from `defaults`."""
    if path[-1:] == ("[key]",):
        path = path[:-1]  # pydantic's way to say that the key itself is wrong
    line, exact = find_line(text, path)
    if not exact and path[:1] == ("cameras",):
        inherited = ("defaults", *path[2:])
        default_line, exact = find_line(text, inherited)
        if exact and path[2:]:
            path, line = inherited, default_line
    key = ".".join(map(str, path))
    return f"{name}:{line}: {key}: {message}" if key else f"{name}:{line}: {message}"


def _keys_at(path: Sequence[int | str]) -> set[str]:
    model: Any = Configuration
    for part in path:
        field = getattr(model, "model_fields", {}).get(part)
        if field is None:
            continue  # the name of a camera, or a place in a list
        sections = [kind for kind in get_args(field.annotation) if hasattr(kind, "model_fields")]
        model = sections[0] if sections else field.annotation
    return set(getattr(model, "model_fields", {}))


def _drop_removed(values: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Take removed keys out of a configuration's values; yields each with its advice."""
    redis, captioner = values.get("redis"), values.get("captioner")
    if isinstance(redis, dict) and redis.get("url") == "embedded":
        redis["url"] = None
        yield ("redis", "url"), _EMBEDDED
    if isinstance(captioner, dict) and "checkpoint" in captioner:
        captioner["model"] = captioner.pop("checkpoint") or captioner.get("model")
        yield ("captioner", "checkpoint"), "this key is gone: write its file as `model`"
    yield from _drop(values, ())


def _drop(values: dict[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for key, value in list(values.items()):
        here = (*path, key)
        if advice := REMOVED.get(_key_in_table(here)):
            del values[key]
            yield here, advice
        elif isinstance(value, dict):
            yield from _drop(value, here)


def _key_in_table(path: KeyPath) -> str:
    match path:
        case ("defaults", *rest) | ("cameras", _, *rest):
            path = ("CAMERA", *rest)
    return ".".join(map(str, path))
