"""The state of each camera, from the journals and the daemon's `/healthz`."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

from daemon.search.results import SearchResult

_EVERY_S = 5.0
_LIMIT_S = 2.0
_LARGEST = 2**20
_GOOD = {"streaming", "reading"}


@dataclass(frozen=True, slots=True)
class Tile:
    """One camera.

    Attributes:
        state: in words; empty where it is not known.
        level: good, bad, removed or unknown.
        last: its newest record with pictures, else its newest.
        live: address of its live picture; empty where none is configured.
    """

    name: str
    state: str
    level: str
    last: SearchResult | None
    live: str = ""


class Tiles:
    """All cameras.

    Args:
        configured: addresses of live pictures by the names in the configuration; None where there is none.
        health: address of the daemon's pages; None where they are not served.
    """

    def __init__(self, configured: Mapping[str, str | None] | None, health: tuple[str, int] | None) -> None:
        self._configured, self._health = configured, health
        self._read_at = float("-inf")
        self.states: Mapping[str, str] | None = None

    async def read(self, latest: Mapping[str, SearchResult]) -> list[Tile]:
        """All cameras by name, those that were removed from the configuration last."""
        if self._health and monotonic() - self._read_at >= _EVERY_S:
            self._read_at = monotonic()
            self.states = await asyncio.to_thread(_read_states, *self._health)
        tiles = [self._tile(name, latest.get(name)) for name in sorted({*latest, *(self._configured or ())})]
        return sorted(tiles, key=lambda tile: tile.level == "removed")

    def _tile(self, name: str, last: SearchResult | None) -> Tile:
        if self._configured is not None and name not in self._configured:
            return Tile(name, "removed from the configuration", "removed", last)
        live = (self._configured or {}).get(name) or ""
        if self.states is None:
            return Tile(name, "", "unknown", last, live)
        state = self.states.get(name, "not watched by the daemon that runs")
        return Tile(name, state, "good" if state in _GOOD else "bad", last, live)


def _read_states(host: str, port: int) -> Mapping[str, str] | None:
    """States of the daemon's cameras; None where it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/healthz"
    try:
        try:
            answer = opener.open(address, timeout=_LIMIT_S)
        except urllib.error.HTTPError as error:
            answer = error  # a thread hangs: the states are in the answer all the same
        with answer:
            states = json.loads(answer.read(_LARGEST))["cameras"]
            return {str(name): str(state) for name, state in states.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
