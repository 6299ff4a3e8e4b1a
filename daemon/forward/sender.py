"""The thread of one target: sends what its queue holds in order; no other target waits for it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from time import monotonic

from daemon.config.forward import TargetSettings
from daemon.config.secrets import SecretError, hidden
from daemon.config.template import TemplateError
from daemon.forward.filter import Filter
from daemon.forward.message import Message, find_picture
from daemon.forward.queue import Entry, Queue
from daemon.forward.target import AwayError, DeliveryError, RefusedError, Target
from daemon.threads.pulse import Pulses
from pipeline.evidence import EvidenceStore
from pipeline.loop import LIMIT_S, Loop
from pipeline.publisher import ServerAwayError
from pipeline.redaction import redacted

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0
LONGEST_RETRY_AFTER_S = 3600.0
"""Longest pause that a target may ask for."""

_WARN_EVERY_S = 60.0
_LONGEST_REASON = 300


class Sender:
    """Sends one target its records, each until it is taken or a dead letter; backs off in between.

    Attributes:
        loop: the thread.
        failing: why nothing goes out now; empty while all is well.
    """

    def __init__(
        self,
        name: str,
        settings: TargetSettings,
        open_target: Callable[[], Target],
        queue: Queue,
        store: EvidenceStore,
        *,
        pulses: Pulses,
        zone: tzinfo | None = None,
    ) -> None:
        self.name, self.settings, self.failing = name, settings, ""
        self._open, self._queue, self._store, self._zone = open_target, queue, store, zone
        self._filter = Filter(settings.filter, zone)
        self._target: Target | None = None
        self._refusals = 0  # of the entry at the head of the queue
        self._backoff_s, self._failing_since, self._warned_at = FIRST_BACKOFF_S, 0.0, 0.0
        self.loop = Loop(
            f"target {name}",
            self._turn,
            pulses=pulses,
            within_s=LIMIT_S + 3 * settings.timeout,
            last=self._close,
        )

    def _turn(self) -> None:
        try:
            self._opened()  # even where nothing waits: a broker is to know that we are there
            for entry in self._queue.read():
                if self.loop.stopped.is_set():
                    return
                self._send(entry)
                self.loop.beat()
        except (DeliveryError, TemplateError, SecretError, ServerAwayError) as error:
            self._queue.read_again()
            self._fail(error)
        else:
            self._recover()
        finally:
            self._queue.save()

    def _opened(self) -> Target:
        if self._target is None:
            self._target = self._open()
        return self._target

    def _send(self, entry: Entry) -> None:
        record = entry.record
        sentences = self._filter.select(record)
        if entry.stream.endswith(":retry"):
            sentences = sentences or record.sentences  # it passed once, and was asked for again
        target = self._opened()
        if sentences is not None and (target.updates or not record.continues):
            picture = find_picture(record, self._store, self.settings.picture)
            message = Message(record, sentences, picture, self._zone, self._queue.is_newest(entry))
            try:
                target.send(message)
            except (RefusedError, TemplateError) as error:
                self._refusals += 1
                if self._refusals < self.settings.attempts:
                    raise
                self._bury(entry, error)
                return
            self._note_objects(entry)
        self._queue.settle(entry)
        self._recover()

    def _note_objects(self, entry: Entry) -> None:
        known = self._queue.objects.setdefault(entry.record.camera, [])
        known += [name for name in entry.record.objects if name not in known]

    def _bury(self, entry: Entry, error: Exception) -> None:
        self._queue.bury(entry, _reason(error))
        self._refusals = 0
        logger.warning(
            "target %s: record %s is a dead letter: %s; see narrated forward --dead",
            *(self.name, entry.record.id, _reason(error)),
        )

    def _fail(self, error: Exception) -> None:
        """Note that nothing goes out, warn once a minute, and wait."""
        now = monotonic()
        if not self.failing:
            self._failing_since, self._warned_at = now, float("-inf")
        self.failing = _reason(error)
        if now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            logger.warning("target %s: %s; trying again, nothing is lost", self.name, self.failing)
        if isinstance(error, AwayError | SecretError):
            self._close_target()  # opened again, it may have another password
            self._expire(error)
        asked_s = min(getattr(error, "retry_after_s", 0.0), LONGEST_RETRY_AFTER_S)
        wait_s = max(asked_s, self._backoff_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        self._backoff_s = min(2 * self._backoff_s, LONGEST_BACKOFF_S)
        self.loop.beat(wait_s + LIMIT_S)
        self.loop.stopped.wait(wait_s)

    def _recover(self) -> None:
        if self.failing:
            logger.info("target %s: delivered again", self.name)
        self.failing, self._backoff_s, self._refusals = "", FIRST_BACKOFF_S, 0

    def _expire(self, error: Exception) -> None:
        """Bury what is older than `expire`, once the target has been away for as long."""
        expire_s = self.settings.expire
        if not expire_s or monotonic() - self._failing_since < expire_s:
            return
        try:
            while entries := self._queue.read():
                for entry in entries:
                    age_s = (datetime.now(UTC) - entry.record.after.moment).total_seconds()
                    if age_s < expire_s:
                        self._queue.read_again()
                        return
                    self._bury(entry, error)
        except ServerAwayError:
            self._queue.read_again()

    def _close_target(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            target.close()

    def _close(self) -> None:
        self._close_target()
        self._queue.close()


def _reason(error: Exception) -> str:
    return redacted(hidden(str(error)))[:_LONGEST_REASON]
