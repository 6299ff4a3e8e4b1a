"""The thread of one target: sends what its queue holds in order; no other target waits for it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import tzinfo

from daemon.config.secrets import SecretError, Secrets, hide_secrets
from daemon.config.settings import TargetSettings
from daemon.config.template import TemplateError
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
from pipeline.evidence import EvidenceStore
from pipeline.loop import LIMIT_S, Backoff, Heartbeats, Loop
from pipeline.publisher import ServerAwayError
from pipeline.redaction import redact

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0
ATTEMPTS = 5  # of a message that the target refuses; then it is a dead letter

_LONGEST_REASON = 300


class Sender:
    """Sends one target its records, each until it is taken or a dead letter; backs off in between.

    `zone` is that of hours and local times, None the machine's.

    Attributes:
        loop: the thread.
    """

    def __init__(
        self,
        settings: TargetSettings,
        queue: Queue,
        *,
        secrets: Secrets,
        store: EvidenceStore,
        cameras: Collection[str],
        zone: tzinfo | None,
        heartbeats: Heartbeats,
    ) -> None:
        self._settings, self._queue, self._secrets = settings, queue, secrets
        self._store, self._zone, self._filter = store, zone, Filter(settings.filter, zone)
        self._cameras = [name for name in cameras if self._filter.has_camera(name)]
        self._target: Target | None = None
        self._refusals = 0  # of the entry at the head of the queue
        name, within_s = f"target {queue.target}", LIMIT_S + 3 * TIMEOUT_S
        self._backoff = Backoff(name, FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
        self.loop = Loop(name, self._turn, heartbeats=heartbeats, within_s=within_s, last=self._close)

    @property
    def failing(self) -> str:
        """Why nothing goes out now; empty while all is well."""
        return self._backoff.reason

    def _turn(self) -> None:
        try:
            entries = self._queue.read()
            if self._target is None:  # even if nothing waits: it tells a broker that we are online
                kind = target_class(self._settings)
                self._target = kind(self._settings, self._secrets, self._queue.target, self._cameras)
            for entry in entries:
                if self.loop.stopped.is_set():
                    return
                self._send(self._target, entry)
                self.loop.beat()
            self._recover()
        except (AwayError, RefusedError, TemplateError, SecretError, ServerAwayError) as error:
            self._back_off(error)
        finally:
            self._queue.save()

    def _send(self, target: Target, entry: Entry) -> None:
        record = entry.record
        sentences = self._filter.select(record)
        if sentences is None and entry.retried:
            sentences = record.sentences  # it was asked for, though the filter has changed
        if sentences is not None and not record.continues:
            picture = find_picture(record, self._store, self._settings.picture)
            message = Message(record, sentences, picture, self._zone)
            try:
                target.send(message)
            except (RefusedError, TemplateError) as error:
                self._refusals += 1
                if self._refusals < ATTEMPTS:
                    raise
                reason = _reason(error)
                self._queue.bury(entry, reason)
                logger.warning(
                    "target %s: record %s is a dead letter (see narrated forward --dead): %s",
                    *(self._queue.target, record.id, reason),
                )
                self._refusals = 0
                return
            self._recover()
        self._queue.settle(entry)

    def _back_off(self, error: Exception) -> None:
        self._queue.read_again()
        if not isinstance(error, RefusedError | TemplateError | ServerAwayError):
            self._close_target()  # opened again, it may have another password
        wait_s = self._backoff.next_s(_reason(error))
        self.loop.beat(wait_s + LIMIT_S)
        self.loop.stopped.wait(wait_s)

    def _recover(self) -> None:
        self._backoff.reset()
        self._refusals = 0

    def _close_target(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            target.close()

    def _close(self) -> None:
        self._close_target()
        self._queue.close()


def _reason(error: Exception) -> str:
    return redact(hide_secrets(str(error)))[:_LONGEST_REASON]
