"""The counts behind a source's report."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pipeline.redaction import redacted
from pipeline.sources.frame import Clock, SourceReport

ERRORS_KEPT = 100
"""A camera that is away for weeks must not fill the memory with sentences about it."""


@dataclass(slots=True)
class Counts:
    """Counts of one source, written by the thread that reads it; see `SourceReport`."""

    decoded: int = 0
    sampled: int = 0
    corrupt: int = 0
    dropped: int = 0
    reconnections: int = 0
    clock: Clock | None = None
    skew_s: float | None = None
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
        )
