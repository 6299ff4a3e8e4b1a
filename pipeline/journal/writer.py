"""Writing one camera's journal."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from pipeline.disk import PRIVATE_FILE, replace_file
from pipeline.evidence import references
from pipeline.journal.chain import JournalError, check_line, follow
from pipeline.journal.segment_writer import JournalLockedError, SegmentLimits, SegmentWriter
from pipeline.journal.segments import Segment, Start, line_end
from pipeline.record import (
    ChainEnd,
    Evidence,
    Record,
    RecordError,
    build_record,
    check_camera,
    hash_holds,
    parse_stream_id,
    read_record,
)

if TYPE_CHECKING:  # types only: reading journals must not wait for torch, nor for cryptography
    from pipeline.journal.signatures import SigningKey
    from pipeline.narration.narration import Narration

_log = logging.getLogger(__name__)

_DAY = len("2026-05-01")
_UNLIMITED = SegmentLimits()


@dataclass(frozen=True, slots=True)
class Position:
    """How far a camera's journal has been published: number, hash and stream id (``<ms>-<seq>``) of a record.

    The saved one is a hint: what of it does not fit the journal is found on the stream.
    """

    seq: int = 0
    hash: str = ChainEnd().hash
    stream_id: str = "0-0"

    @classmethod
    def of(cls, end: ChainEnd) -> Position:
        """The place behind a record."""
        ms, sequence = end.stream_id
        return cls(end.seq, end.hash, f"{ms}-{sequence}")

    @classmethod
    def load(cls, path: Path) -> Position | None:
        """The saved position, or None where there is none that can be read."""
        try:
            members = json.loads(path.read_bytes())
            position = cls(int(members["seq"]), str(members["hash"]), str(members["stream_id"]))
            parse_stream_id(position.stream_id)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return position if position.seq >= 0 else None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Lines (without their ends) that are to be published, and the position behind the last of them."""

    lines: tuple[bytes, ...]
    behind: Position


