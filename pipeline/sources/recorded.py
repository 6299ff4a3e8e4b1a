"""The common part of sources of recorded footage."""

from __future__ import annotations

import threading
from typing import Self

from pipeline.sources.counts import Counts
from pipeline.sources.frame import SourceOptions, SourceReport


class RecordedSource:
    """Reads as it is iterated, without a thread; `close` ends that at the next packet."""

    live = False
    silent_s = 0.0

    def __init__(self, options: SourceOptions, camera: str) -> None:
        self.camera = camera
        self._options = options
        self._counts = Counts()
        self._closed = threading.Event()

    @property
    def report(self) -> SourceReport:
        """Counts so far."""
        return self._counts.report()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop: a running iteration ends at the next packet, or still."""
        self._closed.set()
