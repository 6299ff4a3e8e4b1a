"""From the journal to the publisher, over every outage."""

from __future__ import annotations

import logging
import random
from itertools import islice
from threading import Event

from pipeline.journal import Journal, Position
from pipeline.publisher.publisher import Publisher, ServerAwayError
from pipeline.record import Record, parse_stream_id

_log = logging.getLogger(__name__)

_BATCH = 128
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0


def drain(journal: Journal, publisher: Publisher, stop: Event) -> int:
    """Publish everything in `journal` that is not acknowledged yet, in order, and acknowledge it.

    While the server is away this waits and tries again, after 0.1 s at first and 5 s at most (with jitter, so
    that many daemons do not return at once), until it succeeds or `stop` is set; nothing is skipped. What
    was published but not acknowledged, because of a crash, is found on the stream and not published twice.

    Args:
        journal: one camera's journal.
        publisher: where to.
        stop: ends the waiting and the publishing at the next batch.

    Returns:
        How many records were published and acknowledged by this call.

    Raises:
        StreamConflictError: another writer has written to the camera's stream.
        PublisherError: the server refuses for a reason that does not pass.
        JournalError: the journal cannot be read, or the position cannot be saved.
    """
    published, wait_s, caught_up = 0, _FIRST_WAIT_S, False
    while not stop.is_set():
        batch = list(islice(journal.pending(), _BATCH))
        if not batch:
            break
        try:
            if not caught_up:
                caught_up = True
                if _catch_up(journal, publisher):
                    continue
            publisher.publish_many([record for record, _ in batch])
        except ServerAwayError as error:
            _log.warning("camera %s: %s; trying again in %.1f s", journal.camera, error, wait_s)
            stop.wait(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            wait_s, caught_up = min(2 * wait_s, _LONGEST_WAIT_S), False
            continue
        journal.acknowledge(batch[-1][1])
        published += len(batch)
        wait_s = _FIRST_WAIT_S
    return published


def _catch_up(journal: Journal, publisher: Publisher) -> bool:
    """Acknowledge what an earlier call had published; True where there was something.

    Without this a record that the stream has already trimmed would look like another writer's.
    """
    newest = publisher.newest(journal.camera)
    position = newest and _position_of(newest, journal)
    if position:
        journal.acknowledge(position)
    return bool(position)


def _position_of(newest: Record, journal: Journal) -> Position | None:
    for record, position in journal.pending():
        if record.hash == newest.hash:
            return position
        if parse_stream_id(record.stream_id) > parse_stream_id(newest.stream_id):
            return None
    return None
