"""Signals set flags, which the main loop reads."""

from __future__ import annotations

import signal
import threading
from time import monotonic
from types import FrameType
from typing import Any, Self

SAME_REQUEST_S = 1.0


class Signals:
    """SIGTERM and SIGINT request a stop, SIGHUP a reload, while the context lasts.

    Before the daemon watches, the first SIGTERM ends it at once: there is nothing to save. Later a second one
    does. GNU `timeout` and process supervisors send the first one twice: one within a second is ignored.

    Attributes:
        stop: set by SIGTERM and SIGINT.
        reload: set by SIGHUP; the reader of the configuration clears it.
        stopped_at: monotonic seconds of the first request to end.
    """

    def __init__(self) -> None:
        self.stop, self.reload = threading.Event(), threading.Event()
        self.stopped_at: float | None = None
        self._watching = False
        self._previous: list[tuple[int, Any]] = []

    def __enter__(self) -> Self:
        self._previous = [
            (number, signal.signal(number, self._end)) for number in (signal.SIGTERM, signal.SIGINT)
        ]
        self._previous.append((signal.SIGHUP, signal.signal(signal.SIGHUP, lambda *_: self.reload.set())))
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._previous:
            signal.signal(number, before)

    def watching(self) -> None:
        """From now on, let the first signal only request the stop."""
        self._watching = True

    def _end(self, number: int, _: FrameType | None) -> None:
        if self.stopped_at is not None and monotonic() - self.stopped_at < SAME_REQUEST_S:
            return
        if self.stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.stopped_at = monotonic()
        self.stop.set()
        if not self._watching:
            raise SystemExit(0)
