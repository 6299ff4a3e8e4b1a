"""The counts behind a source's report, and what the sources of recorded footage have in common."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Self

from pipeline.redaction import redacted
from pipeline.sources.frame import Clock, SourceOptions, SourceReport

ERRORS_KEPT = 100
"""A camera that is away for weeks must not fill the memory with sentences about it."""


@dataclass(slots=True)
class Tally:
    """Counts of one source, written by the thread that reads it."""

    decoded: int = 0
    sampled: int = 0
    corrupt: int = 0
    dropped: int = 0
    reconnections: int = 0
    clock: Clock | None = None
    skew_s: float | None = None
    hardware: str | None = None
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=ERRORS_KEPT))

    def error(self, sentence: object) -> str:
        """Keep one redacted sentence and return it."""
        text = redacted(sentence)
        self.errors.append(text)
        return text

    def report(self) -> SourceReport:
        """The counts so far, frozen."""
        return SourceReport(
            decoded=self.decoded,
            sampled=self.sampled,
            corrupt=self.corrupt,
            dropped=self.dropped,
            reconnections=self.reconnections,
            errors=tuple(self.errors.copy()),
            clock=self.clock,
            skew_s=self.skew_s,
            hardware=self.hardware,
        )


class RecordedSource:
    """Footage that was recorded: nobody reads it ahead, and what is closed ends soon."""

    live = False
    silent_s = 0.0
    screening_silent_s = 0.0

    def __init__(self, options: SourceOptions, camera: str) -> None:
        self.camera = camera
        self._options = options
        self._tally = Tally()
        self._closed = threading.Event()

    @property
    def report(self) -> SourceReport:
        """Counts so far."""
        return self._tally.report()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop: a running iteration ends at the next packet, or still."""
        self._closed.set()
