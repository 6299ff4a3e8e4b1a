"""Signs the ends of the journals every few minutes, in a thread of its own."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from daemon.config.configuration import ConfigurationError
from daemon.config.secrets import Secrets
from daemon.config.settings import Configuration
from daemon.threads.heartbeats import Heartbeats
from pipeline.journal import Journal
from pipeline.journal.signatures import Signatures, SigningError, SigningKey
from pipeline.loop import Loop

LOOP = "signing"
"""Its name among the loops that the watchdog goes by."""

_EVERY_S = 600.0
_LONGEST_LAST_S = 2.0
_WITHIN_S = 60.0

logger = logging.getLogger(__name__)


class JournalSigning:
    """Appends to each camera's signatures whenever its journal has grown, and once more at the end.

    Args:
        key: signs; None signs nothing.
        every_s: seconds between two looks.
        journals: by camera; cameras may come and go while this runs.
        heartbeats: told of every look.

    Attributes:
        signed: signatures made, by camera.
        errors: why a camera's journal could not be signed last; empty while all is well.
        loop: the thread.
    """

    def __init__(
        self,
        key: SigningKey | None,
        every_s: float,
        journals: Mapping[str, Journal],
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.signed: Counter[str] = Counter()
        self.errors: dict[str, str] = {}
        self.key, self._journals = key, journals
        self._signatures: dict[str, Signatures] = {}
        self.loop = Loop(LOOP, self.look, every_s, heartbeats=heartbeats, within_s=_WITHIN_S, last=self.look)

    def start(self) -> None:
        """Begin; without a key nothing is to be done."""
        if self.key:
            logger.info("journals are signed with the key whose public half is %s", self.key.public)
            self.loop.start()

    def finish(self) -> None:
        """Sign what was told last, and end the thread; before the journals are closed."""
        self.loop.stop()
        self.loop.join(_LONGEST_LAST_S)

    def look(self) -> None:
        """Sign what has grown since the last look."""
        for camera, journal in list(self._journals.items()):
            end = journal.end
            if self.key is None or not end.seq:
                continue
            signatures = self._signatures.setdefault(camera, Signatures(journal.folder, camera, self.key))
            try:
                self.signed[camera] += signatures.add(end)
                self.errors.pop(camera, None)
            except OSError as error:
                self._report(camera, f"{signatures.path}: {error.strerror or error}")

    def _report(self, camera: str, reason: str) -> None:
        if self.errors.get(camera) != reason:
            self.errors[camera] = reason
            logger.error("camera %s: its journal cannot be signed: %s; it is tried again", camera, reason)


def open_signing(
    configuration: Configuration, secrets: Secrets, journals: Mapping[str, Journal], heartbeats: Heartbeats
) -> JournalSigning:
    """As the configuration says.

    Raises:
        ConfigurationError: what is kept as the key is none.
        SecretError: the key cannot be had.
    """
    settings = configuration.signing
    try:
        key = SigningKey(secrets.reveal(settings.key)) if settings.key else None
    except SigningError as error:
        raise ConfigurationError([f"signing.key: {error}"]) from None
    return JournalSigning(key, _EVERY_S, journals, heartbeats)
