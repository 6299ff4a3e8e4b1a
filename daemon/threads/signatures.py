"""Signs the ends of the journals every few minutes, and has them time-stamped, in a thread of its own."""

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic

from pipeline.journal import Journal, JournalError
from pipeline.journal.signatures import Signature, SigningKey, Timestamp, TimestampError, request_timestamp
from pipeline.loop import Faults, Heartbeats, Loop
from pipeline.record import Record

_EVERY_S = 600.0
_STAMPS_EVERY_S = 3600.0
_WITHIN_S = 60.0
_STAMPED = "time-stamped"

logger = logging.getLogger(__name__)


class JournalSigning:
    """Appends to each camera's signatures whenever its journal has grown, and once more at the end.

    The URL `authority` stamps every journal that has grown, once an hour and at the start.
    """

    def __init__(
        self,
        key: SigningKey | None,
        journals: Mapping[str, Journal],
        heartbeats: Heartbeats | None = None,
        authority: str | None = None,
    ) -> None:
        self.errors = Faults()
        self._key, self._journals, self._authority = key, journals, authority
        self._last: dict[Path, int] = {}  # by file the number of the last record that it vouches for
        self._stamped_at, self._asking = float("-inf"), Thread()
        self.loop = Loop(
            "signing", self._turn, _EVERY_S, heartbeats=heartbeats, within_s=_WITHIN_S, last=self.sign
        )
        if key:
            logger.info("signing journals; public key: %s", key.public)

    def sign(self) -> None:
        for camera, journal in list(self._journals.items()):
            with self._attempt(camera, "signed"):
                if self._key and self._has_grown(journal, Signature):
                    self._append(self._key.sign(camera, journal.end), journal)

    def stamp(self) -> None:
        """Have every journal stamped that has grown since its last time stamp; waits for the network."""
        for camera, journal in list(self._journals.items()):
            if self._authority is None or self.loop.stopped.is_set():
                return
            self.loop.beat()
            with self._attempt(camera, _STAMPED):
                _, record = journal.find(journal.end.stream_id)
                if record and self._has_grown(journal, Timestamp):
                    self._append(self._request(self._authority, record), journal)

    def _request(self, authority: str, record: Record) -> Timestamp:
        """In a thread that nobody waits for: a server that sends byte by byte runs into no time-out."""
        answer = Future[Timestamp]()

        def ask() -> None:
            try:
                answer.set_result(request_timestamp(authority, record))
            except Exception as error:  # noqa: BLE001 - raised below
                answer.set_exception(error)

        if not self._asking.is_alive():
            # A daemon, unlike an executor's thread, is not waited for at the interpreter's end either.
            self._asking = Thread(target=ask, name="time stamp", daemon=True)
            self._asking.start()
            with suppress(TimeoutError):
                return answer.result(_WITHIN_S / 2)
        raise TimestampError("the time stamp server does not end its answer")

    def _attempt(self, camera: str, what: str) -> AbstractContextManager[None]:
        text = f"camera {camera}: its journal is not {what}"
        return self.errors.noted(f"{camera} {what}", text, TimestampError, JournalError, OSError)

    def _has_grown(self, journal: Journal, kind: type[Signature | Timestamp]) -> bool:
        """True where no line of this kind, nor by this key, vouches for the journal's end."""
        path = kind.file(journal.folder, journal.camera)
        if path not in self._last or not path.exists():  # who begins a journal anew moves it as well
            lines = kind.load(journal.folder, journal.camera)
            ours = [
                e.seq for e in lines if isinstance(e, Timestamp) or (self._key and e.key == self._key.public)
            ]
            self._last[path] = max(ours, default=0)
        return journal.end.seq > self._last[path]

    def _append(self, line: Signature | Timestamp, journal: Journal) -> None:
        line.append(journal.folder)
        self._last[line.file(journal.folder, journal.camera)] = line.seq

    def _turn(self) -> None:
        self.sign()
        if monotonic() - self._stamped_at >= _STAMPS_EVERY_S or any(
            name.endswith(_STAMPED) for name in self.errors
        ):
            self._stamped_at = monotonic()
            self.stamp()
