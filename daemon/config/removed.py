"""Keys of the version before: read once more, each with a warning that says what to do."""

from collections.abc import Iterator
from typing import Any

from pipeline.yaml_lines import KeyPath

_FIXED = "this key is gone and has no effect any more: delete it"
_MESSAGE = "templates are gone: delete it, or write `message: record` for the record as JSON"
_PROXY = (
    "this key is gone, the page speaks plain HTTP: put a reverse proxy with TLS before it, see docs/serve.md"
)
_CONSTANTS = {
    "redis": ("maxlen",),
    "signing": ("every",),
    "captioner": ("batch", "wait"),
    "serve": ("plain",),
    "forward": ("group",),
    "TARGET": ("queue", "expire", "longest_wait", "off_delay", "content_type", "timeout", "attempts"),
    "CAMERA.rtsp": ("open_timeout", "stall_timeout", "clock_skew", "hardware"),
    "CAMERA.pairs": ("settle", "max_wait", "max_gap", "long_gap"),
    "CAMERA.narrate": ("max_sentences", "min_salience", "beam_size", "deadline"),
    "CAMERA.evidence": ("format", "quality"),
}
REMOVED = {
    **{f"{section}.{key}": _FIXED for section, keys in _CONSTANTS.items() for key in keys},
    "serve.certificate": _PROXY,
    "serve.key": _PROXY,
    "serve.feedback": "this key is gone: move the file to feedback.sqlite3 in the page's own folder",
    "CAMERA.clusters": "what counts as a change is as the captioner was trained: delete this section",
    "CAMERA.narrate.merge": f"{_FIXED} (each event is a record of its own)",
    "forward.command": "programs are no targets any more: take a web hook, or narrated tail --json | PROGRAM",
    "TARGET.template": _MESSAGE,
    "TARGET.title": _MESSAGE,
}
"""Advice by key; CAMERA stands for `defaults` and each camera, TARGET for each target of `forward`."""

_EMBEDDED = (
    "a server of its own is for `narrated demo` alone: install redis-server, write its URL; until then only "
    "the journal is written"
)


def drop_removed(values: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Take removed keys out of a configuration's values; yields each with its advice."""
    redis, captioner, serve, forward = (
        section if isinstance(section := values.get(name), dict) else {}
        for name in ("redis", "captioner", "serve", "forward")
    )
    if redis.get("url") == "embedded":
        redis["url"] = None
        yield ("redis", "url"), _EMBEDDED
    if "checkpoint" in captioner:
        captioner["model"] = captioner.pop("checkpoint") or captioner.get("model")
        yield ("captioner", "checkpoint"), "this key is gone: write its file as `model`"
    for name, section in (("serve", serve), ("forward", forward)):
        if "timezone" in section:
            zone = section.pop("timezone")
            values["timezone"] = values.get("timezone") or zone
            yield (name, "timezone"), "this key is gone: write `timezone` at the top of the file, for both"
    hooks, targets = forward.pop("webhook", None), forward.get("apprise") or {}
    if isinstance(hooks, dict) and isinstance(targets, dict):
        for name, hook in hooks.items():
            kept = hook if isinstance(hook, dict) else {}
            targets[name] = {key: kept[key] for key in ("url", "filter", "picture") if key in kept}
            yield (
                ("forward", "webhook", name),
                f"web hooks go out as Apprise's JSON, unsigned: write apprise.{name}, see docs/forward.md",
            )
        forward["apprise"] = targets
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
        case ("forward", _, _, *rest):
            path = ("TARGET", *rest)
    return ".".join(map(str, path))
