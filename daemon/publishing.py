"""The publisher's thread: from the journals to Redis, while the narrator goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from time import monotonic

from pipeline.journal import Journal, JournalError
from pipeline.publisher import Publisher, PublisherError, StreamConflictError, drain

_RETRY_S = 10.0
_POLL_S = 0.05

logger = logging.getLogger(__name__)


class Publishing:
    """Publishes what the journals hold, camera after camera.

    A server that is away is waited for; one that refuses is asked again every ten seconds; a stream that
    another writer has written to is left alone. The journal holds the narrations in any case.

    Args:
        journals: by camera.
        publisher: used by this thread only; closed with it.

    Attributes:
        errors: the last failure of each camera that is not published now, by name.
    """

    def __init__(self, journals: Mapping[str, Journal], publisher: Publisher) -> None:
        self.errors: dict[str, str] = {}
        self.published = 0
        self._journals, self._publisher = journals, publisher
        self._given_up: set[str] = set()
        self._more, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._crash: BaseException | None = None

    def start(self) -> None:
        """Start the thread; what earlier runs left unpublished goes first."""
        self._more.set()
        self._thread.start()

    def wake(self) -> None:
        """The journals hold more."""
        self._more.set()

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def finish(self, limit_s: float, hurry: threading.Event | None = None, hurried_s: float = 0.0) -> bool:
        """Publish the rest, wait for it at most so long, and end the thread.

        Args:
            limit_s: longest wait in seconds.
            hurry: once it is set, the wait lasts no longer than another `hurried_s`.
            hurried_s: see `hurry`.

        Returns:
            True where everything that the journals hold is published.
        """
        until = monotonic() + limit_s
        self.wake()
        while self.alive and monotonic() < until and self._pending(but=set(self.errors)):
            self._stop.wait(_POLL_S)
            if hurry is not None and hurry.is_set():
                until, hurry = min(until, monotonic() + hurried_s), None
        self._stop.set()
        self._more.set()
        if self._thread.ident is not None:
            self._thread.join(max(_POLL_S, until - monotonic()))
        if not self.alive:
            self._publisher.close()
        return not self._pending(but=set())

    def _pending(self, but: set[str]) -> bool:
        """True where a journal, other than those of the cameras `but`, holds what is not published."""
        return any(
            next(journal.pending(), None) is not None
            for camera, journal in list(self._journals.items())
            if camera not in but
        )

    def raise_crash(self) -> None:
        """Raise what ended the thread, if it was not asked to end."""
        if self._crash is not None:
            raise self._crash

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._more.wait(_RETRY_S)
                self._more.clear()
                for camera, journal in list(self._journals.items()):  # a reload adds and removes
                    self._drain(camera, journal)
        except Exception as error:  # noqa: BLE001 - every thread's error reaches main
            self._crash = error

    def _drain(self, camera: str, journal: Journal) -> None:
        if camera in self._given_up or self._stop.is_set():
            return
        try:
            self.published += drain(journal, self._publisher, self._stop)
            self.errors.pop(camera, None)
        except StreamConflictError as error:
            self._given_up.add(camera)
            self._tell(camera, f"{error}; this camera is journalled only")
        except (PublisherError, JournalError) as error:
            self._tell(camera, str(error))

    def _tell(self, camera: str, reason: str) -> None:
        if self.errors.get(camera) != reason:
            self.errors[camera] = reason
            logger.error("camera %s is not published: %s", camera, reason)
