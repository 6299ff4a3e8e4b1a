"""One forwarder for each ledger."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daemon.forward.ledger import LedgerError


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder while the block lasts.

    Raises:
        LedgerError: another process holds it.
    """
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        handle = os.open(folder / "ledger.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise LedgerError(f"{folder}: {error.strerror or error}; may this user write there?") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LedgerError(f"another narrated forward works in {folder}: stop that one first") from None
        yield
    finally:
        os.close(handle)
