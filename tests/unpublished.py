"""Records of a journal that are not published yet."""

from collections.abc import Iterator
from itertools import count

from pipeline.journal import Journal
from pipeline.record import ChainEnd, Record, read_record


def unpublished(journal: Journal) -> Iterator[tuple[Record, ChainEnd]]:
    """The records that are not acknowledged, each with the chain up to it, oldest first."""
    for number in count(1):
        lines, last = journal.backlog(number)
        if len(lines) < number:
            return
        yield read_record(lines[-1]), last
