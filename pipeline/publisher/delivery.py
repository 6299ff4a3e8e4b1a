"""From the journal to the publisher, over every outage."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from time import monotonic

from redis.backoff import EqualJitterBackoff

from pipeline.journal import Journal
from pipeline.journal.segments import line_end
from pipeline.publisher.connection import PublisherError, ServerAwayError
from pipeline.publisher.publisher import Publisher, StreamConflictError, StreamMovedError, Writer
from pipeline.record import format_stream_id, parse_stream_id

_log = logging.getLogger(__name__)

_WARN_EVERY_S = 60.0
_DOUBLINGS = 60  # at most: beyond, the pauses no longer grow


class Backoff:
    """Growing pauses while a server is away, with a warning a minute, and when the reason changes.

    Args:
        first_s, longest_s: the pauses double from the first to the longest, and are jittered, so that many
            daemons do not return at once.

    Attributes:
        reason: why the server cannot be used now, without secrets; empty while it answers.
    """

    def __init__(self, first_s: float = 0.1, longest_s: float = 5.0) -> None:
        self.reason = ""
        self._pauses = EqualJitterBackoff(longest_s, first_s)
        self._failures = 0
        self._since = self._warned_at = 0.0

    def next_s(self, error: ServerAwayError) -> float:
        """The server did not answer; seconds after which it is asked again."""
        now = monotonic()
        if not self.reason:
            self._since = now
        new, self.reason = str(error) != self.reason, str(error)
        if new or now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            _log.warning("%s; trying again until it is back", error)
        self._failures = min(self._failures + 1, _DOUBLINGS)
        return self._pauses.compute(self._failures - 1)

    def reset(self) -> None:
        """The server has answered."""
        if self.reason:
            _log.warning("the server answers again after %.1f s", monotonic() - self._since)
        self.reason, self._failures = "", 0


class Delivery:
    """Publishes one open journal; for one thread.

    Args:
        journal: what is published.
        publisher: where to.
        batch: records in one transaction.
        beat: called whenever the server was asked, whatever it answered.
        backoff: of the server, shared by all that deliver to it.
    """

    def __init__(
        self,
        journal: Journal,
        publisher: Publisher,
        *,
        batch: int = 512,
        beat: Callable[[], None] = lambda: None,
        backoff: Backoff | None = None,
    ) -> None:
        self._journal, self._publisher, self._batch, self._beat = journal, publisher, batch, beat
        self._backoff = backoff or Backoff()
        self._writer = Writer(journal.camera, journal.writer)
        self._behind = format_stream_id(journal.published.stream_id)
        self._sent = journal.published.seq  # to the channel

    def drain(self, stop: Event, *, limit: int | None = None) -> int:
        """Publish what is not acknowledged yet, in order, and acknowledge it.

        Even where there is nothing, the server is asked once: that renews the lease, and finds a stream that
        was lost. While the server is away this waits and tries again until it succeeds or `stop` is set;
        nothing is skipped. What was published but not acknowledged, because of a crash or a lost answer, is
        found on the stream and not published twice; what the server has acknowledged and then lost (flushed,
        restarted without its file) is published again under the same ids, as far as the stream's length goes.

        Args:
            stop: ends the waiting and the publishing at the next batch.
            limit: records after which it is another camera's turn; None publishes all.

        Returns:
            How many records were acknowledged by this call: published, or found on the stream.

        Raises:
            StreamConflictError: another writer has written to the camera's stream.
            LeaseHeldError: another writer is writing to it.
            PublisherError: the server refuses for a reason that does not pass.
            JournalError: the journal cannot be read.
        """
        published, more = 0, True
        while more and not stop.is_set() and (limit is None or published < limit):
            try:
                acknowledged, more = self._deliver()
            except ServerAwayError as error:
                self._beat()
                stop.wait(self._backoff.next_s(error))
                continue
            except PublisherError:
                self._backoff.reset()  # it answers, if only to refuse
                raise
            self._beat()
            self._backoff.reset()
            published += acknowledged
        return published

    def release(self) -> None:
        """Give up the lease.

        Raises:
            PublisherError: it cannot be given up now; it runs out by itself.
        """
        self._publisher.release(self._writer)

    def _deliver(self) -> tuple[int, bool]:
        """Publish the next batch, or find the place in the journal where the stream ends.

        Returns:
            How many records were acknowledged, and whether there may be more to publish.
        """
        lines, last = self._journal.backlog(self._batch)
        first = line_end(lines[0]) if lines else None
        passed = first is not None and first.stream_id <= parse_stream_id(self._behind)
        quiet = max(0, self._sent - self._journal.published.seq)
        try:  # what the stream is ahead of is not added, but it may have been deleted: the server is asked
            self._publisher.publish(self._writer, [] if passed else lines, self._behind, quiet)
        except StreamMovedError as moved:
            return self._find(moved.last_id), True
        if passed:
            return self._find(self._behind), True
        if lines:
            self._behind, self._sent = format_stream_id(last.stream_id), max(self._sent, last.seq)
            self._journal.acknowledge(last)
        return len(lines), len(lines) == self._batch

    def _find(self, last_id: str) -> int:
        """Find the place in the journal where the stream ends now, and go on from there.

        Returns:
            How many records that were not acknowledged are on the stream.
        """
        journal, camera = self._journal, self._journal.camera
        before = journal.published
        place, record = journal.find(parse_stream_id(last_id))
        entry = self._publisher.entry(camera, record.stream_id) if record else None
        ours = record is not None and (
            entry.id == record.id if entry is not None else record.stream_id == last_id
        )
        if place.seq > before.seq and not ours:
            raise StreamConflictError(
                f"the stream of {camera} ends with {last_id}, which this journal did not write, and record "
                f"{before.seq + 1} is older: another writer uses the camera name {camera!r}, or older "
                "footage follows newer. Use another camera name, or delete the stream; the journal has "
                "everything"
            )
        lost = before.seq - place.seq
        if lost > self._publisher.maxlen:
            place = journal.end_at(before.seq - self._publisher.maxlen)
        if lost > 0:
            _log.warning(
                "camera %s: records that the server had taken and has lost (flushed, or restarted without "
                "its file): %d; published again: %d",
                *(camera, lost, before.seq - place.seq),
            )
        elif lost == 0 and record is not None and record.stream_id != last_id:
            _log.warning("camera %s: the stream ends with %s, which is not of this journal", camera, last_id)
        self._sent = max(self._sent, place.seq)
        self._behind = last_id
        if place != before:
            journal.acknowledge(place)
        return max(0, -lost)


def drain(journal: Journal, publisher: Publisher, stop: Event) -> int:
    """Publish everything in `journal` that is not acknowledged yet, once; see `Delivery.drain`."""
    delivery = Delivery(journal, publisher)
    published = delivery.drain(stop)
    if not stop.is_set():
        delivery.release()
    return published
