"""Signals only leave a note; the main loop reads it."""

from __future__ import annotations

import signal
import threading
from time import monotonic
from types import FrameType
from typing import Any, Self

SAME_REQUEST_S = 1.0


class Signals:
    """SIGTERM and SIGINT ask for the end, SIGHUP for the configuration to be read again, while this lasts.

    Before the daemon watches there is nothing to be saved, and loading may take half a minute: then the first
    SIGTERM ends it at once, as later a second one does. GNU `timeout` and process supervisors send the first
    one twice, to the process and to its group: what follows within a second is the same request.

    Attributes:
        stop: set by SIGTERM and SIGINT.
        reload: set by SIGHUP; the reader of the configuration clears it.
        stopped_at: monotonic seconds of the first request to end.
    """

    def __init__(self) -> None:
        self.stop, self.reload = threading.Event(), threading.Event()
        self.stopped_at: float | None = None
        self._watching = False
        self._kept: list[tuple[int, Any]] = []

    def __enter__(self) -> Self:
        self._kept = [
            (number, signal.signal(number, self._end)) for number in (signal.SIGTERM, signal.SIGINT)
        ]
        self._kept.append((signal.SIGHUP, signal.signal(signal.SIGHUP, lambda *_: self.reload.set())))
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._kept:
            signal.signal(number, before)

    def watching(self) -> None:
        """Note that there is something to be saved from now on."""
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
