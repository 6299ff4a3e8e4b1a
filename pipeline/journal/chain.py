"""The checks of one line, and of its link to the record before."""

from __future__ import annotations

import json
from functools import lru_cache

import rfc8785

from pipeline.record import ChainEnd, Record, RecordError, hash_holds, parse_stream_id, read_record


class JournalError(Exception):
    """A journal cannot be opened, read or written; the message says what to do. The file is still valid."""


@lru_cache(2**16)
def _parse_float(text: str) -> float:
    value = float(text)
    if rfc8785.dumps(value) != text.encode():
        raise ValueError(f"{text} is not canonical")
    return value


def _parse_int(text: str) -> int:
    if text == "-0":
        raise ValueError("-0 is not canonical")
    return int(text)


_DECODER = json.JSONDecoder(parse_float=_parse_float, parse_int=_parse_int)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def is_canonical(line: bytes) -> bool:
    """True where `line` is canonical JSON (RFC 8785) with keys in ASCII.

    Encoding each line again with `rfc8785`, written in Python, would take six times as long. So numbers are
    compared with their canonical spelling while parsing, and the encoder written in C does the rest; only
    what it spells otherwise (numbers below 0.0001) is left to `rfc8785`. Integers beyond 2**53 - 1 pass; no
    member of a record may hold one.
    """
    try:
        value = _DECODER.decode(line.decode())
        return _ENCODER.encode(value).encode() == line or bool(rfc8785.dumps(value) == line)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, a lone surrogate, NaN, nested without end
        return False


def check_line(raw: bytes) -> Record:
    """The record in a line with its end.

    Raises:
        RecordError: it does not hold by itself; the message says why.
    """
    line = raw.removesuffix(b"\n")
    if line == raw:
        raise RecordError(
            "the line has no end: its writer was interrupted or is still writing "
            "(the next start of the writer cuts it off)"
        )
    if not hash_holds(line):
        raise RecordError("the hash does not match: the line was changed, or is not a record")
    if not is_canonical(line):
        raise RecordError("not canonical JSON (RFC 8785): the line was written by something else")
    return read_record(line)


def follow(end: ChainEnd, record: Record) -> ChainEnd:
    """The end of the chain with `record` appended.

    Raises:
        RecordError: the record does not continue the chain.
    """
    reason = ""
    if record.seq != end.seq + 1:
        reason = f" where {end.seq + 1} is due: lines are missing or moved"
    elif record.prev != end.hash:
        reason = ": prev is not the hash of the record before it"
    elif parse_stream_id(record.stream_id) <= end.stream_id:
        reason = ": its stream id does not rise"
    if reason:
        raise RecordError(f"seq {record.seq} of {record.camera}{reason}")
    return ChainEnd.of(record)
