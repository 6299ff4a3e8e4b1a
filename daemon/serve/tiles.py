"""The state of each camera, from the journals and the daemon's `/healthz`."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from daemon.search.found import FoundRecord

_EVERY_S = 5.0
_LIMIT_S = 2.0
_LARGEST = 2**20
_GOOD = {"streaming", "reading"}
_NOTES = {"obstructed": "its view is blocked", "view_changed": "its view has changed"}


@dataclass(frozen=True, slots=True)
class Tile:
    """One camera.

    Attributes:
        state: in words.
        note: what the newest record says of the camera itself, or empty.
        last: its newest record with pictures, else its newest.
    """

    name: str
    state: str
    level: Literal["good", "bad", "removed", "unknown"]
    note: str
    last: FoundRecord | None


class Tiles:
    """All cameras.

    Args:
        configured: names in the configuration; None where there is none.
        health: address of the daemon's pages; None where they are not served.
    """

    def __init__(self, configured: Collection[str] | None, health: tuple[str, int] | None) -> None:
        self._configured, self._health = configured, health
        self._asked = float("-inf")
        self._states: Mapping[str, str] | None = None

    @property
    def explanation(self) -> str:
        """Why no states are known; empty where they are."""
        if self._states is not None:
            return ""
        why = "the daemon does not answer" if self._health else "http.listen of the configuration is off"
        why = "only their journals are read" if self._configured is None else why
        return f"What the cameras do now is not known: {why}."

    async def read(self, latest: Mapping[str, FoundRecord]) -> list[Tile]:
        """All cameras by name, those that were removed from the configuration last."""
        if self._health and monotonic() - self._asked >= _EVERY_S:
            self._asked = monotonic()
            self._states = await asyncio.to_thread(_read_states, *self._health)
        tiles = [self._tile(name, latest.get(name)) for name in sorted({*latest, *(self._configured or ())})]
        return sorted(tiles, key=lambda tile: tile.level == "removed")

    def _tile(self, name: str, last: FoundRecord | None) -> Tile:
        note = _NOTES.get(last.record.event, "") if last else "nothing narrated yet"
        if self._configured is not None and name not in self._configured:
            return Tile(name, "removed from the configuration", "removed", "", last)
        if self._states is None:
            return Tile(name, "state not known", "unknown", note, last)
        state = self._states.get(name, "not watched by the daemon that runs")
        return Tile(name, state, "good" if state in _GOOD else "bad", note, last)


def _read_states(host: str, port: int) -> Mapping[str, str] | None:
    """States of the daemon's cameras; None where it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/healthz"
    try:
        try:
            answer = opener.open(address, timeout=_LIMIT_S)
        except urllib.error.HTTPError as error:
            answer = error  # something hangs: the states are there all the same
        with answer:
            states = json.loads(answer.read(_LARGEST))["cameras"]
            return {str(name): str(state) for name, state in states.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
