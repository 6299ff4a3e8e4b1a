"""Keys of 0.1.0: read once more, each with a warning that says what to do."""

from collections.abc import Iterator
from typing import Any

from pipeline.yaml_lines import KeyPath

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
"""Advice by key; CAMERA stands for `defaults` and each camera."""

_EMBEDDED = (
    "a server of its own is for `narrated demo` alone: install redis-server, write its URL; until then only "
    "the journal is written"
)


def drop_removed(values: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
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
