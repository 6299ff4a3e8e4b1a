"""The cameras of the configuration file as it is now: their states, and areas that are written into it."""

import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from itertools import chain
from pathlib import Path
from threading import Lock
from time import monotonic

from daemon.config.configuration import ConfigurationError, parse_configuration
from daemon.config.settings import Camera, Configuration, Corners
from pipeline.disk import replacing
from pipeline.yaml_lines import find_line, read_yaml

_STATES_S, _STATES_LIMIT_S, _LARGEST = 5.0, 2.0, 2**20
_POINTS = {"zones": "polygon", "doors": "polygon", "lines": "points"}
"""Kinds of areas that may be written, with their key: privacy areas and masks hide what happens."""

_writing = Lock()


class AreaError(ValueError):
    """The area cannot be written; the message says why, and the file is as before."""


class Cameras:
    """What the file says now, or said while it was last right, and what the daemon says of its cameras.

    It begins with `configuration`, as a pipe can be read but once.

    Attributes:
        file: where areas may be written; else None.
    """

    def __init__(self, file: Path | None, configuration: Configuration | None) -> None:
        self._read, self._version = file, (0, 0)
        self._configured = configuration.cameras if configuration else None
        self._health = configuration.http.listen if configuration else None
        self._states: Mapping[str, str] | None = None
        self._states_at = float("-inf")
        paths = (file.resolve(), file.resolve().parent) if file else ()
        self.file = file if all(os.access(path, os.W_OK) for path in paths) else None

    def configured(self) -> Mapping[str, Camera] | None:
        """By name; None without a file."""
        if self._read:
            with suppress(OSError, UnicodeDecodeError, ConfigurationError):  # the daemon's log has the reason
                found = self._read.stat()
                if self._version != (version := (found.st_mtime_ns, found.st_ino)):
                    self._version = version
                    configuration = parse_configuration(self._read.read_text("utf-8"), str(self._read))
                    self._configured, self._health = configuration.cameras, configuration.http.listen
        return self._configured

    def states(self) -> Mapping[str, str] | None:
        """States by camera, some seconds old at most; None where the daemon does not answer."""
        if self._health and monotonic() - self._states_at >= _STATES_S:
            self._states_at = monotonic()
            self._states = _read_states(*self._health)
        return self._states


def _read_states(host: str, port: int) -> Mapping[str, str] | None:
    """The states of the daemon's `/healthz`; where a thread hangs, its 503 has them all the same."""
    try:
        with closing(HTTPConnection(host, port, timeout=_STATES_LIMIT_S)) as connection:
            connection.request("GET", "/healthz")
            states = json.loads(connection.getresponse().read(_LARGEST))["cameras"]
        return {str(name): str(state) for name, state in states.items()}
    except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError):
        return None


def areas_of(camera: Camera) -> list[tuple[str, Corners]]:
    """Names and points of all areas of a camera; a line is there and back."""
    zones, doors = (((each.name, each.polygon) for each in drawn) for drawn in (camera.zones, camera.doors))
    named = chain(camera.masks.items(), camera.privacy.items(), zones, doors)
    return [*named, *((line.name, (*line.points, *line.points[::-1])) for line in camera.lines)]


def write_area(path: Path | None, camera: str, form: Mapping[str, str]) -> None:
    """Add a zone, a door or a line to a camera, before those that it has; all else stays to the byte.

    The path is None where no file may be written. The form has ``kind``, ``name`` and ``points``, such as
    ``0.1,0.5 0.4,0.5``. Raises AreaError where it does not fit, or the file is one that cannot be edited so.
    """
    kind, name = form.get("kind", ""), form.get("name", "").strip()
    if path is None:
        raise AreaError("this page may not write the configuration file; copy the lines")
    if kind not in _POINTS:
        raise AreaError("only zones, doors and lines are written here; copy the lines of anything else")
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
            if camera in before.cameras and name in dict(areas_of(before.cameras[camera])):
                raise AreaError(f"{camera} already has an area called {name}: choose another name")
            edited = _insert(text, camera, kind, entry)
            wanted, found = before.model_dump(), parse_configuration(edited, str(path)).model_dump()
            added = found["cameras"][camera][kind][:1] if edited != text else ()
            if added:
                wanted["cameras"][camera][kind] = (*added, *wanted["cameras"][camera][kind])
            if not added or wanted != found:
                raise AreaError(f"{camera} cannot be edited in the file; copy the lines")
            was = file.stat()
            with replacing(file, durable=True, mode=0o600) as fresh:  # owner, group and mode stay
                os.fchown(fresh.fileno(), was.st_uid, was.st_gid)
                os.fchmod(fresh.fileno(), stat.S_IMODE(was.st_mode))
                fresh.write(edited.encode())
    except OSError as error:
        raise AreaError(f"{path} cannot be written: {error.strerror}") from None
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise AreaError(str(error)) from None


def _insert(text: str, camera: str, kind: str, entry: str) -> str:
    """Put an entry before a camera's first one, or its first key; as it was where neither begins a line."""
    own, lines = read_yaml(text)["cameras"].get(camera, {}), text.splitlines(keepends=True)
    entries, key = own.get(kind), next(iter(own), "")
    line, _ = find_line(text, ("cameras", camera, *((kind, 0) if entries else (key,))))
    at = re.match("( *)" + ("- " if entries else re.escape(f"{key}:")), lines[line - 1])
    if at is None or (kind in own and not entries):
        return text
    lines.insert(line - 1, f"{at[1]}- {entry}\n" if entries else f"{at[1]}{kind}:\n{at[1]}  - {entry}\n")
    return "".join(lines)
