"""What becomes of the journals: published to Redis, their ends signed and time-stamped, each in a thread."""

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic

from pipeline.journal import Journal, JournalError
from pipeline.journal.signatures import Signature, SigningKey, Timestamp, TimestampError, request_timestamp
from pipeline.loop import Backoff, Faults, Heartbeats, Loop
from pipeline.publisher import Delivery, PublisherError, RedisServer
from pipeline.record import Record

RENEW_S = 10.0  # so often leases are renewed, lost streams restored, refusing servers asked again
_SETTLE_S = 1.0
_POLL_S = 0.05
_TURN = 4096  # records of a camera until the next one's turn: leases must not run out meanwhile

_SIGN_EVERY_S, _STAMP_EVERY_S = 600.0, 3600.0
_WITHIN_S = 60.0  # an authority has half of it to answer
_STAMPED = "time-stamped"

logger = logging.getLogger(__name__)


class Publishing:
    """Publishes what the journals hold, camera after camera, and has them write what they had to hold.

    A server that is away is waited for; one that refuses, and a stream that another writer has, are asked
    again every ten seconds. While this runs, cameras may come and go. `errors` has the last failure of each.
    """

    def __init__(
        self,
        journals: Mapping[str, Journal],
        server: RedisServer | None,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.errors = Faults()
        self._journals, self._server = journals, server
        self._deliveries: dict[str, Delivery] = {}
        self._asked_at: dict[str, float] = {}
        self._backoff = Backoff()
        self.loop = Loop(
            "publisher", self._turn, _SETTLE_S, heartbeats=heartbeats, last=self._release, at_once=True
        )

    @property
    def away(self) -> str:
        """Reason for which nothing at all can be published; empty while the server answers."""
        return self._backoff.reason

    @property
    def stopped(self) -> str:
        """Reason for which no pending record is published; empty while any is, or could be."""
        failing, journals = self.failing, dict(self._journals)
        waiting = {name for name, journal in journals.items() if _has_unpublished(journal)} or set(journals)
        if self.away or not failing or waiting - set(failing):
            return self.away
        return "; ".join(sorted(set(failing.values())))

    @property
    def failing(self) -> dict[str, str]:
        away, errors = self.away, self.errors.copy()
        journals = dict(self._journals)
        down = {name: journal.trouble for name, journal in journals.items() if not journal.is_open}
        return {name: why for name in journals if (why := down.get(name) or errors.get(name) or away)}

    def finish(self, limit_s: float) -> bool:
        """Publish the rest within a limit, and end the thread; True where all is published."""
        until = monotonic() + limit_s
        self.loop.wake()
        while self.loop.alive and monotonic() < until and self._unfinished(but=self.errors):
            self.loop.stopped.wait(_POLL_S)
        if self.loop.end(max(_POLL_S, until - monotonic())) and self._server:
            self._server.close()
        return not self._unfinished(but=())

    def _unfinished(self, but: Collection[str]) -> bool:
        """True where a journal, other than those of the cameras `but`, holds what is not published."""
        journals = dict(self._journals).items()
        return any(_has_unpublished(journal) for camera, journal in journals if camera not in but)

    def _turn(self) -> None:
        journals = dict(self._journals)  # a reload adds and removes
        for camera in set(self._deliveries) - set(journals):
            self._release_lease(camera)
            self.errors.pop(camera, None)
        self._flush()
        for camera, journal in journals.items():
            if journal.is_open:  # else its trouble says why nothing of it can be published
                self._drain(camera, journal)

    def _flush(self) -> None:
        """Have what is held written where a disk takes it again, also while the server is away."""
        self.loop.beat()
        for journal in list(self._journals.values()):
            if journal.trouble:
                journal.flush()

    def _drain(self, camera: str, journal: Journal) -> None:
        if self._server is None:
            if _has_unpublished(journal):
                journal.acknowledge(journal.end)
            return
        delivery = self._deliveries.get(camera)
        if delivery is None or delivery.journal is not journal:
            delivery = Delivery(journal, self._server, beat=self._flush, backoff=self._backoff)
            self._deliveries[camera] = delivery
            self._asked_at.pop(camera, None)
        now = monotonic()
        due = now - self._asked_at.get(camera, float("-inf")) >= RENEW_S
        has_new = _has_unpublished(journal) and camera not in self.errors
        if self.loop.stopped.is_set() or not (due or has_new):
            return
        self._asked_at[camera] = now
        with self.errors.noted(camera, f"camera {camera} is not published", PublisherError, JournalError):
            if delivery.drain(self.loop.stopped, limit=_TURN) >= _TURN:
                self.loop.wake()

    def _release(self) -> None:
        for camera in list(self._deliveries):
            self._release_lease(camera)

    def _release_lease(self, camera: str) -> None:
        """Give a lease up while the server answers; else it runs out by itself."""
        delivery = self._deliveries.pop(camera)
        if self.away:
            return
        try:
            delivery.release()
        except PublisherError as error:
            logger.info("camera %s: the lease could not be released and will expire: %s", camera, error)


def _has_unpublished(journal: Journal) -> bool:
    return journal.end.seq > journal.published.seq


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
            "signing", self._turn, _SIGN_EVERY_S, heartbeats=heartbeats, within_s=_WITHIN_S, last=self.sign
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
        if path not in self._last or not path.exists():  # a journal that is begun again was moved away
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
        if monotonic() - self._stamped_at >= _STAMP_EVERY_S or any(
            name.endswith(_STAMPED) for name in self.errors
        ):
            self._stamped_at = monotonic()
            self.stamp()
