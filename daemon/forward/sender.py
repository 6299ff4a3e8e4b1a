"""The thread of one target: sends what its queue holds in order; no other target waits for it."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection
from dataclasses import dataclass
from datetime import tzinfo
from time import monotonic

from daemon.config.secrets import SecretError, Secrets, hide_secrets
from daemon.config.settings import TargetSettings
from daemon.config.template import TemplateError
from daemon.forward.message import Filter, Message, find_picture
from daemon.forward.queue import Entry, Queue
from daemon.forward.target import TIMEOUT_S, DeliveryError, RefusedError, Target, target_class
from pipeline.evidence import EvidenceStore
from pipeline.loop import LIMIT_S, Heartbeats, Loop
from pipeline.publisher import ServerAwayError
from pipeline.redaction import redact

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0
ATTEMPTS = 5
"""Of a message that the target refuses; then it is a dead letter."""

_WARN_EVERY_S = 60.0
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Parts:
    """What all senders share; `zone` of the hours and local times, None is the machine's."""

    secrets: Secrets
    store: EvidenceStore
    cameras: Collection[str]
    zone: tzinfo | None
    heartbeats: Heartbeats


class Sender:
    """Sends one target its records, each until it is taken or a dead letter; backs off in between.

    Attributes:
        loop: the thread.
        failing: why nothing goes out now; empty while all is well.
    """

    def __init__(self, settings: TargetSettings, queue: Queue, parts: Parts) -> None:
        self._settings, self._queue, self._parts = settings, queue, parts
        self._filter = Filter(settings.filter, parts.zone)
        self._cameras = [name for name in parts.cameras if self._filter.has_camera(name)]
        self._target: Target | None = None
        self._refusals = 0  # of the entry at the head of the queue
        self.failing, self._backoff_s, self._warned_at = "", FIRST_BACKOFF_S, float("-inf")
        name, within_s = f"target {queue.target}", LIMIT_S + 3 * TIMEOUT_S
        self.loop = Loop(name, self._turn, heartbeats=parts.heartbeats, within_s=within_s, last=self._close)

    def _turn(self) -> None:
        try:
            entries = self._queue.read()
            if self._target is None:  # even where nothing waits: a broker is to know that we are there
                kind = target_class(self._settings)
                self._target = kind(self._settings, self._parts.secrets, self._queue.target, self._cameras)
            for entry in entries:
                if self.loop.stopped.is_set():
                    return
                self._send(self._target, entry)
                self.loop.beat()
            self._recover()
        except (DeliveryError, TemplateError, SecretError, ServerAwayError) as error:
            self._back_off(error)
        finally:
            self._queue.save()

    def _send(self, target: Target, entry: Entry) -> None:
        record = entry.record
        sentences = self._filter.select(record)
        if sentences is None and entry.retried:
            sentences = record.sentences  # it was asked for, though the filter has changed
        if sentences is not None and not record.continues:
            picture = find_picture(record, self._parts.store, self._settings.picture)
            message = Message(record, sentences, picture, self._parts.zone)
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
        """Warn once a minute, and wait: twice as long each time."""
        self._queue.read_again()
        self.failing = _reason(error)
        if monotonic() - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = monotonic()
            logger.warning("target %s: %s; trying again, nothing is lost", self._queue.target, self.failing)
        if not isinstance(error, RefusedError | TemplateError | ServerAwayError):
            self._close_target()  # opened again, it may have another password
        wait_s = self._backoff_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self._backoff_s = min(2 * self._backoff_s, LONGEST_BACKOFF_S)
        self.loop.beat(wait_s + LIMIT_S)
        self.loop.stopped.wait(wait_s)

    def _recover(self) -> None:
        if self.failing:
            logger.info("target %s: delivered again", self._queue.target)
        self.failing, self._backoff_s, self._warned_at = "", FIRST_BACKOFF_S, float("-inf")
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
