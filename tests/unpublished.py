"""Records of a journal: all, and those that are not published yet."""

from collections.abc import Iterator
from itertools import count

from pipeline.journal import Journal, read_camera
from pipeline.record import ChainEnd, Record, read_record


def unpublished(journal: Journal) -> Iterator[tuple[Record, ChainEnd]]:
    """The records that are not acknowledged, each with the chain up to it, oldest first."""
    for number in count(1):
        lines, last = journal.backlog(number)
        if len(lines) < number:
            return
        yield read_record(lines[-1]), last


def recorded(journal: Journal) -> list[Record]:
    """The records in the files of a journal, oldest first."""
    return list(read_camera(journal.folder, journal.camera))
