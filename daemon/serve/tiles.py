"""The state of each camera, by the daemon's `/healthz`."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

from daemon.config.values import format_listen
from pipeline.report.card import Card

_EVERY_S = 5.0
_LIMIT_S = 2.0
_LARGEST = 2**20
GOOD = {"streaming", "reading"}
"""States of a camera that is watched."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One camera.

    Attributes:
        state: in words; empty where it is not known.
        level: good, bad, removed or unknown.
        card: its newest record with pictures, else its newest.
        live: address of its live picture; empty where none is configured.
    """

    name: str
    state: str
    level: str
    card: Card | None
    live: str = ""


class CameraStates:
    """What the daemon says of its cameras.

    Args:
        health: address of the daemon's pages; None where they are not served.
    """

    def __init__(self, health: tuple[str, int] | None) -> None:
        self._health, self._read_at = health, float("-inf")
        self._states: Mapping[str, str] | None = None

    async def read(self) -> Mapping[str, str] | None:
        """States by camera, some seconds old at most; None where the daemon does not answer."""
        if self._health and monotonic() - self._read_at >= _EVERY_S:
            self._read_at = monotonic()
            self._states = await asyncio.to_thread(_read_states, format_listen(self._health))
        return self._states


def _read_states(health: str) -> Mapping[str, str] | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        try:
            answer = opener.open(f"http://{health}/healthz", timeout=_LIMIT_S)
        except urllib.error.HTTPError as error:
            answer = error  # a thread hangs: the states are in the answer all the same
        with answer:
            states = json.loads(answer.read(_LARGEST))["cameras"]
            return {str(name): str(state) for name, state in states.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
