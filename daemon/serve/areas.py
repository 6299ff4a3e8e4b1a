"""Zones and lines drawn on the page, written into the configuration file."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from threading import Lock

import yaml

from daemon.config.configuration import ConfigurationError, parse_configuration
from daemon.config.settings import Camera, Configuration
from daemon.config.values import Corners
from pipeline.disk import replacing
from pipeline.yaml_lines import YamlError, read_yaml

_POINTS = {"zones": "polygon", "lines": "points"}
"""Kinds that may be written, with their key: privacy areas and masks hide what happens."""

_writing = Lock()


class AreaError(ValueError):
    """The area cannot be written; the message says why, and the file is as before."""


def may_write(path: Path) -> bool:
    """True where this process may replace the file."""
    file = path.resolve()
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def areas_of(camera: Camera) -> list[tuple[str, Corners]]:
    """Names and points of all areas of a camera; a line is there and back."""
    named = chain(camera.masks.items(), camera.privacy.items(), ((z.name, z.polygon) for z in camera.zones))
    return [*named, *((line.name, (*line.points, *line.points[::-1])) for line in camera.lines)]


def write_area(path: Path | None, camera: str, form: Mapping[str, str]) -> Configuration:
    """Add a zone or a line to a camera, behind those that it has; all else stays to the byte.

    Args:
        path: of a configuration file; None where none may be written.
        camera: its name in the file.
        form: ``kind``, ``name`` and ``points``, such as ``0.1,0.5 0.4,0.5``.

    Returns:
        The new configuration.

    Raises:
        AreaError: it does not fit, or the file is one that cannot be edited so.
    """
    kind, name = form.get("kind", ""), form.get("name", "").strip()
    if path is None:
        raise AreaError("this page may not write the configuration file; copy the lines")
    if kind not in _POINTS:
        raise AreaError("only zones and lines are written here; copy the lines of anything else")
    try:
        points = [[float(share) for share in point.split(",")] for point in form.get("points", "").split()]
    except ValueError:
        raise AreaError("the points cannot be read: write 0.1,0.5 0.4,0.5") from None
    entry = f"{{name: {json.dumps(name, ensure_ascii=False)}, {_POINTS[kind]}: {json.dumps(points)}}}"
    try:
        with _writing:
            file = path.resolve()
            text = file.read_bytes().decode()
            before = parse_configuration(text, str(path))
            edited = _insert(text, camera, kind, entry)
            configuration = _check(path, camera, kind, before, edited)
            _replace(file, edited.encode())
            return configuration
    except OSError as error:
        raise AreaError(f"{path} cannot be written: {error.strerror}") from None
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise AreaError(str(error)) from None


def _insert(text: str, camera: str, kind: str, entry: str) -> str:
    """The text with an entry more under a camera's key, which is made where it is missing."""
    own = _child(_child(yaml.compose(text, yaml.SafeLoader), "cameras"), camera)
    entries = _child(own, kind)
    if isinstance(entries, yaml.SequenceNode):
        return _append(text, entries, entry if entries.flow_style else f"- {entry}")
    if not isinstance(own, yaml.MappingNode) or entries:
        raise AreaError(f"{camera} cannot be edited in the file; copy the lines")
    if own.flow_style:
        return _append(text, own, f"{kind}: [{entry}]")
    return _append(text, own, f"{kind}:\n{' ' * _column(own)}  - {entry}")


def _append(text: str, node: yaml.CollectionNode, entry: str) -> str:
    """The text with an entry behind the last one of a list or mapping."""
    if node.flow_style:
        at = node.end_mark.index - 1  # before its bracket
        return f"{text[:at]}{', ' if node.value else ''}{entry}{text[at:]}"
    line, _, after = text[_end(node) :].partition("\n")
    return f"{text[: _end(node)]}{line}\n{' ' * _column(node)}{entry}\n{after}"


def _column(node: yaml.CollectionNode) -> int:
    """Where the keys of a block mapping begin, or the dashes of a list; an anchor stands before both."""
    first = node.value[0][0] if isinstance(node, yaml.MappingNode) else node
    return int(first.start_mark.column)


def _end(node: yaml.Node) -> int:
    """Where the last value of a node ends; the end of a block is that of the comments behind it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return node.end_mark.index


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """The value of a key, None where there is no such key."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)


def _check(path: Path, camera: str, kind: str, before: Configuration, edited: str) -> Configuration:
    """The configuration of the edited file, which is valid, and says one thing more and nothing else.

    Raises:
        ConfigurationError, AreaError: it does not.
    """
    refusal = AreaError(f"{camera} cannot be edited in the file; copy the lines")
    try:
        read_yaml(edited)
    except YamlError:
        raise refusal from None
    configuration = parse_configuration(edited, str(path))
    wanted, found = before.model_dump(), configuration.model_dump()
    added = found["cameras"][camera][kind][-1:]
    wanted["cameras"][camera][kind] += added
    if wanted != found or not added:
        raise refusal
    return configuration


def _replace(file: Path, content: bytes) -> None:
    """Replace the file atomically; owner, group and mode stay.

    Raises:
        OSError: it cannot be written, or its owner cannot be kept.
    """
    was = file.stat()
    with replacing(file, durable=True, mode=0o600) as fresh:
        os.fchown(fresh.fileno(), was.st_uid, was.st_gid)
        os.fchmod(fresh.fileno(), stat.S_IMODE(was.st_mode))
        fresh.write(content)
