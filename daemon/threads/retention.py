"""What goes when: the oldest segments of the journals, and the pictures that only they name."""

from __future__ import annotations

import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic

from daemon.config.settings import RetentionSettings
from daemon.threads.pulse import Pulses
from pipeline.evidence import EvidenceStore, Named, named_in
from pipeline.journal import Journal, JournalError
from pipeline.loop import Loop

LOOP = "retention"
"""Its name among the loops that the watchdog goes by."""

_EVERY_S = 60.0
_WITHIN_S = 600.0
"""A look that deletes reads whole journals."""

_WHOLE_EVERY_S = 86_400.0
"""How often all pictures are looked at, for those that a crash has left, once something is deleted at all."""

_MANY = 200_000
"""Pictures of deleted segments that are removed in one go."""

logger = logging.getLogger(__name__)


class Retention:
    """Deletes what is older, or more, than may be kept; in a thread of its own.

    Nothing goes that is not published, and never the segment that is being written. Where that keeps more
    than may be kept, it is counted and told.

    Args:
        settings: how much is kept; None is no limit.
        journals: by camera; cameras may come and go while this runs.
        evidence: the pictures; None where there are none.
        pulses: told of every look.

    Attributes:
        segments, bytes: what was deleted of journals, by camera and reason (age, size, free).
        pictures: how many were deleted of evidence.
        unpublished: cameras of which more would go if it were published.
        runs: how often this looked.
        loop: the thread.
    """

    def __init__(
        self,
        settings: RetentionSettings,
        journals: Mapping[str, Journal],
        evidence: EvidenceStore | None,
        pulses: Pulses | None = None,
    ) -> None:
        self.segments: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.pictures = self.runs = 0
        self.unpublished: frozenset[str] = frozenset()
        self._settings, self._journals, self._evidence = settings, journals, evidence
        self._forsaken: set[str] = set()  # digests that deleted segments named
        self._whole_due = float("-inf")
        self._reported = ""
        self.loop = Loop(LOOP, self._turn, _EVERY_S, pulses=pulses, within_s=_WITHIN_S)

    def start(self) -> None:
        """Look now and then every minute."""
        self.loop.wake()
        self.loop.start()

    def stop(self) -> None:
        """End the thread, if it is not in the midst of deleting; that ends with the process."""
        self.loop.stop()
        self.loop.join(0.5)

    def look(self) -> None:
        """Delete what may go now.

        Raises:
            JournalError: a segment cannot be deleted.
            OSError: the folders cannot be read or written.
        """
        kept: set[str] = set()
        if self._settings.age is not None:
            self._delete_old(time.time() - self._settings.age, kept)
        for reason, excess in (("size", self._too_large), ("free", self._too_full)):
            self._make_room(reason, excess, kept)
        self._sweep()
        if kept - self.unpublished:
            logger.warning(
                "more is kept than retention allows, because it is not published yet: %s",
                ", ".join(sorted(kept)),
            )
        self.unpublished = frozenset(kept)
        self.runs += 1

    def _delete_old(self, before: float, kept: set[str]) -> None:
        for camera in list(self._journals):
            while camera not in kept and (written := self._written(camera)) is not None and written < before:
                self._delete(camera, "age", kept)
                if len(self._forsaken) >= _MANY:
                    self._sweep()

    def _make_room(self, reason: str, excess: Callable[[], int], kept: set[str]) -> None:
        """Delete the oldest segments until nothing exceeds the limit.

        To find out which pictures go with them all journals are read: for many segments once.
        """
        while (left := excess()) > 0 and not self.loop.stopped.is_set():
            camera = None
            while left > 0 and len(self._forsaken) < _MANY and (camera := self._oldest(kept)):
                left -= self._delete(camera, reason, kept)
            if not self._sweep() or camera is None:
                return

    def _oldest(self, but: set[str]) -> str | None:
        """The camera whose oldest closed segment is the oldest of all."""
        found = {camera: self._written(camera) for camera in list(self._journals) if camera not in but}
        times = {camera: written for camera, written in found.items() if written is not None}
        return min(times, key=times.__getitem__) if times else None

    def _written(self, camera: str) -> float | None:
        """When the camera's oldest closed segment was written last; footage may be much older."""
        journal = self._journals.get(camera)
        closed = journal.closed() if journal else []
        try:
            return closed[0].path.stat().st_mtime if closed else None
        except FileNotFoundError:
            return None

    def _delete(self, camera: str, reason: str, kept: set[str]) -> int:
        """Delete the camera's oldest segment; the bytes of it and of the pictures that it names."""
        journal = self._journals.get(camera)
        closed = journal.closed() if journal else []
        size = closed[0].size if closed else 0
        named = set(named_in(closed[0].path)) if closed and self._evidence else set()
        if journal is None or not journal.delete_oldest():
            kept.add(camera)
            return 0
        self.loop.beat()
        self._forsaken |= named
        self.segments[camera, reason] += 1
        self.bytes[camera, reason] += size
        logger.info("camera %s: a journal segment of %d bytes was deleted (%s)", camera, size, reason)
        return size + sum(self._size_of(digest) for digest in named)

    def _size_of(self, digest: str) -> int:
        path = self._evidence.find(digest) if self._evidence else None
        return path.stat().st_size if path else 0

    def _sweep(self) -> bool:
        """Remove the pictures of deleted segments that no journal names any more; False where they wait."""
        journals = list(self._journals.values())
        if self._evidence is None or not self._forsaken:
            return True
        if any(journal.held for journal in journals):
            return False  # what is held in memory names pictures too
        named = _named({journal.folder for journal in journals})
        whole = monotonic() >= self._whole_due
        swept = self._evidence.sweep(named, among=None if whole else self._forsaken)
        self._forsaken.clear()
        if whole:
            self._whole_due = monotonic() + _WHOLE_EVERY_S
        self.pictures += swept.files
        return True

    def _too_large(self) -> int:
        """Bytes beyond the size that may be kept."""
        if self._settings.size is None:
            return 0
        evidence = self._evidence.known_size().bytes if self._evidence else 0
        return sum(journal.size for journal in list(self._journals.values())) + evidence - self._settings.size

    def _too_full(self) -> int:
        """Bytes that lack to those that must stay free."""
        journal = next(iter(list(self._journals.values())), None)
        if self._settings.free is None or journal is None:
            return 0
        try:
            return self._settings.free - shutil.disk_usage(journal.folder).free
        except FileNotFoundError:
            return 0  # the folder could not be made yet, so there is nothing to delete

    def _turn(self) -> None:
        try:
            self.look()
            self._reported = ""
        except (JournalError, OSError) as error:
            if str(error) != self._reported:
                self._reported = str(error)
                logger.error("retention: %s", error)  # noqa: TRY400 - no bug of ours: its trace tells nothing


def _named(folders: set[Path]) -> Named:
    """The pictures that the journals of folders name, also those of cameras removed since."""
    while True:
        paths = _journals_in(folders)
        with suppress(FileNotFoundError):
            named = Named(paths)
            if paths == _journals_in(folders):
                return named
        # A file was renamed or deleted meanwhile; what is not counted here must not be swept.


def _journals_in(folders: set[Path]) -> list[Path]:
    return sorted(path for folder in folders for path in folder.glob("*.jsonl"))
