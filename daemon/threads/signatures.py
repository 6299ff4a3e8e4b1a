"""Signs the ends of the journals every few minutes, and has them time-stamped, in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import monotonic

from pipeline.journal import Journal, JournalError
from pipeline.journal.signatures import Signatures, SigningKey
from pipeline.journal.timestamps import Timestamp, TimestampAuthority, TimestampError
from pipeline.loop import Heartbeats, Loop

_EVERY_S = 600.0
_STAMPS_EVERY_S = 3600.0
_LONGEST_LAST_S = 2.0
_WITHIN_S = 60.0

logger = logging.getLogger(__name__)


class JournalSigning:
    """Appends to each camera's signatures whenever its journal has grown, and once more at the end.

    Args:
        key: signs; None signs nothing.
        journals: by camera; cameras may come and go while this runs.
        authority: stamps every journal that has grown, once an hour and at the start; None stamps nothing.

    Attributes:
        errors: why a camera's journal could not be signed last; empty while all is well.
    """

    def __init__(
        self,
        key: SigningKey | None,
        journals: Mapping[str, Journal],
        heartbeats: Heartbeats | None = None,
        authority: TimestampAuthority | None = None,
    ) -> None:
        self.errors: dict[str, str] = {}
        self._key, self._journals = key, journals
        self._signatures: dict[str, Signatures] = {}
        self._authority, self._stamped = authority, dict[str, int]()
        self._failed: set[str] = set()
        self._stamped_at = float("-inf")
        self.loop = Loop(
            "signing", self._turn, _EVERY_S, heartbeats=heartbeats, within_s=_WITHIN_S, last=self.sign
        )

    def start(self) -> None:
        """Begin; without a key nothing is to be done."""
        if self._key:
            logger.info("journals are signed with the key whose public half is %s", self._key.public)
        if self._key or self._authority:
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

    def stamp(self) -> None:
        """Have every journal stamped that has grown since its last time stamp; waits for the network."""
        for camera, journal in list(self._journals.items()):
            if self._authority is None or self.loop.stopped.is_set():
                return
            self.loop.beat()
            try:
                _, record = journal.find(journal.end.stream_id)
                if record is None or record.seq <= self._last_stamped(camera, journal):
                    continue
                self._authority.stamp(record).append(journal.folder)
            except (TimestampError, JournalError, OSError) as error:
                if camera not in self._failed:
                    logger.warning("camera %s: its journal is not time-stamped: %s", camera, error)
                self._failed.add(camera)
                continue
            self._stamped[camera] = record.seq
            self._failed.discard(camera)

    def _last_stamped(self, camera: str, journal: Journal) -> int:
        if camera not in self._stamped:
            stamps = Timestamp.load(journal.folder, camera)
            self._stamped[camera] = max((stamp.seq for stamp in stamps), default=0)
        return self._stamped[camera]

    def _turn(self) -> None:
        self.sign()
        if monotonic() - self._stamped_at >= _STAMPS_EVERY_S or self._failed:
            self._stamped_at = monotonic()
            self.stamp()
