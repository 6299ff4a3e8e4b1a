"""The files of one camera's journal: how they are written, and read, also while another process writes them.

``<camera>.jsonl`` is being written; a full segment was renamed to ``<camera>.<first seq>.jsonl``, the number
in twelve digits. ``<camera>.start`` is the anchor: it names the last record that retention deleted.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import rfc8785

from pipeline.disk import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    append_durably,
    append_to,
    make_folder,
    replace_file,
    sync_folder,
)
from pipeline.record_format import ChainEnd, RecordError, closed_name, hash_holds, parse_stream_id

if TYPE_CHECKING:  # the model takes a tenth of a second to load
    from pipeline.record import Record

_log = logging.getLogger(__name__)

_BLOCK = 65536
_HASH = re.compile(rb'"hash":"([0-9a-f]{64})",')
_SEQ = re.compile(rb'"seq":(\d+),')
_STREAM_ID = re.compile(rb'"stream_id":"(\d+-\d+)"')
_DAY = len("2026-05-01")
_TOKEN = re.compile(r"[0-9a-f]{32}")


def read_record(line: bytes | str) -> Record:
    """See `pipeline.record`, whose model is loaded for the first line."""
    from pipeline import record  # noqa: PLC0415

    return record.read_record(line)


def read_own(raw: bytes, camera: str) -> Record:
    """A camera's record from its line with its end; RecordError where that does not hold by itself."""
    line = raw.removesuffix(b"\n")
    if line == raw:
        raise RecordError("the line has no end: its writer was interrupted, or is still writing")
    if not hash_holds(line):
        raise RecordError("the hash does not match: the line was changed, or is not a record")
    record = read_record(line)
    if record.camera != camera:
        raise RecordError(f"it is a record of {record.camera} in the journal of {camera}")
    return record


class JournalError(Exception):
    """A journal cannot be opened, read or written; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a journal; `first` numbers its first record. Reading raises RecordError or OSError."""

    path: Path
    first: int

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def first_record(self) -> Record:
        with self.path.open("rb") as file:
            return read_record(file.readline())

    def last_record(self) -> Record:
        with self.path.open("rb") as file:
            return read_record(line_before(file.fileno(), self.size))


@dataclass(frozen=True)
class Chain:
    """The files of one camera's chain; a merged file holds chains of several cameras."""

    folder: Path
    camera: str

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """Oldest first, at least one; the current one may not have begun."""
        full = tuple(segment.path for segment in closed_segments(self.folder, self.camera))
        current = self.folder / f"{self.camera}.jsonl"
        return (*full, current) if current.exists() or not full else full

    @property
    def anchor(self) -> Path:
        return self.folder / f"{self.camera}.start"

    def records(self) -> Iterator[Record]:
        return chain.from_iterable(map(read_journal, self.files))


def find_chains(paths: Iterable[Path]) -> tuple[list[Chain], list[Path]]:
    """The chains of files and of folders (and their ``journal``), each once, and folders that hold none."""
    chains: dict[Chain, None] = {}
    empty = []
    for path in paths:
        journals = [path]
        if path.is_dir():
            journals = [*sorted(path.glob("*.jsonl")), *sorted(path.glob("journal/*.jsonl"))]
        if not journals:
            empty.append(path)
        for journal in journals:
            closed = closed_name(journal.name)
            chains[Chain(journal.parent, closed[0] if closed else journal.stem)] = None
    return list(chains), empty


def closed_segments(folder: Path, camera: str) -> list[Segment]:
    """The full segments of a camera, oldest first; empty where the folder cannot be read."""
    named = [(path, closed_name(path.name)) for path in folder.glob("*.jsonl")]
    segments = [Segment(path, name[1]) for path, name in named if name and name[0] == camera]
    return sorted(segments, key=lambda segment: segment.first)


def read_journal(path: Path) -> Iterator[Record]:
    """The records of one file, but for a line that is being written; JournalError where it is damaged."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    return
                try:
                    yield read_record(raw)
                except RecordError as error:
                    advice = f"`narrated verify {path.parent}` says more"
                    raise JournalError(f"{path}:{number} is damaged ({error}); {advice}") from error
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror or error}") from error


def read_camera(folder: Path, camera: str) -> Iterator[Record]:
    """The records of all segments of a camera's journal, oldest first; raises as `read_journal` does."""
    return Chain(folder, camera).records()


def latest_first(folder: Path, camera: str) -> Iterator[Record]:
    """The records of all segments of a camera's journal, newest first; what cannot be read is left out."""
    for path in reversed(Chain(folder, camera).files):
        with suppress(OSError), path.open("rb") as file:
            end = os.fstat(file.fileno()).st_size
            while end > 0:
                raw = line_before(file.fileno(), end)
                end -= len(raw)
                with suppress(RecordError):  # the last line may be torn
                    yield read_record(raw)


