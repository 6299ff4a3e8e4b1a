"""Recorded footage as a source."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Self

from pipeline.sources.frame import Frame, SourceReport

Reader = Callable[[SourceReport, threading.Event], Iterator[Frame]]
"""Reads footage from its start: counts in the report, and ends when the event is set."""


class RecordedSource:
    """Reads as it is iterated, without a thread; `close` ends that at the next packet or still.

    Args:
        camera: name of the camera.
        read: called for each iteration.
        duration_s: length of the footage; None where its containers do not say.
        unreadable: a sentence for each file that cannot be opened.
    """

    live = False
    silent_s = 0.0

    def __init__(
        self, camera: str, read: Reader, duration_s: float | None, unreadable: tuple[str, ...] = ()
    ) -> None:
        self.camera, self.duration_s = camera, duration_s
        self._read, self._unreadable = read, unreadable
        self._report = SourceReport()
        self._closed = threading.Event()
        self._begin()

    @property
    def report(self) -> SourceReport:
        """Counts so far."""
        return replace(self._report)

    def __iter__(self) -> Iterator[Frame]:
        """Sampled frames in the order of their time; a second iteration reads and counts from the start."""
        self._begin()
        return self._read(self._report, self._closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop: a running iteration ends at the next packet, or still."""
        self._closed.set()

    def _begin(self) -> None:
        self._report = SourceReport()
        for sentence in self._unreadable:
            self._report.add_error(sentence)