class Journal:
    """One camera's append-only, hash-chained journal ``<folder>/<camera>.jsonl`` and its only writer.

    A last line that a crash tore is moved to ``<camera>.torn`` at opening, and the chain goes on behind the
    last whole line. `append` may run in one thread while others publish, acknowledge and delete.

    Where `hold` allows it, no disk ends the narrating. While the disk takes no lines, they are held in memory
    in their order, can be published from there, and are written as soon as it takes them. While the journal
    cannot even be opened (unreadable, damaged, not mounted), narrations are held until it can.

    Args:
        folder: made if it is missing.
        camera: see `pipeline.record.check_camera`.
        fsync: wait for the disk at every append. Without it a power failure may take the last lines.
        limits: when a new segment is begun; by default never.
        hold: lines and narrations held at most; 0 raises instead.

    Attributes:
        path: the segment that is being written.
        found: the last record that was on disk at opening.
        trouble: why the journal cannot be read or written now, empty normally.

    Raises:
        RecordError: the camera's name cannot be used.
        JournalLockedError: another writer has the journal.
        JournalError: without `hold`, the journal cannot be opened.
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
        self.camera, self.folder, self.trouble = check_camera(camera), folder, ""
        self.path = folder / f"{camera}.jsonl"
        self.found, self._end, self._published = ChainEnd(), ChainEnd(), Position()
        self._limits, self._fsync, self._hold = limits, fsync, hold
        self._lock = RLock()
        self._file: SegmentWriter | None = None
        self._held: list[bytes] = []
        self._waiting: list[tuple[Narration, dict[str, Any]]] = []  # for the journal to be opened
        self._places: dict[int, tuple[int, int]] = {}  # segment and byte behind some records, by seq
        self._saved_at, self._unsaved, self._closed = folder / f"{camera}.published", False, False
        try:
            self._open()
        except JournalLockedError:
            raise
        except (JournalError, OSError) as error:
            self._report(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the journal up to other writers; closing twice is harmless."""
        with self._lock:
            if not self._closed and not self.flush():
                _log.error("%s: %d narrations are not on disk, at best on the stream", self.path, self.held)
            self._closed = True
            if self._file:
                self._file.close()

    @property
    def end(self) -> ChainEnd:
        """The last record's number and hash."""
        return self._end

    @property
    def writer(self) -> str:
        """Names this journal, also in its next run; empty while it cannot be opened."""
        return self._file.token if self._file else ""

    @property
    def is_open(self) -> bool:
        """False while the journal cannot be opened: then nothing is known of its chain."""
        return self._file is not None

    @property
    def held(self) -> int:
        """Narrations that wait in memory for the disk."""
        return len(self._held) + len(self._waiting)

    def held_references(self) -> set[str]:
        """Digests of the pictures that they name."""
        with self._lock:
            waiting = [members["evidence"] for _, members in self._waiting if members["evidence"]]
            named = {name for evidence in waiting for _, name in evidence if name}
            return references(b"".join(self._held)) | {name.removeprefix("sha256:") for name in named}

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments())

    @property
    def published(self) -> Position:
        """How far the journal has been published."""
        return self._published

    def append(
        self,
        narration: Narration,
        *,
        suppressed: int = 0,
        latency_ms: Mapping[str, float] | None = None,
        evidence: Evidence | None = None,
    ) -> Record | None:
        """Write the next record; when this returns it is on disk (with `fsync`), or held (see the class).

        The arguments are those of `pipeline.record.build_record`.

        Returns:
            The record; None where the narration is held until the journal can be opened.

        Raises:
            RecordError: the narration does not fit the schema or is another camera's.
            JournalError: the disk fails and no more may be held; nothing of the line stays.
        """
        if narration.camera != self.camera:
            raise RecordError(f"narration {narration.id} is of {narration.camera}, not of {self.camera}")
        members = {"suppressed": suppressed, "latency_ms": latency_ms, "evidence": evidence}
        with self._lock:
            if self._closed:
                raise JournalError(f"{self.path} is closed")
            if not self.flush() and self._file is None:
                self._check_room(1)
                self._waiting.append((narration, members))
                return None
            return self._append(narration, members)

    def adopt(self, lines: Iterable[bytes]) -> tuple[int, str]:
        """Append lines (without their ends) that an earlier run published and could not write.

        Returns:
            How many were appended; why the next one does not continue the chain, empty where all do. Its
            stream id is not compared: it may be the one that is known to be used.

        Raises:
            JournalError: as `append`.
        """
        with self._lock:
            records, place, reason = list[Record](), ChainEnd(self._end.seq, self._end.hash), ""
            for line in lines:
                try:
                    record = check_line(line + b"\n")
                    place = follow(place, record)
                except RecordError as error:
                    reason = str(error)
                    break
                if record.camera != self.camera:
                    reason = f"a record is of {record.camera}"
                    break
                records.append(record)
            if records:
                self._add([record.line() + b"\n" for record in records], records[0].after.time[:_DAY])
                self._end = ChainEnd(place.seq, place.hash, max(self._end.stream_id, place.stream_id))
        return len(records), reason

    def flush(self) -> bool:
        """Try to open the journal and to write what is held; True where nothing is held any more."""
        with self._lock:
            waited = self.held
            try:
                if self._file is None:
                    self._open()
                if self.trouble and self._file:
                    self._file.open()
                if self._held and self._file:
                    self._file.write(b"".join(self._held), read_record(self._held[0]).after.time[:_DAY])
                    self._held.clear()
                while self._waiting and not self._held:
                    self._append_waiting()
            except (JournalError, OSError) as error:
                self._report(error)
            if self.held or self._file is None:
                return False
            if self.trouble:
                _log.warning("%s is written again; %d held narrations are on disk", self.path, waited)
            self.trouble = ""
            return True

    def __iter__(self) -> Iterator[Record]:
        """All records, oldest first, those that are held included."""
        with self._lock:
            lines = [line for line, _ in self._walk(self._segments()[0].first, 0)]
        return map(read_record, lines)

    def backlog(self, count: int) -> Backlog:
        """At most `count` lines that are not acknowledged yet, oldest first, and the position behind them.

        Raises:
            JournalError: the journal cannot be read, or a line was damaged since it was written.
        """
        with self._lock:
            before = self._published
            segment, offset = self._place(before.seq)
            found = list(islice(self._walk(segment, offset), count))
            if not all(hash_holds(line[:-1]) for line, _ in found):  # nothing damaged is ever published
                raise self._damaged("a hash does not match")
            if not found:
                return Backlog((), before)
            line, place = found[-1]
            end = self._line_end(line)
            self._places = {before.seq: (segment, offset), end.seq: place}
            return Backlog(tuple(line[:-1] for line, _ in found), Position.of(end))

    def find(self, stream_id: str) -> tuple[Position, Record | None]:
        """The last record whose stream id is not greater, and the place behind it.

        Returns:
            The start of what is left of the journal, and None, where there is no such record.

        Raises:
            JournalError: the journal cannot be read, or a line is not a record.
        """
        wanted = parse_stream_id(stream_id)
        position, line = self._last(lambda end: end.stream_id <= wanted)
        try:
            return position, read_record(line) if line else None
        except RecordError as error:
            raise self._damaged(str(error)) from None

    def behind_seq(self, seq: int) -> Position:
        """The place behind record `seq`; the start of what is left where that is gone; raises as `find`."""
        return self._last(lambda end: end.seq <= seq)[0]

    def acknowledge(self, position: Position) -> None:
        """Remember that everything up to `position` has been published.

        Where the folder cannot be written the position counts until the process ends; after that the stream
        itself tells how far publishing came.
        """
        with self._lock:
            self._published = position
            content = json.dumps(asdict(position)).encode() + b"\n"
            try:
                replace_file(self._saved_at, content, durable=False, mode=PRIVATE_FILE)
                self._unsaved = False
            except OSError as error:
                if not self._unsaved:
                    reason = error.strerror or error
                    _log.warning("cannot save %s: %s; free space or fix permissions", self._saved_at, reason)
                self._unsaved = True

    def closed(self) -> list[Segment]:
        """The segments that are not written any more, oldest first."""
        with self._lock:
            return list(self._file.full) if self._file else []

    def deleted(self) -> list[Segment]:
        """Segments that were deleted from the chain and whose files are still there."""
        with self._lock:
            return list(self._file.deleted) if self._file else []

    def delete(self, last: Record, key: SigningKey | None = None) -> None:
        """Delete the oldest segments from the chain, of which `last` is the last record.

        Their files stay until `unlink`; a record that says so should be in the chain before. It is the
        caller's to see that all of them is published.

        Args:
            last: last record of a closed segment.
            key: signs where the chain begins from now on.

        Raises:
            JournalError: the folder cannot be written.
        """
        with self._lock:
            try:
                self._writer.move_start(
                    key.sign_start(self.camera, ChainEnd.of(last)) if key else Start(last.seq, last.hash)
                )
            except OSError as error:
                raise JournalError(f"cannot delete segments of {self.path}: {error}") from error
            self._places.clear()

    def unlink(self, segment: Segment) -> None:
        """Remove the file of a deleted segment.

        Raises:
            JournalError: the folder cannot be written.
        """
        with self._lock:
            try:
                self._writer.unlink(segment)
            except OSError as error:
                raise JournalError(f"cannot delete {segment.path}: {error}") from error

    @property
    def _writer(self) -> SegmentWriter:
        if self._file is None:
            raise JournalError(f"{self.path} cannot be opened: {self.trouble}")
        return self._file

    def _segments(self) -> list[Segment]:
        with self._lock:
            return self._file.segments if self._file else [Segment(self.path, 1)]

    def _open(self) -> None:
        """Open the journal and find out how far it was published.

        Raises:
            JournalError, OSError: as `SegmentWriter`.
        """
        self._file = file = SegmentWriter(self.folder, self.camera, self._limits, fsync=self._fsync)
        self._end = self.found = file.end
        try:
            self._published = self._saved_position()
            file.open()
        except OSError as error:
            self._report(error)
        except BaseException:
            file.close()
            self._file = None
            raise

    def _saved_position(self) -> Position:
        """Where publishing goes on.

        A position behind the end names lines that were published and are gone (power failure without fsync,
        held in memory and killed): their stream ids are never used again.
        """
        stated, origin = Position.load(self._saved_at), self._origin()
        if stated is None or stated.seq == 0:
            return origin
        if stated.seq > self._end.seq:
            used = max(self._end.stream_id, parse_stream_id(stated.stream_id))
            self._end = ChainEnd(self._end.seq, self._end.hash, used)
        elif stated.seq == origin.seq and stated.hash == origin.hash:
            return stated
        else:
            position = self.behind_seq(stated.seq)
            if position == stated:
                return position
        _log.warning("%s does not fit the journal; publishing starts from the first line", self._saved_at)
        return origin

    def _report(self, error: JournalError | OSError) -> None:
        """From now on narrations are held, where that is allowed.

        Raises:
            JournalError: it is not.
        """
        reason = str(error) if isinstance(error, JournalError) else error.strerror or str(error)
        if not self._hold:
            if isinstance(error, JournalError):
                raise error
            raise JournalError(
                f"cannot read or write the journal {self.path}: {reason}; "
                "choose a folder that this user may write to"
            ) from error
        if not self.trouble:
            _log.error(
                "camera %s: its journal %s cannot be used: %s; narrations are held in memory (%d at most) "
                "until that is put right",
                *(self.camera, self.path, reason, self._hold),
            )
        self.trouble = reason

    def _check_room(self, count: int) -> None:
        """Raise JournalError where no more may be held."""
        if self.held + count > self._hold:
            raise JournalError(
                f"{self.path} cannot be written ({self.trouble}) and {self.held} narrations are held "
                "already; put that right"
            )

    def _append(self, narration: Narration, members: dict[str, Any]) -> Record:
        record = build_record(narration, self._end, **members)
        self._add([record.line() + b"\n"], record.after.time[:_DAY])
        self._end = ChainEnd.of(record)
        return record

    def _add(self, lines: list[bytes], day: str) -> None:
        """Write lines, or hold them."""
        if not self._held:
            try:
                if self._writer.is_due(day):
                    self._writer.begin_segment(self._end.seq + 1)
                self._writer.write(b"".join(lines), day)
            except OSError as error:
                if not self._hold:
                    raise JournalError(
                        f"cannot append to {self.path}: {error.strerror or error}; free space on that disk. "
                        "The journal is unchanged"
                    ) from error
                self._report(error)
            else:
                return
        self._check_room(len(lines))
        self._held += lines

    def _append_waiting(self) -> None:
        narration, members = self._waiting[0]
        try:
            self._append(narration, members)
        except RecordError as error:
            _log.error("%s: not recorded: %s", self.camera, error)
        self._waiting.pop(0)

    def _origin(self) -> Position:
        """The start of what is left of the journal."""
        return Position.of(self._writer.start() if self._segments()[0].first > 1 else ChainEnd())

    def _place(self, seq: int) -> tuple[int, int]:
        """Segment and byte behind record `seq`, or the start of what is left."""
        if seq not in self._places:
            self.behind_seq(seq)
        return self._places.get(seq, (self._segments()[0].first, 0))

    def _last(self, reached: Callable[[ChainEnd], bool]) -> tuple[Position, bytes]:
        """The place behind the last record that is `reached`, as no later one is, and its line."""
        with self._lock:
            found, line, begin = self._origin(), b"", self._segments()[0].first
            for segment in self.closed() + self._segments()[-1:]:
                with suppress(OSError), segment.path.open("rb") as file:
                    first = line_end(file.readline())
                    begin = segment.first if first and reached(first) else begin
            for raw, place in self._walk(begin, 0):
                end = self._line_end(raw)
                if not reached(end):
                    break
                found, line = Position.of(end), raw
                self._places = {end.seq: place}
            return found, line

    def _walk(self, first: int, offset: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """The lines behind a place, each with the place behind it; first those on disk, then those held.

        The lock must be held: no segment may begin meanwhile.

        Raises:
            JournalError: a file cannot be read.
        """
        for segment in self._segments():
            if segment.first < first:
                continue
            place = offset if segment.first == first else 0
            for raw in self._lines(segment, place):
                place += len(raw)
                yield raw, (segment.first, place)
            if segment.path == self.path:
                held_from = self._writer.size
                for raw in self._held:
                    held_from += len(raw)
                    if held_from > place:
                        yield raw, (segment.first, held_from)

    def _lines(self, segment: Segment, offset: int) -> Iterator[bytes]:
        """The whole lines of a segment from a byte on."""
        size = self._writer.size if segment.path == self.path else segment.size
        if offset >= size:
            return
        try:
            with segment.path.open("rb") as file:
                file.seek(offset)
                while offset < size:
                    raw = file.readline()
                    if not raw.endswith(b"\n"):
                        raise JournalError(f"{segment.path} was cut by another program")
                    offset += len(raw)
                    yield raw
        except OSError as error:
            raise JournalError(f"cannot read {segment.path}: {error.strerror or error}") from error

    def _line_end(self, raw: bytes) -> ChainEnd:
        end = line_end(raw)
        if end is None:
            raise self._damaged("a line is not a record")
        return end

    def _damaged(self, reason: str) -> JournalError:
        return JournalError(
            f"{self.path} is damaged ({reason}); `narrated verify {self.folder}` names the line"
        )
