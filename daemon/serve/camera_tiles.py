"""How each camera is, as far as the journals and the daemon's own pages tell."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from daemon.search.found import FoundRecord

_ASKED_EVERY_S = 5.0
_LIMIT_S = 2.0
_LARGEST = 2**20

UNKNOWN = "state not known"
_GOOD = {"streaming", "reading"}
_EVENTS = {"obstructed": "its view is blocked", "view_changed": "its view has changed"}


@dataclass(frozen=True, slots=True)
class CameraTile:
    """How a camera is.

    Attributes:
        name: of the camera.
        state: in words.
        level: good, bad, or unknown.
        note: what else is known, or empty.
        last: its newest record, None where there is none.
    """

    name: str
    state: str
    level: str
    note: str
    last: FoundRecord | None


class CameraTiles:
    """Asks the daemon's `/healthz` now and then.

    Args:
        configured: the cameras of the configuration; None where there is no configuration.
        health: address of the daemon's pages; None where they are not served.
    """

    def __init__(self, configured: Collection[str] | None, health: tuple[str, int] | None) -> None:
        self._configured = configured
        self._health = health
        self._asked = float("-inf")
        self._told: Mapping[str, str] | None = None

    @property
    def explanation(self) -> str:
        """Why no states are known; empty where they are."""
        if self._configured is None:
            return "What the cameras do now is not known here: only their journals are read."
        if self._health is None:
            return "What the cameras do now is not known: http.listen of the configuration is off."
        if self._told is None:
            return "What the cameras do now is not known: the daemon does not answer."
        return ""

    async def now(self, latest: Mapping[str, FoundRecord]) -> list[CameraTile]:
        """The states of all cameras, those of the configuration first, those that were removed last."""
        if self._health and monotonic() - self._asked >= _ASKED_EVERY_S:
            self._asked = monotonic()
            self._told = await asyncio.to_thread(_asked, *self._health)
        names = sorted({*latest, *(self._configured or ())})
        states = [self._state(name, latest.get(name)) for name in names]
        return sorted(states, key=lambda state: state.level == "removed")

    def _state(self, name: str, last: FoundRecord | None) -> CameraTile:
        note = _note(last)
        if self._configured is not None and name not in self._configured:
            return CameraTile(name, "removed from the configuration", "removed", "", last)
        if self._told is None:
            return CameraTile(name, UNKNOWN, "unknown", note, last)
        state = self._told.get(name, "not watched by the daemon that runs")
        return CameraTile(name, state, "good" if state in _GOOD else "bad", note, last)


def _note(last: FoundRecord | None) -> str:
    """What the newest record says of the camera itself."""
    if last is None:
        return "nothing narrated yet"
    record = last.record
    if (
        record.event == "cap_reached"
        and record.until
        and datetime.fromisoformat(record.until) > datetime.now(UTC)
    ):
        return "silent: its hourly limit is reached"
    return _EVENTS.get(record.event, "")


def _asked(host: str, port: int) -> Mapping[str, str] | None:
    """The states of the daemon's cameras, None where it does not answer."""
    shown = f"[{host}]" if ":" in host else host
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        try:
            answer = opener.open(f"http://{shown}:{port}/healthz", timeout=_LIMIT_S)
        except urllib.error.HTTPError as error:
            answer = error  # something hangs: the states are told all the same
        with answer:
            told = json.loads(answer.read(_LARGEST))
    except (OSError, ValueError):
        return None
    states = told.get("cameras") if isinstance(told, dict) else None
    return {str(k): str(v) for k, v in states.items()} if isinstance(states, dict) else None
