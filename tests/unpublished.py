"""Records of a journal that are not published yet, and publishing them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from threading import Event

from pipeline.journal import Journal
from pipeline.publisher import Delivery, Publisher
from pipeline.record import ChainEnd, Record, read_record


def drain(journal: Journal, publisher: Publisher, stop: Event) -> int:
    """Publish everything that is not acknowledged yet, and give up the lease."""
    delivery = Delivery(journal, publisher)
    published = delivery.drain(stop)
    if not stop.is_set():
        delivery.release()
    return published


def unpublished(journal: Journal) -> Iterator[tuple[Record, ChainEnd]]:
    """The records that are not acknowledged, each with the chain up to it, oldest first."""
    for number in count(1):
        lines, last = journal.backlog(number)
        if len(lines) < number:
            return
        yield read_record(lines[-1]), last
