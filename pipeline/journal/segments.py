"""The files of one camera's journal, and where their lines begin and end.

``<camera>.jsonl`` is being written; a segment that is full was renamed to ``<camera>.<first seq>.jsonl``, the
number in twelve digits, so that names sort as the chain goes. ``<camera>.start`` is the anchor: it names the
last record that retention deleted, behind which the chain continues.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import rfc8785

from pipeline.disk import PRIVATE_FILE, replace_file
from pipeline.record import ChainEnd, Record, RecordError, hash_holds, parse_stream_id, read_record

_BLOCK = 65536
_CLOSED = re.compile(r"(?P<camera>.+)\.(?P<first>\d{12})\.jsonl")
_HASH = re.compile(rb'"hash":"([0-9a-f]{64})",')
_SEQ = re.compile(rb'"seq":(\d+),')
_STREAM_ID = re.compile(rb'"stream_id":"(\d+-\d+)"')


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a journal; `first` is the number of its first record."""

    path: Path
    first: int

    @property
    def size(self) -> int:
        """Its bytes; 0 where the file is gone."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def first_record(self) -> Record:
        """Its first record; raises as `last_record`."""
        with self.path.open("rb") as file:
            return read_record(file.readline())

    def last_record(self) -> Record:
        """Its last record.

        Raises:
            RecordError: the last line is no record.
            OSError: the file cannot be read.
        """
        with self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = line_start(file.fileno(), size)
            return read_record(os.pread(file.fileno(), size - start, start))


@dataclass(frozen=True, slots=True)
class Start:
    """The anchor of a journal: the last record that retention deleted.

    Attributes:
        seq, hash: of that record.
        line: the signature of both as `pipeline.journal.signatures` writes it; empty where it is unsigned.
    """

    seq: int
    hash: str
    line: bytes = b""

    def save(self, path: Path) -> None:
        """Replace the file at `path` as a whole; when this returns it is on the disk.

        Raises:
            OSError: the folder cannot be written.
        """
        content = self.line or rfc8785.dumps({"hash": self.hash, "seq": self.seq})
        replace_file(path, content + b"\n", durable=True, mode=PRIVATE_FILE)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """What the file says, None where there is none that can be read."""
        try:
            content = path.read_bytes()
            members = json.loads(content)
            signed = content.rstrip(b"\n") if "signature" in members else b""
            return cls(int(members["seq"]), str(members["hash"]), signed)
        except (OSError, ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, slots=True)
class Chain:
    """The files of one chain, oldest first, at least one.

    Attributes:
        folder: of the files.
        camera: by whose name they are called; a merged file holds the chains of several.
        files: closed segments, then the one that is written.
    """

    folder: Path
    camera: str
    files: tuple[Path, ...]


def find_chains(paths: Iterable[Path]) -> tuple[list[Chain], list[Path]]:
    """The chains of journals, merged files and folders, each once, and the folders that hold none.

    A file stands for its whole chain, a folder for all chains that lie in it and in its ``journal``.
    """
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
                files = [segment.path for segment in closed_segments(folder, camera)]
                current = folder / f"{camera}.jsonl"
                if current.exists() or not files:
                    files.append(current if current.exists() else journal)
                chains[folder, camera] = Chain(folder, camera, tuple(files))
    return list(chains.values()), empty


def closed_path(folder: Path, camera: str, first: int) -> Path:
    """Where the segment lies that begins with record `first`, once it is full."""
    return folder / f"{camera}.{first:012d}.jsonl"


def closed_name(name: str) -> tuple[str, int] | None:
    """Camera and first record of a full segment's file, by the file's name; None of any other file."""
    named = _CLOSED.fullmatch(name)
    return (named["camera"], int(named["first"])) if named else None


def closed_segments(folder: Path, camera: str) -> list[Segment]:
    """The full segments of a camera, oldest first; empty where the folder cannot be read."""
    found = []
    for path in folder.glob("*.jsonl"):
        named = closed_name(path.name)
        if named and named[0] == camera:
            found.append(Segment(path, named[1]))
    return sorted(found, key=lambda segment: segment.first)


def line_end(line: bytes) -> ChainEnd | None:
    """Number, hash and stream id of a record from its line, without parsing the rest; None where it has none.

    In canonical JSON a quote inside a string is escaped, so the members are found without parsing.
    """
    found = _HASH.search(line), _SEQ.search(line), _STREAM_ID.search(line)
    if not all(found):
        return None
    digest, seq, stream_id = (match[1].decode() for match in found if match)
    return ChainEnd(int(seq), digest, parse_stream_id(stream_id))


def whole_record(raw: bytes, camera: str) -> Record | None:
    """The record of a line that ends and whose hash holds, else None."""
    if not raw.endswith(b"\n") or not hash_holds(raw[:-1]):
        return None
    try:
        record = read_record(raw)
    except RecordError:
        return None
    return record if record.camera == camera else None


def line_start(file: int, size: int) -> int:
    """Where the line begins that ends (with or without its line end) at byte `size`."""
    end = size - 1  # the last byte may be the line's own end
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
