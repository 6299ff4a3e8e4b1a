"""Retention: the oldest segments of the journals are deleted, and the pictures that only they name."""

import json
import logging
import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daemon.config.settings import RetentionSettings
from models.captioner import Sentence
from pipeline.disk import PRIVATE_FILE, replace_file
from pipeline.evidence import EvidenceStore, references
from pipeline.journal import Journal, JournalError, Segment
from pipeline.journal.custody import Hold, load_holds
from pipeline.journal.signatures import SigningKey
from pipeline.loop import Faults, Heartbeats, Loop
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration, RecordEvent
from pipeline.record import Record
from pipeline.record_format import RecordError, format_time
from pipeline.report.words import many
from pipeline.sources import Clock
from pipeline.sources.frame import boot_time_s

SEGMENTS_PER_RUN = 8  # at most, of all cameras; only what the run before announced goes
BELIEVED_AFTER_S = 86_400.0  # a wall clock that jumped ahead counts after so long under it
_JUMP_S = 3600.0
_EVERY_S = 60.0
_WITHIN_S = 600.0  # a run that deletes reads whole journals
RESERVE_BYTES = 1_000_000
"""Of a file that goes first where the disk is full: a deletion needs room for its record and the anchor."""

logger = logging.getLogger(__name__)


class SteadyClock:
    """The time by which records grow old: never ahead of the wall clock, nor of what has really passed.

    It goes on by the boot clock while the daemon runs, and from where a file says at the next start (without
    one, from `oldest`, seconds since 1970). A wall clock that is far ahead of it (a failed battery, a forged
    time server) is followed only after `BELIEVED_AFTER_S` of running.
    """

    def __init__(self, path: Path, oldest: float) -> None:
        self._path, self._ahead_s = path, 0.0
        try:
            saved = json.loads(path.read_bytes())
            self._time, self._ahead_s = float(saved["time"]), float(saved["ahead_s"])
        except (OSError, ValueError, TypeError, KeyError):
            self._time = oldest
        self._looked_at = boot_time_s()

    def now(self) -> float:
        """Seconds since 1970; saves them."""
        passed_s = boot_time_s() - self._looked_at
        self._looked_at += passed_s
        self._time += passed_s
        wall = time.time()
        if wall - self._time <= _JUMP_S:
            self._time, self._ahead_s = max(wall, self._time), 0.0
        else:
            if self._ahead_s == 0.0:
                text = "the clock has jumped %s ahead; nothing is deleted for age unless it lasts %.0f hours"
                ahead = str(timedelta(seconds=round(wall - self._time))).partition(",")[0]
                logger.warning(text, ahead, BELIEVED_AFTER_S / 3600)
            self._ahead_s += max(passed_s, 1.0)
            if self._ahead_s > BELIEVED_AFTER_S:
                self._time, self._ahead_s = wall, 0.0
        content = json.dumps({"time": self._time, "ahead_s": self._ahead_s}).encode() + b"\n"
        with suppress(OSError):  # a full disk must not keep it full
            replace_file(self._path, content, durable=False, mode=PRIVATE_FILE)
        return min(wall, self._time)


_Due = tuple[str, Segment, str]  # camera, segment beyond a limit, and which: age, size or free


