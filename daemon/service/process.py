"""The process: signals set flags, systemd is notified, the log has no secret, and freed memory goes back."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from time import monotonic, monotonic_ns
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from daemon.config.secrets import hide_secrets
from pipeline.redaction import redact
from pipeline.report.words import format_offset, moment_words

if TYPE_CHECKING:
    from pipeline.record import Record

SAME_REQUEST_S = 1.0
_STATUS_EVERY_S = 10.0
_LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}

HEAPS = 2  # shared by all threads; by default each has its own, and keeps what lies free in it
PICTURE_BYTES = 1_500_000
"""What is larger has pages of its own, which go back to the system at once. For layers of networks these
would cost a third of the time: ONNX Runtime keeps 40 MB instead. With 1 MB the sums of an L2 distance, made
three times a frame, had their own, and took five times as long."""

TOP_BYTES = 16_000_000  # a heap's free end stays until `trim`, and does not go at every frame
_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # of <malloc.h>


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


class HidingFormatter(logging.Formatter):
    """Formats a message on one line without secrets; systemd's `journal` reads the level from a prefix."""

    def __init__(self, *, journal: bool) -> None:
        super().__init__("%(message)s" if journal else "%(asctime)s %(levelname)s %(message)s")
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        line = redact(hide_secrets(super().format(record)))
        return f"<{_LEVELS.get(record.levelno, 5)}>{line}" if self._journal else line


def format_traceback(error: BaseException) -> str:
    """The traceback of an error, line by line without secrets: it shows the texts of all its causes."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(line[: len(line) - len(line.lstrip())] + redact(hide_secrets(line)) for line in lines)


def start_logging() -> None:
    output = logging.StreamHandler()
    output.setFormatter(HidingFormatter(journal="JOURNAL_STREAM" in os.environ))
    logging.basicConfig(level=logging.INFO, handlers=[output], force=True)
    logging.getLogger("numba").setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_crash
    threading.excepthook = lambda crash: _log_crash(crash.exc_type, crash.exc_value, crash.exc_traceback)


def _log_crash(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Log a crash, instead of Python's print, so that its secrets are hidden."""
    if error is not None and not issubclass(kind, SystemExit):
        logging.getLogger(__name__).critical("crashed", exc_info=(kind, error, trace))


def offset_line(record: Record, offset_s: float) -> str:
    """``00:01:23  A person has appeared on the left.  [front_door]``: where in the footage."""
    return f"{format_offset(offset_s)}  {record.text}  [{record.camera}]"


def time_line(time: str, text: str, camera: str) -> str:
    """``2026-05-01 12:00:03Z  A person has appeared on the left.  [front_door]``: when, in UTC."""
    moment = moment_words(datetime.fromisoformat(time), UTC, "%Y-%m-%d %H:%M:%SZ")
    return f"{moment}  {text}  [{camera}]"


def limit_arenas() -> None:
    """Have glibc keep little of what is freed, as a daemon frees pictures all the time.

    Call it before threads start; another C library is left as it is.
    """
    with suppress(AttributeError, OSError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_ARENA_MAX, HEAPS)
        set_option(_MMAP_THRESHOLD, PICTURE_BYTES)
        set_option(_TRIM_THRESHOLD, TOP_BYTES)


def trim() -> None:
    """Give whole pages that lie free between others back to the system: 12 to 20 MB in 1 to 2 ms."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
