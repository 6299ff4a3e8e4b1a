"""Signs the ends of the journals every few minutes, and has them time-stamped, in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from time import monotonic

from pipeline.journal import Journal, JournalError
from pipeline.journal.signatures import Signatures, SigningKey
from pipeline.journal.timestamps import Timestamp, TimestampAuthority, TimestampError
from pipeline.loop import Faults, Heartbeats, Loop

_EVERY_S = 600.0
_STAMPS_EVERY_S = 3600.0
_WITHIN_S = 60.0
_STAMPED = "time-stamped"

logger = logging.getLogger(__name__)


class JournalSigning:
    """Appends to each camera's signatures whenever its journal has grown, and once more at the end.

    Args:
        key: signs; None signs nothing.
        journals: by camera; cameras may come and go while this runs.
        authority: stamps every journal that has grown, once an hour and at the start; None stamps nothing.

    Attributes:
        errors: why a camera's journal could not be signed or time-stamped last; empty while all is well.
    """

    def __init__(
        self,
        key: SigningKey | None,
        journals: Mapping[str, Journal],
        heartbeats: Heartbeats | None = None,
        authority: TimestampAuthority | None = None,
    ) -> None:
        self.errors = Faults()
        self._key, self._journals = key, journals
        self._signatures: dict[str, Signatures] = {}
        self._authority, self._stamped = authority, dict[str, int]()
        self._stamped_at = float("-inf")
        self.loop = Loop(
            "signing", self._turn, _EVERY_S, heartbeats=heartbeats, within_s=_WITHIN_S, last=self.sign
        )
        if key:
            logger.info("journals are signed with the key whose public half is %s", key.public)

    def sign(self) -> None:
        """Sign every journal that has grown since its last signature."""
        for camera, journal in list(self._journals.items()):
            if self._key and journal.end.seq:
                signatures = self._signatures.setdefault(
                    camera, Signatures(journal.folder, camera, self._key)
                )
                with self._attempt(camera, "signed"):
                    signatures.add(journal.end)

    def stamp(self) -> None:
        """Have every journal stamped that has grown since its last time stamp; waits for the network."""
        for camera, journal in list(self._journals.items()):
            if self._authority is None or self.loop.stopped.is_set():
                return
            self.loop.beat()
            with self._attempt(camera, _STAMPED):
                _, record = journal.find(journal.end.stream_id)
                if record and record.seq > self._last_stamped(camera, journal):
                    self._authority.stamp(record).append(journal.folder)
                    self._stamped[camera] = record.seq

    def _attempt(self, camera: str, what: str) -> AbstractContextManager[None]:
        text = f"camera {camera}: its journal is not {what}"
        return self.errors.noted(f"{camera} {what}", text, TimestampError, JournalError, OSError)

    def _last_stamped(self, camera: str, journal: Journal) -> int:
        if camera not in self._stamped:
            stamps = Timestamp.load(journal.folder, camera)
            self._stamped[camera] = max((stamp.seq for stamp in stamps), default=0)
        return self._stamped[camera]

    def _turn(self) -> None:
        self.sign()
        if monotonic() - self._stamped_at >= _STAMPS_EVERY_S or any(
            name.endswith(_STAMPED) for name in self.errors
        ):
            self._stamped_at = monotonic()
            self.stamp()
