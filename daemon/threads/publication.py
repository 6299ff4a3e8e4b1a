"""The publisher's thread: from the journals to Redis, while the narrator goes on."""

import logging
from collections.abc import Collection, Mapping
from time import monotonic

from pipeline.journal import Journal, JournalError
from pipeline.loop import Backoff, Faults, Heartbeats, Loop
from pipeline.publisher import Delivery, PublisherError, RedisServer

RENEW_S = 10.0  # so often leases are renewed, lost streams restored, refusing servers asked again
_SETTLE_S = 1.0
_POLL_S = 0.05
_TURN = 4096  # records of a camera until the next one's turn: leases must not run out meanwhile
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
