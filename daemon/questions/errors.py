"""What can go wrong with a question."""

from __future__ import annotations


class SearchError(Exception):
    """A question cannot be answered; the message says what to write, or to give, instead."""


class NoJournalsError(SearchError):
    """There is nothing that could be asked."""
