"""Writing one camera's journal."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from pipeline.disk import PRIVATE_FILE, replace_file
from pipeline.journal.segments import (
    JournalError,
    JournalLockedError,
    SegmentLimits,
    SegmentWriter,
    line_end,
    load_end,
    read_record,
)
from pipeline.loop import Faults
from pipeline.record_format import ChainEnd, RecordError, check_camera, format_stream_id, hash_holds

if TYPE_CHECKING:  # types only: reading journals must not wait for torch, cryptography or the model
    from pipeline.journal.signatures import SigningKey
    from pipeline.narration.narration import Narration
    from pipeline.record import Evidence, Record

_log = logging.getLogger(__name__)

_UNLIMITED = SegmentLimits()


class Journal(SegmentWriter):
    """The only writer of a camera's append-only, hash-chained journal ``<folder>/<camera>.jsonl``.

    `append` may run in one thread while others publish, acknowledge and delete. Without `fsync` a power
    failure may take the last lines. `hold` narrations at most wait in memory while the journal cannot be
    opened or written; 0 raises JournalError instead. Another writer raises JournalLockedError.
    """

    def __init__(
        self,
        folder: Path,
        camera: str,
        *,
        fsync: bool = True,
        limits: SegmentLimits = _UNLIMITED,
        hold: int = 0,
    ) -> None:
        super().__init__(folder, check_camera(camera), limits, fsync=fsync)
        self.trouble = ""  # why the journal cannot be read or written now
        # ``<camera>.published`` is a hint: where it does not fit the journal, the stream says how far it is
        self.published = ChainEnd()
        self._hold, self._lock = hold, RLock()
        self._held: list[tuple[Narration, dict[str, Any]]] = []
        self._places: dict[int, tuple[int, int]] = {}  # segment and byte behind some records, by seq
        self._saved_at, self._unsaved, self._closed = folder / f"{camera}.published", Faults(), False
        try:
            self._open()
        except JournalLockedError:
            raise
        except (JournalError, OSError) as error:
            if not hold:
                self.release()
            self._report(error)
        except BaseException:
            self.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if not self._closed and not self.flush() and self.held:
                _log.error("%s: narrations lost: %d: %s", self.path, self.held, self.trouble)
            self._closed = True
            self.release()

    @property
    def held(self) -> int:
        return len(self._held)

    def held_references(self) -> set[str]:
        with self._lock:
            kept = [members["evidence"] for _, members in self._held if members["evidence"]]
            return {name.removeprefix("sha256:") for evidence in kept for _, name in evidence if name}

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(
        self,
        narration: Narration,
        *,
        suppressed: int = 0,
        latency_ms: Mapping[str, float] | None = None,
        evidence: Evidence | None = None,
        may_wait: bool = True,
    ) -> Record | None:
        """Write the next record, see `build_record`; when this returns it is on disk (with `fsync`).

        Returns None where the narration is held; one that may not wait goes before those. RecordError where
        it does not fit the schema or is another camera's, JournalError where it is neither written nor held.
        """
        if narration.camera != self.camera:
            raise RecordError(f"narration {narration.id} is of {narration.camera}, not of {self.camera}")
        members = {"suppressed": suppressed, "latency_ms": latency_ms, "evidence": evidence}
        with self._lock:
            if self._closed:
                raise JournalError(f"{self.path} is closed")
            if not self.is_there:
                _log.error("%s was moved, removed or cut by another program: a new one begins", self.path)
                self.release()
                self.trouble = "it was moved, removed or cut"
            if not may_wait or self.flush():
                try:
                    return self._append(narration, members)
                except OSError as error:
                    self._report(error)
            if self.held >= self._hold or not may_wait:
                raise JournalError(f"{self.path}: {self.trouble}; narrations held already: {self.held}")
            self._held.append((narration, members))
            return None

    def flush(self) -> bool:
        """Try to open the journal and to write held narrations; True where it takes lines."""
        with self._lock:
            if self._closed or not self.trouble:  # what is closed is not opened again: its lock would stay
                return not self.trouble
            held = self.held
            try:
                if not self.is_open:
                    self._open()
                self.open()
                while self._held:
                    try:
                        self._append(*self._held[0])
                    except RecordError as error:
                        _log.error("camera %s: not recorded: %s", self.camera, error)
                    self._held.pop(0)
            except (JournalError, OSError) as error:
                self._report(error)
                return False
            _log.warning("%s is writable again; held narrations now on disk: %d", self.path, held)
            self.trouble = ""
            return True

    def backlog(self, count: int) -> tuple[list[bytes], ChainEnd]:
        """At most `count` lines (without ends) that are not acknowledged yet, and the chain up to there."""
        with self._lock:
            before = self.published
            if before.seq not in self._places:
                self._last(lambda end: end.seq <= before.seq)
            place = self._places.get(before.seq, (0, 0))
            lines = list(islice(self._walk(*place), count))
            if not all(hash_holds(raw[:-1]) for _, raw, _ in lines):  # nothing damaged is ever published
                raise self._damaged(self.path, "(a hash does not match)")
            if not lines:
                return [], before
            last, _, behind = lines[-1]
            self._places = {before.seq: place, last.seq: behind}
            return [raw[:-1] for _, raw, _ in lines], last

    def find(self, stream_id: tuple[int, int]) -> tuple[ChainEnd, Record | None]:
        """The last record whose stream id is not greater; without one, where the journal begins, and None."""
        end, line = self._last(lambda end: end.stream_id <= stream_id)
        try:
            return end, read_record(line) if line else None
        except RecordError as error:
            raise self._damaged(self.path, f"({error})") from None

    def end_at(self, seq: int) -> ChainEnd:
        """The chain up to record `seq`, or where the journal begins if that is later."""
        return self._last(lambda end: end.seq <= seq)[0]

    def acknowledge(self, end: ChainEnd) -> None:
        """Note that everything up to `end` is published, in memory only where the folder takes no file."""
        with self._lock:
            self.published = end
            members = {"seq": end.seq, "hash": end.hash, "stream_id": format_stream_id(end.stream_id)}
            content = json.dumps(members).encode() + b"\n"
            with self._unsaved.noted("", "what was published is not noted on the disk", OSError):
                replace_file(self._saved_at, content, durable=False, mode=PRIVATE_FILE)

    def delete(self, last: Record, key: SigningKey | None = None) -> None:
        """Let the chain begin behind `last`, the last record of a full segment; `key` signs that.

        The files stay until `unlink`. The caller makes sure that they are published, and records the deletion
        before. Raises `OSError`.
        """
        start = ChainEnd.of(last)
        signed = key.sign_start(self.camera, start) if key else b""
        with self._lock:
            self._require_open()
            self.move_start(start, signed)
            self._places.clear()

    def _open(self) -> None:
        """Open the journal and find out how far it was published; raises as `resume`, or `OSError`."""
        self.resume()
        try:
            stated, self.published = load_end(self._saved_at) or ChainEnd(), self._origin()
            if stated.seq > self.end.seq:
                # A power failure took lines that were published: their stream ids are never used again.
                self.end = ChainEnd(self.end.seq, self.end.hash, max(self.end.stream_id, stated.stream_id))
            elif stated.hash == self.published.hash or self.end_at(stated.seq) == stated:
                self.published = stated
        except BaseException:
            self.release()
            raise
        if self.published.seq != stated.seq:
            _log.warning("%s does not fit the journal; publishing starts from the first line", self._saved_at)
        self.open()

    def _report(self, error: JournalError | OSError) -> None:
        """Hold narrations from now on; raises `JournalError` where none may be held."""
        reason = str(error) if isinstance(error, JournalError) else error.strerror or str(error)
        if not self._hold:
            advice = "free space, or choose a folder that this user may write to"
            raise JournalError(f"cannot read or write the journal {self.path}: {reason}; {advice}") from error
        if not self.trouble:
            text = "%s cannot be used: %s; narrations are held in memory (%d at most) until this is fixed"
            _log.error(text, self.path, reason, self._hold)
        self.trouble = reason

    def _append(self, narration: Narration, members: dict[str, Any]) -> Record:
        from pipeline.record import build_record  # noqa: PLC0415

        self._require_open()
        record = build_record(narration, self.end, **members)
        self.write(record.line() + b"\n", record)
        self.end = ChainEnd.of(record)
        return record

    def _require_open(self) -> None:
        if not self.is_open:
            raise JournalError(f"{self.path} cannot be opened: {self.trouble}")

    def _origin(self) -> ChainEnd:
        return self.start() if self.segments[0].first > 1 else ChainEnd()

    def _last(self, reached: Callable[[ChainEnd], bool]) -> tuple[ChainEnd, bytes]:
        """The last record for which `reached` is true, and its line; it is false for all later ones."""
        with self._lock:
            end, line, begin = self._origin(), b"", 0
            for segment in self.segments:
                first = next(self._walk(segment.first), None)
                if first and reached(first[0]):
                    begin = segment.first
            for later, raw, place in self._walk(begin):
                if not reached(later):
                    break
                end, line, self._places = later, raw, {later.seq: place}
            return end, line

    def _walk(self, first: int = 0, offset: int = 0) -> Iterator[tuple[ChainEnd, bytes, tuple[int, int]]]:
        """The complete lines behind a place (segment, byte), each between its end of the chain and its place.

        The caller holds the lock.
        """
        self._require_open()
        for segment in self.segments:
            place = offset if segment.first == first else 0
            size = self._written if segment.path == self.path else segment.size
            if segment.first < first or place >= size:
                continue
            try:
                with segment.path.open("rb") as file:
                    file.seek(place)
                    while place < size:
                        raw = file.readline()
                        if not raw.endswith(b"\n"):
                            raise JournalError(f"{segment.path} was cut by another program")
                        place += len(raw)
                        if (end := line_end(raw)) is None:
                            raise self._damaged(segment.path, "(a line is not a record)")
                        yield end, raw, (segment.first, place)
            except OSError as error:
                raise JournalError(f"cannot read {segment.path}: {error.strerror or error}") from error
