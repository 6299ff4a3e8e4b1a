"""The process as its manager sees it: signals set flags, systemd is notified."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from time import monotonic, monotonic_ns
from types import FrameType
from typing import Any, Self

SAME_REQUEST_S = 1.0
_STATUS_EVERY_S = 10.0


class Signals:
    """SIGTERM and SIGINT set `stop`, SIGHUP sets `reload` (for its reader to clear), while the context lasts.

    Who never `reloads` leaves SIGHUP alone: a terminal that closes ends the process. A second SIGTERM ends it
    at once, unless it comes within a second: GNU `timeout` and process supervisors send the first one twice.
    """

    def __init__(self, *, reloads: bool = True) -> None:
        self._reloads = reloads
        self.stop, self.reload = threading.Event(), threading.Event()
        self.stopped_at: float | None = None
        self._previous: list[tuple[int, Any]] = []

    def __enter__(self) -> Self:
        self._previous = [
            (number, signal.signal(number, self._end)) for number in (signal.SIGTERM, signal.SIGINT)
        ]
        if self._reloads:
            self._previous.append((signal.SIGHUP, signal.signal(signal.SIGHUP, lambda *_: self.reload.set())))
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._previous:
            signal.signal(number, before)

    def _end(self, number: int, _: FrameType | None) -> None:
        if self.stopped_at is not None and monotonic() - self.stopped_at < SAME_REQUEST_S:
            return
        if self.stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.stopped_at = monotonic()
        self.stop.set()


class ServiceWatch:
    """Speaks the protocol of sd_notify; silent where no service manager listens."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        # A manager that reads no more must not hold up the daemon.
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_UNIX, kind) if address else None
        watchdog_us = os.environ.get("WATCHDOG_USEC", "")
        self._every_s = int(watchdog_us) / 3e6 if watchdog_us.isdigit() else None
        self._fed_at = self._status_at = float("-inf")
        self._unsent = ""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def ready(self, status: str) -> None:
        self._notify(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        self._notify(f"RELOADING=1\nMONOTONIC_USEC={monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._notify("STOPPING=1\nSTATUS=publishing the rest")

    def progress(self, status: str, *, healthy: bool) -> None:
        """Called at every turn of the main loop; the watchdog is fed only while everything moves."""
        now = monotonic()
        if healthy and self._every_s is not None and now - self._fed_at >= self._every_s:
            self._notify("WATCHDOG=1")
            self._fed_at = now
        if now - self._status_at >= _STATUS_EVERY_S:
            self._notify(f"STATUS={status}")
            self._status_at = now

    def _notify(self, message: str) -> None:
        if self._socket is None:
            return
        message, self._unsent = self._unsent + message, ""
        try:
            self._socket.sendto(message.encode(), self._address)
        except BlockingIOError:  # the manager is busy: the next message says what it must know
            self._unsent = "READY=1\n" if "READY=1" in message else ""
        except OSError:
            pass  # it is restarting: the next message will reach it


@contextmanager
def running_as_service(status: str) -> Iterator[tuple[threading.Event, ServiceWatch]]:
    """A service that is ready now and runs until SIGTERM or SIGINT, which set the event."""
    with Signals() as signals, closing(ServiceWatch()) as watch:
        watch.ready(status)
        try:
            yield signals.stop, watch
        finally:
            watch.stopping()
