"""The thread of one target: sends the records in its queue in order; no other target waits for it."""

import logging
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from functools import partial
from time import monotonic

from daemon.config.secrets import SecretError, hide_secrets
from daemon.config.settings import Configuration, TargetSettings
from daemon.digest.digest import Digest, write_digest
from daemon.forward.queue import Entry, Queue
from daemon.forward.target import (
    TIMEOUT_S,
    AwayError,
    Filter,
    Message,
    RefusedError,
    Target,
    find_picture,
    target_class,
)
from daemon.questions.local_time import LocalTime
from daemon.questions.question import SearchError, Span
from daemon.search.search import Search
from pipeline.evidence import EvidenceStore
from pipeline.loop import LIMIT_S, Backoff, Heartbeats, Loop
from pipeline.publisher.connection import ServerAwayError
from pipeline.redaction import redact

logger = logging.getLogger(__name__)

present = partial(datetime.now, UTC)  # tests replace it

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0
ATTEMPTS = 5  # of a message that the target refuses; then it is a dead letter
DIGEST_RETRY_S = 300.0  # after which one that could not be written is tried again

_LONGEST_REASON = 300
_DIGEST_LIMIT_S = 600.0  # the first one may have to index all journals


class DigestHours:
    """The hours of one target, ``HH:MM`` of every day; each digest is of the time since the hour before."""

    def __init__(self, hours: Sequence[str], configuration: Configuration) -> None:
        self._clocks = [time.fromisoformat(hour) for hour in hours]
        self._local = LocalTime.named(configuration.timezone)
        self._journals = configuration.state / "journal"

    def last(self, moment: datetime) -> datetime:
        today = self._local.of(moment).date()
        days = (today - timedelta(days=n) for n in range(3))
        hours = (self._local.aware(datetime.combine(day, clock)) for day in days for clock in self._clocks)
        return max(hour for hour in hours if hour <= moment)

    def write(self, hour: datetime) -> Digest | None:
        """The digest up to an hour; None where the journals cannot be searched."""
        reason: Exception | None = None
        for _ in range(2):  # an index that proves to be damaged is built anew
            try:
                with Search(self._journals, self._local) as search, search.mending():
                    search.update()
                    return write_digest(search, Span(self.last(hour - timedelta.resolution), hour), hour)
            except (SearchError, sqlite3.Error) as error:
                reason = error
        logger.warning("no digest of %s: %s", f"{self._local.of(hour):%Y-%m-%d %H:%M}", reason)
        return None


class Sender:
    """Sends one target its records, each until it is accepted or becomes a dead letter; `loop` does so."""

    def __init__(
        self, settings: TargetSettings, queue: Queue, configuration: Configuration, heartbeats: Heartbeats
    ) -> None:
        self._settings, self._queue = settings, queue
        self._store = EvidenceStore(configuration.state / "evidence")
        self._filter = Filter(settings.filter, LocalTime.named(configuration.timezone).zone)
        self._cameras = [name for name in configuration.cameras if self._filter.has_camera(name)]
        self._target: Target | None = None
        self._refusals = 0  # of the entry at the head of the queue
        hours = getattr(settings, "digest", ())
        self._digests = DigestHours(hours, configuration) if hours else None
        self._digest_due = 0.0  # monotonic seconds
        if self._digests:  # the first one is of the next hour
            queue.digest = queue.digest or self._digests.last(present())
        name, within_s = f"target {queue.target}", LIMIT_S + 3 * TIMEOUT_S
        self.backoff = Backoff(name, FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
        self.loop = Loop(name, self._turn, heartbeats=heartbeats, within_s=within_s, last=self._close)

    def _turn(self) -> None:
        try:
            entries = self._queue.read()
            if self._target is None:  # even where nothing waits: a broker shows that we are online
                kind = target_class(self._settings)
                self._target = kind(self._settings, self._queue.target, self._cameras)
            if self._digests:
                self._send_digest(self._target, self._digests)
            for entry in entries:
                if self.loop.stopped.is_set():
                    return
                self._send(self._target, entry)
                self.loop.beat()
            self._recover()
        except (AwayError, RefusedError, SecretError, ServerAwayError) as error:
            self._back_off(error)
        finally:
            self._queue.save()

    def _send(self, target: Target, entry: Entry) -> None:
        record = entry.record
        sentences = self._filter.select(record)
        if sentences is not None:
            wanted = "none" if self._refusals else self._settings.picture  # it may be too large
            picture = find_picture(record, self._store, wanted)
            try:
                deliver = target.update if record.continues else target.send
                deliver(Message(record, sentences, picture))
            except RefusedError as error:
                self._refusals += 1
                if self._refusals < ATTEMPTS:
                    raise
                reason = _reason(error)
                self._queue.move_to_dead_letters(entry, reason)
                logger.warning(
                    "target %s: record %s is a dead letter (see narrated forward --dead): %s",
                    *(self._queue.target, record.id, reason),
                )
            self._recover()
        self._queue.settle(entry)

    def _send_digest(self, target: Target, hours: DigestHours) -> None:
        """Send the newest digest that was not sent; one that the target refuses is given up."""
        now = present()
        hour, sent = hours.last(now), self._queue.digest
        if sent and sent > now:  # the clock was set back
            self._queue.digest = hour
        if not sent or hour <= sent or monotonic() < self._digest_due:
            return
        self.loop.beat(_DIGEST_LIMIT_S)
        digest = hours.write(hour)
        if digest is None:  # there is no room for the index, say
            self._digest_due = monotonic() + DIGEST_RETRY_S
            return
        try:
            target.send_digest(digest)
        except RefusedError as error:
            logger.warning("target %s refused the digest: %s", self._queue.target, _reason(error))
        self._queue.digest = hour

    def _back_off(self, error: Exception) -> None:
        self._queue.read_again()
        if not isinstance(error, ServerAwayError):
            self._close_target()  # it is opened again, with what may be another password
        wait_s = self.backoff.next_s(_reason(error))
        self.loop.beat(wait_s + LIMIT_S)
        self.loop.stopped.wait(wait_s)

    def _recover(self) -> None:
        self.backoff.reset()
        self._refusals = 0

    def _close_target(self) -> None:
        if self._target is not None:
            self._target.close()
        self._target = None

    def _close(self) -> None:
        self._close_target()
        self._queue.server.close()


def _reason(error: Exception) -> str:
    return redact(hide_secrets(str(error)))[:_LONGEST_REASON]
