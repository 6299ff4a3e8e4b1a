"""A camera's small second stream: it alone is decoded while nothing moves."""

from __future__ import annotations

from time import monotonic

from pipeline.distance import l2_luma
from pipeline.loop import Loop
from pipeline.redaction import redacted
from pipeline.sources.frame import Luma, Source, SourceError, SourceReport

LATE_S = 3.0
"""A sub-stream without a picture for so long shows nothing: the main stream is decoded."""

WAKING_L2 = 12.0
"""L2 distance of a block, in grey levels, that is motion: below the least lower threshold."""

_BLOCK = 16


def moves(seen: Luma | None, plane: Luma) -> bool:
    """True where anything moved between two luma planes, or there is nothing to compare."""
    if seen is None or seen.shape != plane.shape:
        return True
    return bool(l2_luma(seen, plane, _BLOCK)[1].max() > WAKING_L2)


class Screen:
    """Looks at a camera's sub-stream, in a thread of its own, and knows when something moved last.

    Args:
        source: the sub-stream, its areas blackened.

    Attributes:
        moved_s: monotonic time at which something moved last.
    """

    def __init__(self, source: Source) -> None:
        self.moved_s = self._looked_s = float("-inf")
        self._source = source
        self._loop = Loop(f"screen {source.camera}", self._watch)

    @property
    def sees(self) -> bool:
        """True while the sub-stream shows what happens."""
        return monotonic() - self._looked_s <= LATE_S

    @property
    def report(self) -> SourceReport:
        """Counts of the sub-stream."""
        return self._source.report

    @property
    def silent_s(self) -> float:
        """Seconds since the thread that reads the sub-stream last got on; 0 before it has begun."""
        return self._source.silent_s if self._loop.alive else 0.0

    def start(self) -> None:
        """Begin to look; a second call does nothing."""
        if not self._loop.started:
            self._loop.start()

    def raise_error(self) -> None:
        """Raise what has ended the thread, as `raise_error`."""
        raise_error(self._loop, self._source.camera)

    def close(self) -> None:
        """Stop looking."""
        self._loop.stop()
        self._source.close()

    def _watch(self) -> None:
        seen: Luma | None = None
        with self._source as frames:
            for frame in frames:
                self._looked_s = monotonic()
                if moves(seen, frame.luma):
                    self.moved_s = self._looked_s
                seen = frame.luma
        self._loop.stop()  # closed, or the footage has ended


def raise_error(thread: Loop, camera: str) -> None:
    """Raise what has ended a thread that reads for a camera, if anything has.

    Raises:
        SourceError: it, without secrets.
    """
    if (error := thread.error) is not None:
        raise SourceError(redacted(f"{camera}: {type(error).__name__}: {error}")) from None
