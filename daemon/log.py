"""The daemon's log: to stderr, with systemd's levels under systemd, and never with a secret."""

from __future__ import annotations

import logging
import os

from daemon.secrets import Secrets
from pipeline.sources import redacted

_LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class HidingFormatter(logging.Formatter):
    """Formats a message on one line, with its credentials and the known secrets replaced.

    Args:
        secrets: those that were put in so far.
        journal: True under systemd, which adds the time and reads the level from a prefix.
    """

    def __init__(self, secrets: Secrets, *, journal: bool) -> None:
        super().__init__("%(message)s" if journal else "%(asctime)s %(levelname)s %(message)s")
        self._secrets, self._journal = secrets, journal

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = redacted(self._secrets.hide(super().format(record)))
        return f"<{_LEVELS.get(record.levelno, 5)}>{line}" if self._journal else line


def start_logging(secrets: Secrets, *, verbose: bool = False) -> None:
    """Send everything from INFO (or DEBUG) on to stderr."""
    output = logging.StreamHandler()
    output.setFormatter(HidingFormatter(secrets, journal="JOURNAL_STREAM" in os.environ))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[output], force=True)
    logging.getLogger("numba").setLevel(logging.WARNING)
