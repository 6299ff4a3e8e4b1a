"""Writing and reading one camera's journal."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from pipeline.journal.position import Position
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

if TYPE_CHECKING:  # a type only: reading journals must not wait for torch
    from pipeline.narration import Narration

_log = logging.getLogger(__name__)
_BLOCK = 65536


class JournalError(Exception):
    """A journal cannot be opened, read or written; the message says what to do. The file is still valid."""


class Journal:
    """One camera's append-only, hash-chained journal ``<folder>/<camera>.jsonl`` and its only writer.

    A last line that a crash tore is moved to ``<camera>.torn`` at opening, and the chain goes on behind the
    last whole line. `append` may run in one thread while another iterates and acknowledges.

    Args:
        folder: made if it is missing.
        camera: see `pipeline.record.check_camera`.
        fsync: wait for the disk at every append. Without it a power failure may take the last lines.

    Attributes:
        path: the journal's file.
        torn_bytes: how many bytes of a torn last line were cut off at opening; 0 normally.

    Raises:
        RecordError: the camera's name cannot be used.
        JournalError: the folder cannot be written, another writer holds the journal, or its end is damaged.
    """

    def __init__(self, folder: Path, camera: str, *, fsync: bool = True) -> None:
        self.camera = check_camera(camera)
        self.path = folder / f"{camera}.jsonl"
        self.torn_bytes = 0
        self._published_path = folder / f"{camera}.published"
        self._fsync = fsync
        self._lock = Lock()
        self._file = self._open(folder)
        try:
            self._size, self._end = self._resume()
            self._published = self._load_position()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the journal up to other writers; closing twice is harmless."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    @property
    def end(self) -> ChainEnd:
        """The last record's number and hash."""
        return self._end

    def append(
        self,
        narration: Narration,
        *,
        suppressed: int = 0,
        latency_ms: Mapping[str, float] | None = None,
        evidence: Evidence | None = None,
    ) -> Record:
        """Write the next record; when this returns it is on disk (with `fsync`).

        The arguments are those of `pipeline.record.build_record`.

        Raises:
            RecordError: the narration does not fit the schema or is another camera's.
            JournalError: the disk is full or fails; nothing of the line stays in the file.
        """
        if narration.camera != self.camera:
            raise RecordError(f"narration {narration.id} is of {narration.camera}, not of {self.camera}")
        with self._lock:
            if self._file < 0:
                raise JournalError(f"{self.path} is closed")
            record = build_record(
                narration, self._end, suppressed=suppressed, latency_ms=latency_ms, evidence=evidence
            )
            self._write(record.line() + b"\n")
            self._end = ChainEnd.of(record)
        return record

    def __iter__(self) -> Iterator[Record]:
        """All records, oldest first, as far as they were written when the iteration came there."""
        return (record for record, _ in self._records(0))

    @property
    def published(self) -> Position:
        """How far the journal has been published."""
        return self._published

    def pending(self) -> Iterator[tuple[Record, Position]]:
        """The records that are not acknowledged yet, each with the position behind it, oldest first."""
        return self._records(self._published.offset)

    def acknowledge(self, position: Position) -> None:
        """Remember that everything up to `position` has been published.

        Raises:
            JournalError: the position cannot be saved. It counts until the process ends; after that the
                records are published again under the same ids.
        """
        self._published = position
        try:
            position.save(self._published_path)
        except OSError as error:
            raise JournalError(
                f"cannot save {self._published_path}: {error.strerror or error}; "
                "free space or fix permissions"
            ) from error

    def _open(self, folder: Path) -> int:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fresh = not self.path.exists()
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            if fresh:
                _sync_folder(folder)
        except OSError as error:
            raise JournalError(
                f"cannot write the journal {self.path}: {error.strerror or error}; "
                "choose a folder that this user may write"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise JournalError(
                f"{self.path} is being written by another process or thread; stop that one, "
                "or give this one another camera name or another folder"
            ) from error
        return file

    def _resume(self) -> tuple[int, ChainEnd]:
        """Size and end of what is whole; cuts a torn last line off."""
        size = os.fstat(self._file).st_size
        whole = size
        for _ in range(2):
            if whole == 0:
                break
            start = _last_line_start(self._file, whole)
            raw = os.pread(self._file, whole - start, start)
            record = _whole_record(raw, self.camera)
            if record is not None:
                break
            whole = start
        else:
            raise JournalError(
                f"{self.path} is damaged before its last line; `narrated verify {self.path}` "
                "names the place. Move the file away to start a new journal"
            )
        if whole < size:
            self._cut(whole, size)
        return whole, ChainEnd.of(record) if whole and record else ChainEnd()

    def _cut(self, whole: int, size: int) -> None:
        """Move the torn bytes aside, so that nothing is destroyed, then cut them off."""
        self.torn_bytes = size - whole
        torn = os.pread(self._file, self.torn_bytes, whole)
        try:
            with self.path.with_suffix(".torn").open("ab") as aside:
                aside.write(torn + b"\n")
            os.ftruncate(self._file, whole)
            os.fsync(self._file)
        except OSError as error:
            raise JournalError(
                f"cannot cut the torn last line off {self.path}: {error.strerror or error}"
            ) from error
        _log.warning("%s: a last line of %d bytes was torn by a crash and cut off", self.path, size - whole)

    def _load_position(self) -> Position:
        """The acknowledged position, or the start where it does not belong to this journal."""
        position = Position.load(self._published_path)
        if position is None or position.offset == 0:
            return Position()
        if position.offset <= self._size:
            start = _last_line_start(self._file, position.offset)
            record = _whole_record(os.pread(self._file, position.offset - start, start), self.camera)
            if record is not None and record.hash == position.hash:
                return position
        elif position.seq > self._end.seq:
            # Published lines are gone (power failure without fsync): never use their stream ids again.
            largest = max(self._end.stream_id, parse_stream_id(position.stream_id))
            self._end = ChainEnd(self._end.seq, self._end.hash, largest)
        _log.warning("%s does not fit it; publishing starts from the first line", self._published_path)
        return Position()

    def _write(self, line: bytes) -> None:
        try:
            if os.fstat(self._file).st_size != self._size:  # an earlier failure could not be undone
                os.ftruncate(self._file, self._size)
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            if self._fsync:
                os.fsync(self._file)
        except OSError as error:
            self._undo()
            raise JournalError(
                f"cannot append to {self.path}: {error.strerror or error}; free space on that disk. "
                "The journal is unchanged"
            ) from error
        self._size += len(line)

    def _undo(self) -> None:
        try:
            os.ftruncate(self._file, self._size)
        except OSError as error:
            _log.warning("%s: half a line stays until the next append: %s", self.path, error)

    def _records(self, offset: int) -> Iterator[tuple[Record, Position]]:
        with self.path.open("rb") as file:
            file.seek(offset)
            while offset < self._size:
                raw = file.readline()
                offset += len(raw)
                record = _parse(raw, self.path)
                yield record, Position.behind(record, offset)


def read_journal(path: Path) -> Iterator[Record]:
    """The records of a journal that another process may be writing; a line still being written is left out.

    Raises:
        JournalError: the file cannot be read or a line is no record.
    """
    try:
        with path.open("rb") as file:
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                yield _parse(raw, path)
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror or error}") from error


def _parse(raw: bytes, path: Path) -> Record:
    try:
        return read_record(raw)
    except RecordError as error:
        raise JournalError(f"{path} is damaged ({error}); `narrated verify {path}` names the line") from error


def _whole_record(raw: bytes, camera: str) -> Record | None:
    """The record of a line that ends and whose hash holds, else None."""
    if not raw.endswith(b"\n") or not hash_holds(raw[:-1]):
        return None
    try:
        record = read_record(raw)
    except RecordError:
        return None
    return record if record.camera == camera else None


def _last_line_start(file: int, size: int) -> int:
    """Where the line begins that ends (with or without its line end) at byte `size`."""
    end = size - 1  # the last byte may be the line's own end
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _sync_folder(folder: Path) -> None:
    """Make the new file's name durable; the file's own fsync does not cover it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
