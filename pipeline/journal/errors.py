"""What goes wrong with journals."""

from __future__ import annotations

import errno


class JournalError(Exception):
    """A journal cannot be opened, read or written; the message says what to do. The file is still valid."""


PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Failures of a disk that an operator puts right while the daemon goes on: full, read-only, failing."""
