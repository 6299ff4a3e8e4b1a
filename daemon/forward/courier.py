"""One target's own thread: what waits for it goes out in order, and no other target waits for that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import tzinfo
from time import monotonic

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter

from daemon.config.forward import TargetSettings
from daemon.config.secrets import SecretError, hidden
from daemon.config.template import TemplateError
from daemon.forward.filter import Filter
from daemon.forward.ledger import Ledger, LedgerError, Letter
from daemon.forward.message import Message, picture_of
from daemon.forward.target import AwayError, DeliveryError, RefusedError, Target
from daemon.threads.pulse import Pulses
from pipeline.evidence import EvidenceStore
from pipeline.loop import LIMIT_S, Loop
from pipeline.redaction import redacted

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 1.0
LONGEST_ASKED_S = 3600.0
"""Longest pause that a target may ask for."""

_LOOK_EVERY_S = 1.0
_TOLD_EVERY_S = 60.0
_LONGEST_REASON = 300


class Courier:
    """Sends one target what waits for it; after a failure it is opened anew, and pauses double.

    Attributes:
        loop: the thread.
        away: why nothing goes out now; empty while all is well.
    """

    def __init__(
        self,
        name: str,
        settings: TargetSettings,
        opened: Callable[[], Target],
        ledger: Ledger,
        store: EvidenceStore,
        *,
        pulses: Pulses,
        zone: tzinfo | None = None,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self.name, self.settings, self.away = name, settings, ""
        self._opened, self._ledger, self._store, self._zone = opened, ledger, store, zone
        self._filter = Filter(settings.filter, zone)
        self._target: Target | None = None
        self._told_at = float("-inf")
        self._growing = wait_exponential_jitter(
            initial=first_wait_s, max=settings.longest_wait, jitter=first_wait_s
        )
        self.loop = Loop(
            f"target {name}",
            self._turn,
            _LOOK_EVERY_S,
            pulses=pulses,
            within_s=LIMIT_S + 3 * settings.timeout,
            last=self._close,
        )

    def _turn(self) -> None:
        """Everything that waits, one after the other."""
        while not self.loop.stopped.is_set() and self._until_done(self._step):
            self.loop.beat()

    def _until_done(self, what: Callable[[], bool]) -> bool:
        """Do it again, ever more slowly, until it is done; False where the end has come before."""
        retrying = Retrying(
            retry=retry_if_exception_type((DeliveryError, LedgerError)),
            wait=self._pause_s,
            sleep=self._sleep,
            stop=lambda _: self.loop.stopped.is_set(),
            retry_error_callback=lambda _: False,
        )
        return bool(retrying(what))

    def _step(self) -> bool:
        """Send the oldest that waits, and write down what came of it; False where none does.

        The target is opened even so: a broker shall know that we are there.

        Raises:
            DeliveryError: it is to be tried again.
            LedgerError: the ledger cannot be read or written.
        """
        letter = self._ledger.next(self.name)
        try:
            if self._target is None:
                self._target = self._opened()
            if letter is None:
                return False
            self._target.send(self._message(letter))
        except (DeliveryError, TemplateError, SecretError) as error:
            if not isinstance(error, RefusedError | TemplateError):
                self._close()  # opened again it may have another password
            if letter is not None and self._failed(letter, error):
                return True
            self._note(error)
            raise AwayError(_words(error), getattr(error, "after_s", 0.0)) from None
        self._back()
        return self._until_done(lambda: self._sent(letter))  # it is not sent again because the disk is full

    def _sent(self, letter: Letter) -> bool:
        self._ledger.done(letter)
        return True

    def _message(self, letter: Letter) -> Message:
        record = letter.record
        return Message(
            record,
            self._filter.passing(record) or record.sentences,  # asked for once, though the filter has changed
            picture_of(record, self._store, self.settings.picture),
            self._zone,
            self._ledger.newest(letter),
        )

    def _failed(self, letter: Letter, error: Exception) -> bool:
        """Write a failure down; True where the record has become a dead letter."""
        reason, refused = _words(error), isinstance(error, RefusedError | TemplateError)
        attempts = self._ledger.failed(letter, reason, refused=refused)
        if refused and attempts >= self.settings.attempts:
            self._ledger.bury(letter)
            logger.warning(
                "target %s: record %s is a dead letter after %d attempts: %s; see narrated forward --dead",
                *(self.name, letter.record.id, attempts, reason),
            )
            return True
        if refused or not self.settings.expire:
            return False
        expired = self._ledger.expire(self.name, self.settings.expire, reason)
        if expired:
            logger.warning(
                "target %s: %d records have waited too long and are dead letters: %s; "
                "see narrated forward --dead",
                *(self.name, expired, reason),
            )
        return expired > 0

    def _note(self, error: Exception) -> None:
        """Say that nothing goes out, once a minute."""
        self.away = _words(error)
        if monotonic() - self._told_at >= _TOLD_EVERY_S:
            self._told_at = monotonic()
            logger.warning("target %s: %s; trying again, nothing is lost", self.name, self.away)

    def _back(self) -> None:
        if self.away:
            logger.info("target %s: delivered again", self.name)
        self.away, self._told_at = "", float("-inf")

    def _pause_s(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = min(error.after_s, LONGEST_ASKED_S) if isinstance(error, AwayError) else 0.0
        if isinstance(error, LedgerError):
            self._note(error)
        return max(asked, float(self._growing(state)))

    def _sleep(self, seconds: float) -> None:
        self.loop.beat(seconds + LIMIT_S)
        self.loop.stopped.wait(seconds)
        self.loop.beat()

    def _close(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            target.close()


def _words(error: Exception) -> str:
    return redacted(hidden(str(error)))[:_LONGEST_REASON]
