"""The daemon's log, to stderr, with systemd's levels and never with a secret; and records as its lines."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING

from daemon.config.secrets import hide_secrets
from pipeline.redaction import redact
from pipeline.report.words import format_offset, moment_words

if TYPE_CHECKING:
    from pipeline.record import Record

_LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


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