def line_end(line: bytes) -> ChainEnd | None:
    """Number, hash and stream id of a record from its line; None where it has none.

    In canonical JSON a quote inside a string is escaped, so the members are found without parsing.
    """
    digest, seq, stream_id = _HASH.search(line), _SEQ.search(line), _STREAM_ID.search(line)
    if not (digest and seq and stream_id):
        return None
    return ChainEnd(int(seq[1]), digest[1].decode(), parse_stream_id(stream_id[1].decode()))


def load_end(path: Path) -> ChainEnd | None:
    """The record that a file beside a journal names: the last one deleted, or the last one published."""
    try:
        members = json.loads(path.read_bytes())
        stream_id = parse_stream_id(str(members.get("stream_id", "0-0")))
        return ChainEnd(int(members["seq"]), str(members["hash"]), stream_id)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def cut_torn(file: int) -> bytes:
    """Cut off what a crash tore of the last line of an open file; the last complete line."""
    size = os.fstat(file).st_size
    line = line_before(file, size)
    if line and not line.endswith(b"\n"):
        size -= len(line)
        os.ftruncate(file, size)
        line = line_before(file, size)
    return line


def line_before(file: int, end: int) -> bytes:
    """The line of an open file that ends at byte `end`, with its line end or, where it is torn, without."""
    start = end - 1  # the last byte may be the line's own end
    while start > 0:
        block = max(0, start - _BLOCK)
        place = os.pread(file, start - block, block).rfind(b"\n")
        if place >= 0:
            start = block + place + 1
            break
        start = block
    start = max(0, start)
    return os.pread(file, end - start, start)


class JournalLockedError(JournalError):
    """Another writer has the journal."""


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """When a new segment begins: at this many bytes, or with a record of another day (UTC)."""

    bytes: int | None = None
    daily: bool = False


DAILY = SegmentLimits(bytes=64_000_000, daily=True)  # a segment a day, or several where a day has much