class Retention:
    """Deletes what is older, or more, than may be kept; in a thread of its own.

    What is deleted is announced a run before, at most `SEGMENTS_PER_RUN` at a time, and recorded in the
    journal itself. Nothing goes that is not published, that is held, or that is still being written.
    `segments` counts what was deleted, by camera and reason (age, size, free).
    """

    def __init__(
        self,
        settings: RetentionSettings,
        journals: Mapping[str, Journal],
        evidence: EvidenceStore,
        key: SigningKey | None = None,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.segments: Counter[tuple[str, str]] = Counter()
        self._settings, self._journals, self._evidence, self._key = settings, journals, evidence, key
        self._folder = evidence.folder.with_name("journal")
        self._clock: SteadyClock | None = None
        self._announced: set[Path] = set()
        self._swept = False
        self._faults = Faults()
        self.loop = Loop(
            "retention", self._turn, _EVERY_S, heartbeats=heartbeats, within_s=_WITHIN_S, at_once=True
        )

    def run(self) -> None:
        """Delete what the last run announced, where it is still due, and announce what comes next."""
        self._remove_files()  # what a crash has left
        self._sweep()
        due = self._due()
        if any(segment.path in self._announced and reason == "size" for _, segment, reason in due):
            self._evidence.recount()  # people may have removed pictures
            due = self._due()
        ready = [each for each in due if each[1].path in self._announced]
        for camera in {camera: None for camera, _, _ in ready}:
            self._delete(camera, [each for each in ready if each[0] == camera])
        if ready:
            self._remove_files()
            due = self._due()
        for camera, segment, reason in due:
            if segment.path not in self._announced:
                text = "camera %s: %s (%d bytes) will be deleted in %.0f s (retention.%s)"
                logger.warning(text, camera, segment.path, segment.size, _EVERY_S, reason)
        self._announced = {segment.path for _, segment, _ in due}
        reserve = self._folder.with_name("reserve")
        with suppress(OSError):
            if not reserve.exists() and shutil.disk_usage(reserve.parent).free > 2 * RESERVE_BYTES:
                replace_file(reserve, os.urandom(RESERVE_BYTES), durable=False, mode=PRIVATE_FILE)

    def _due(self) -> list[_Due]:
        """Segments beyond a limit, the oldest of all cameras first, and no more than a run may delete."""
        segments = sorted(
            (written, camera, segment.first, segment)
            for camera, journal in list(self._journals.items())
            for written, segment in _segments_with_age(journal)
        )
        age_s = self._settings.age
        before = float("-inf") if age_s is None else self._now() - age_s
        excess = self._excess()
        due, stays = list[_Due](), set[str]()  # a chain has one beginning: what follows stays as well
        holds, now = load_holds(self._folder), datetime.now(UTC)
        for written, camera, _, segment in segments:
            over = [reason for reason, size in excess.items() if size > 0]
            if len(due) == SEGMENTS_PER_RUN or not (over or written < before):
                break
            if camera in stays or not self._may_go(camera, segment, holds, now):
                stays.add(camera)
                continue
            due.append((camera, segment, "age" if written < before else over[0]))
            freed = self._size(segment) if over else 0
            excess = {reason: size - freed for reason, size in excess.items()}
        return due

    def _may_go(self, camera: str, segment: Segment, holds: Sequence[Hold], now: datetime) -> bool:
        """True where a segment is published and not held; one that cannot be read stays."""
        with self._faults.noted(camera, f"camera {camera}: retention deletes nothing", RecordError, OSError):
            first, last = segment.first_record(), segment.last_record()
            journal = self._journals.get(camera)  # None: it was removed meanwhile
            is_published = journal is not None and last.seq <= journal.published.seq
            return is_published and not any(hold.covers(first, last, now) for hold in holds)
        return False  # type: ignore[unreachable]  # an error is noted

    def _now(self) -> float:
        if self._clock is None:
            paths = [journal.path for journal in list(self._journals.values())]
            written = [path.stat().st_mtime for path in paths if path.exists()]
            if not written:
                return 0.0
            self._clock = SteadyClock(self._folder.with_name("clock"), max(written))
        return self._clock.now()

    def _delete(self, camera: str, due: list[_Due]) -> None:
        """Record in the chain that a camera's oldest segments are deleted, then let the chain begin later."""
        journal, last = self._journals.get(camera), due[-1][1].last_record()
        if journal is None:
            return
        if shutil.disk_usage(self._folder).free < RESERVE_BYTES:
            self._folder.with_name("reserve").unlink(missing_ok=True)
        # before what is held, which may be more than the reserve
        journal.append(_deletion(due[0][1].first_record(), last, due[0][2]), may_wait=False)
        journal.delete(last, self._key)
        self.loop.beat()
        self.segments.update((camera, reason) for _, _, reason in due)

    def _remove_files(self) -> None:
        """Remove deleted segments, and before, as a crash must lose none, pictures that only they name."""
        journals = list(self._journals.values())
        deleted = [(journal, segment) for journal in journals for segment in journal.deleted]
        if deleted:
            gone = {segment.path for _, segment in deleted}
            named = set[str]().union(*map(_digests_in, gone))
            self._evidence.remove(self._unnamed(named, journals, gone))
        for journal, segment in deleted:
            size = segment.size
            journal.unlink(segment)
            logger.info("camera %s: %s (%d bytes) was deleted", journal.camera, segment.path, size)

    def _sweep(self) -> None:
        """Once, remove old pictures of narrations that were lost before they were journalled."""
        if not self._swept and self._settings.age is not None:
            old = set(self._evidence.older_than(self._now() - self._settings.age))
            self._evidence.remove(self._unnamed(old, list(self._journals.values()), set()) if old else ())
            self._swept = True

    def _unnamed(self, digests: set[str], journals: list[Journal], gone: set[Path]) -> set[str]:
        """Select the digests that only records in the files `gone` name."""
        while True:
            paths = {*self._folder.glob("*.jsonl")} - gone  # also of cameras removed since
            left = set(digests)
            for path in paths:
                self.loop.beat()
                with suppress(FileNotFoundError), path.open("rb") as file:
                    for line in file:
                        left -= references(line)
            for journal in journals:
                left -= journal.held_references()
            if paths == {*self._folder.glob("*.jsonl")} - gone:  # else a segment was closed meanwhile
                return left

    def _size(self, segment: Segment) -> int:
        paths = [self._evidence.find(digest) for digest in _digests_in(segment.path)]
        return segment.size + sum(path.stat().st_size for path in paths if path)

    def _excess(self) -> dict[str, int]:
        excess = dict[str, int]()
        if self._settings.size is not None:
            kept = sum(journal.size for journal in list(self._journals.values())) + self._evidence.size()
            excess["size"] = kept - self._settings.size
        if self._settings.free is not None:
            with suppress(FileNotFoundError):  # the folder could not be made yet: there is nothing to delete
                excess["free"] = self._settings.free - shutil.disk_usage(self._folder).free
        return excess

    def _turn(self) -> None:
        with self._faults.noted("", "retention deletes nothing", JournalError, RecordError, OSError):
            self.run()


def _segments_with_age(journal: Journal) -> Iterator[tuple[float, Segment]]:
    """The closed segments with the time of their last write; the next one's, where a clock was ahead."""
    now, times, written = time.time(), [math.inf], 0.0
    closed = journal.full
    for segment in reversed(closed):
        stated = segment.path.stat().st_mtime
        times.append(stated if stated <= now else times[-1])
    for segment, stated in zip(closed, times[:0:-1], strict=True):
        written = max(written, stated)
        yield written, segment


def _digests_in(path: Path) -> set[str]:
    with path.open("rb") as file:
        return {digest for line in file for digest in references(line)}


def _deletion(first: Record, last: Record, reason: str) -> Narration:
    """The chain's record of a deletion, from the record `first` to the record `last`."""
    now, count = datetime.now(UTC), last.seq - first.seq + 1
    times = f"from {first.after.time} to {last.after.time}"
    text = f"{many(count, 'record')} {times} {'was' if count == 1 else 'were'} deleted (retention.{reason})."
    before, after = (FrameStamp(f.moment, f.pts, f.sha256) for f in (first.before, last.after))
    return Narration(
        id=f"{last.camera}-{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z-{last.hash[:12]}",
        camera=last.camera,
        before=before,
        after=after,
        clock=Clock(last.clock),
        event=RecordEvent.DELETION,
        sentences=(Sentence(text, "none", "scene", None, 0.0, 1.0),),
        l2=0.0,
        model=ModelStamp(last.model.name, last.model.sha256),
        settings_sha256=last.config_sha256,
        deletion={
            "reason": "age" if reason == "age" else "size",
            "time": format_time(now),
            "records": count,
            "first_seq": first.seq,
            "last_seq": last.seq,
            "last_hash": last.hash,
        },
    )
