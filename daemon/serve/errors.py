"""What can go wrong with the page."""

from __future__ import annotations


class ServeError(Exception):
    """The page cannot be served; the message says what to do."""