class SegmentWriter:
    """The only writer of a journal: appends complete lines or nothing; a disk that fails raises `OSError`.

    `full` are the segments before the current one, `deleted` those before the anchor whose files are still
    there; `end` is the chain's. `token` names the journal in every run, as the holder of its lease; it is
    empty while the journal is not open, as are `full` and `deleted`.
    """

    def __init__(self, folder: Path, camera: str, limits: SegmentLimits, *, fsync: bool) -> None:
        self.folder, self.camera, self.path = folder, camera, folder / f"{camera}.jsonl"
        self.end, self.token = ChainEnd(), ""
        self.full, self.deleted = list[Segment](), list[Segment]()  # replaced as a whole: other threads read
        self._first, self._written, self._day = 1, 0, ""  # record, bytes and day of the current segment
        self._anchor, self._limits, self._fsync = folder / f"{camera}.start", limits, fsync
        self._file = self._locked = -1

    def resume(self) -> None:
        """Lock the journal, and find its files and the end of its chain, before anything else is asked of it.

        Another writer raises JournalLockedError, a damaged end JournalError.
        """
        try:
            token = self._take_lock()
            start, segments = self.start(), closed_segments(self.folder, self.camera)
            self.full = [segment for segment in segments if segment.first > start.seq]
            self.deleted = [segment for segment in segments if segment.first <= start.seq]
            self._find_end()
        except BaseException:
            self.release()
            raise
        self.token = token

    @property
    def is_open(self) -> bool:
        """False while the journal cannot be opened: nothing is known of its chain then."""
        return self.token != ""

    @property
    def segments(self) -> list[Segment]:
        return [*self.full, Segment(self.path, self._first)]

    def start(self) -> ChainEnd:
        """The last record that retention deleted."""
        return load_end(self._anchor) or ChainEnd()

    def open(self) -> None:
        """Open the current segment for writing, and move a torn last line to another file."""
        if self._file >= 0:
            return
        file = self._open_current()
        try:
            torn = os.pread(file, max(0, os.fstat(file).st_size - self._written), self._written)
            if torn:  # moved aside before it is cut off, so that nothing is destroyed
                append_durably(self.folder / f"{self.camera}.torn", torn + b"\n")
                os.ftruncate(file, self._written)
                _log.warning("%s: a last line of %d bytes was torn and cut off", self.path, len(torn))
            os.fsync(file)  # who wrote the last line, or made the file, may have been killed before that
            sync_folder(self.folder)
        except OSError:
            os.close(file)
            raise
        self._file = file

    @property
    def is_there(self) -> bool:
        """False where another program moved, removed or cut the current segment while it is open."""
        if self._file < 0:
            return True
        with suppress(OSError):
            found = self.path.stat()
            return os.path.samestat(self._opened, found) and found.st_size >= self._written
        return False

    def write(self, line: bytes, record: Record) -> None:
        """Append the line of a record, in a new segment where one is due; of a failed write nothing stays."""
        self.open()
        limits, day = self._limits, record.after.time[:_DAY]
        too_large = limits.bytes is not None and self._written >= limits.bytes
        # A deletion has the times of what it deletes.
        is_due = limits.daily and record.event != "deletion" and self._is_another(day)
        if self._written and (too_large or is_due):
            self._begin_segment(record.seq)
        if os.fstat(self._file).st_size != self._written:  # an earlier failure could not be undone
            os.ftruncate(self._file, self._written)
        append_to(self._file, line, fsync=self._fsync)
        if self._written == 0:
            self._day = day
        self._written += len(line)

    def sync(self) -> None:
        if self._file >= 0:
            os.fsync(self._file)

    def move_start(self, start: ChainEnd, signed: bytes = b"") -> None:
        """Let the chain begin behind `start`, as is `signed`: full segments up to it no longer count."""
        content = signed or rfc8785.dumps({"hash": start.hash, "seq": start.seq})
        replace_file(self._anchor, content + b"\n", durable=True, mode=PRIVATE_FILE)
        self._first = max(self._first, start.seq + 1)
        self.deleted = [*self.deleted, *(segment for segment in self.full if segment.first <= start.seq)]
        self.full = [segment for segment in self.full if segment.first > start.seq]

    def unlink(self, segment: Segment) -> None:
        segment.path.unlink(missing_ok=True)
        self.deleted = [each for each in self.deleted if each != segment]

    def release(self) -> None:
        for handle in (self._file, self._locked):
            if handle >= 0:
                os.close(handle)
        self._file = self._locked = -1
        self.token, self.full, self.deleted = "", [], []

    def _is_another(self, day: str) -> bool:
        """True of a later day, and of one long before: a clock that was years ahead closes its segment."""
        return day > self._day or day < str(date.fromisoformat(self._day) - timedelta(days=1))

    def _begin_segment(self, first: int) -> None:
        closed = self.folder / f"{self.camera}.{self._first:012d}.jsonl"
        self.sync()  # no line may be on disk before one that is older
        self.path.rename(closed)  # killed behind this, the next run begins the segment
        try:
            file = self._open_current()
        except OSError:
            closed.rename(self.path)
            raise
        os.close(self._file)
        self.full = [*self.full, Segment(closed, self._first)]
        self._file, self._first, self._written, self._day = file, first, 0, ""
        sync_folder(self.folder)

    def _take_lock(self) -> str:
        """Lock ``<camera>.writer``; the token in it, which is written where there is none."""
        make_folder(self.folder, PRIVATE_FOLDER)
        path = self.folder / f"{self.camera}.writer"
        self._locked = os.open(path, os.O_CLOEXEC | os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            advice = "stop that one, or give this one another camera name"
            raise JournalLockedError(f"{self.path} is being written by another process: {advice}") from None
        token = os.pread(self._locked, 33, 0).strip().decode("latin-1")
        if not _TOKEN.fullmatch(token):
            token = os.urandom(16).hex()
            os.truncate(self._locked, 0)
            os.pwrite(self._locked, token.encode() + b"\n", 0)
        return token

    def _open_current(self) -> int:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
        self._opened = os.fstat(file)
        return file

    def _find_end(self) -> None:
        """Find the complete lines of the current segment, its first record, and the end of the chain."""
        first = last = None
        self._written, self._day = 0, ""
        with (
            suppress(FileNotFoundError),
            os.fdopen(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC), "rb") as file,
        ):
            self._written = os.fstat(file.fileno()).st_size
            for _ in range(2):  # what a crash tore may itself end with a line end
                line = line_before(file.fileno(), self._written)
                if last := self._record(line):
                    first = self._record(file.readline())
                    break
                self._written -= len(line)
            if self._written and not first:
                raise self._damaged(self.path)
        if first and last:
            self._first, self.end, self._day = first.seq, ChainEnd.of(last), first.after.time[:_DAY]
            return
        try:
            self.end = ChainEnd.of(self.full[-1].last_record()) if self.full else self.start()
        except RecordError:
            raise self._damaged(self.full[-1].path) from None
        self._first = self.end.seq + 1

    def _record(self, raw: bytes) -> Record | None:
        with suppress(RecordError):
            return read_own(raw, self.camera)
        return None

    def _damaged(self, path: Path, where: str = "before its last line") -> JournalError:
        advice = f"`narrated verify {path}` names the place. Move the file away to start a new journal"
        return JournalError(f"{path} is damaged {where}; {advice}")
