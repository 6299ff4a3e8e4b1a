"""Signs the ends of the journals every few minutes, in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pipeline.journal import Journal
from pipeline.journal.signatures import Signatures, SigningKey
from pipeline.loop import Heartbeats, Loop

_EVERY_S = 600.0
_LONGEST_LAST_S = 2.0
_WITHIN_S = 60.0

logger = logging.getLogger(__name__)


class JournalSigning:
    """Appends to each camera's signatures whenever its journal has grown, and once more at the end.

    Args:
        key: signs; None signs nothing.
        journals: by camera; cameras may come and go while this runs.

    Attributes:
        errors: why a camera's journal could not be signed last; empty while all is well.
    """

    def __init__(
        self, key: SigningKey | None, journals: Mapping[str, Journal], heartbeats: Heartbeats | None = None
    ) -> None:
        self.errors: dict[str, str] = {}
        self._key, self._journals = key, journals
        self._signatures: dict[str, Signatures] = {}
        self.loop = Loop(
            "signing", self.sign, _EVERY_S, heartbeats=heartbeats, within_s=_WITHIN_S, last=self.sign
        )

    def start(self) -> None:
        """Begin; without a key nothing is to be done."""
        if self._key:
            logger.info("journals are signed with the key whose public half is %s", self._key.public)
            self.loop.start()

    def finish(self) -> None:
        """Sign what was reported last, and end the thread; before the journals are closed."""
        self.loop.stop()
        self.loop.join(_LONGEST_LAST_S)

    def sign(self) -> None:
        """Sign every journal that has grown since its last signature."""
        for camera, journal in list(self._journals.items()):
            end = journal.end
            if self._key is None or not end.seq:
                continue
            signatures = self._signatures.setdefault(camera, Signatures(journal.folder, camera, self._key))
            try:
                signatures.add(end)
                self.errors.pop(camera, None)
            except OSError as error:
                reason = f"{signatures.path}: {error.strerror or error}"
                if self.errors.get(camera) != reason:
                    logger.warning("camera %s: its journal cannot be signed yet: %s", camera, reason)
                self.errors[camera] = reason
