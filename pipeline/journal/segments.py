"""The files of one camera's journal, and how they are read, also while another process writes them.

``<camera>.jsonl`` is being written; a full segment was renamed to ``<camera>.<first seq>.jsonl``, the number
in twelve digits. ``<camera>.start`` is the anchor: it names the last record that retention deleted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Self

import rfc8785

from pipeline.disk import PRIVATE_FILE, replace_file
from pipeline.record_format import ChainEnd, RecordError, closed_name, parse_stream_id

if TYPE_CHECKING:  # the model takes a tenth of a second to load
    from pipeline.record import Record

_BLOCK = 65536
_HASH = re.compile(rb'"hash":"([0-9a-f]{64})",')
_SEQ = re.compile(rb'"seq":(\d+),')
_STREAM_ID = re.compile(rb'"stream_id":"(\d+-\d+)"')


def read_record(line: bytes | str) -> Record:
    """See `pipeline.record`, whose model is loaded for the first line."""
    from pipeline import record  # noqa: PLC0415

    return record.read_record(line)


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


@dataclass(frozen=True, slots=True)
class Start:
    """The anchor of a journal: number and hash of the last record that retention deleted."""

    seq: int
    hash: str
    line: bytes = b""  # the `Signature` of both; empty where the anchor is not signed

    @property
    def end(self) -> ChainEnd:
        return ChainEnd(self.seq, self.hash)

    def save(self, path: Path) -> None:
        content = self.line or rfc8785.dumps({"hash": self.hash, "seq": self.seq})
        replace_file(path, content + b"\n", durable=True, mode=PRIVATE_FILE)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        try:
            content = path.read_bytes()
            members = json.loads(content)
            signed = content.rstrip(b"\n") if "signature" in members else b""
            return cls(int(members["seq"]), str(members["hash"]), signed)
        except (OSError, ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, slots=True)
class Chain:
    """The files of one chain, oldest first, at least one; a merged file holds chains of several cameras."""

    folder: Path
    camera: str
    files: tuple[Path, ...]

    def records(self) -> Iterator[Record]:
        return chain.from_iterable(map(read_journal, self.files))


def find_chains(paths: Iterable[Path]) -> tuple[list[Chain], list[Path]]:
    """The chains of files and of folders (and their ``journal``), each once, and folders that hold none."""
    chains: dict[tuple[Path, str], Chain] = {}
    empty = []
    for path in paths:
        journals = [path]
        if path.is_dir():
            journals = [*sorted(path.glob("*.jsonl")), *sorted(path.glob("journal/*.jsonl"))]
        if not journals:
            empty.append(path)
        for journal in journals:
            folder, closed = journal.parent, closed_name(journal.name)
            camera = closed[0] if closed else journal.stem
            if (folder, camera) not in chains:
                chains[folder, camera] = Chain(folder, camera, _files(folder, camera))
    return list(chains.values()), empty


def _files(folder: Path, camera: str) -> tuple[Path, ...]:
    """The files of a camera's journal, oldest first; the current one may not have begun."""
    full = tuple(segment.path for segment in closed_segments(folder, camera))
    current = folder / f"{camera}.jsonl"
    return (*full, current) if current.exists() or not full else full


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
    return Chain(folder, camera, _files(folder, camera)).records()


def latest_first(folder: Path, camera: str) -> Iterator[Record]:
    """The records of all segments of a camera's journal, newest first; what cannot be read is left out."""
    for path in reversed(_files(folder, camera)):
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
