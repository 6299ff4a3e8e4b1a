"""The files of one camera's journal: which there are, where their lines begin and end, what was deleted.

``<camera>.jsonl`` is being written; a segment that is full was renamed to ``<camera>.<first seq>.jsonl``, the
number in twelve digits, so that names sort as the chain goes. ``<camera>.start`` names the last record that
retention deleted: the chain continues from there.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import rfc8785

from pipeline.disk import replace_file
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

    def first_end(self) -> ChainEnd | None:
        """Number, hash and stream id of its first record; None where it cannot be read."""
        try:
            with self.path.open("rb") as file:
                return line_end(file.readline())
        except OSError:
            return None

    def last(self) -> Record:
        """Its last record.

        Raises:
            RecordError: the last line is no record.
            OSError: the file cannot be read.
        """
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            start = line_start(file, size)
            return read_record(os.pread(file, size - start, start))
        finally:
            os.close(file)


@dataclass(frozen=True, slots=True)
class Start:
    """The last record that retention deleted; the chain that is left begins behind it."""

    seq: int
    hash: str

    def save(self, path: Path) -> None:
        """Replace the file at `path` as a whole; when this returns it is on the disk.

        Raises:
            OSError: the folder cannot be written.
        """
        replace_file(path, rfc8785.dumps({"hash": self.hash, "seq": self.seq}) + b"\n", durable=True)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """What the file says, None where there is none that can be read."""
        try:
            members = json.loads(path.read_bytes())
            return cls(int(members["seq"]), str(members["hash"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None


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
