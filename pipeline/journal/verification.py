"""Verification of journals: every line, every hash, every link, every picture, every signature."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import repeat
from operator import add, or_
from pathlib import Path
from typing import Any, NamedTuple

import rfc8785

from pipeline.evidence import evidence_fault, evidence_folder
from pipeline.journal.segments import Chain, find_chains, load_end, read_own
from pipeline.journal.signatures import START, Attestation, Signature, Timestamp, load_roots
from pipeline.record import Record
from pipeline.record_format import ChainEnd, RecordError

WORTH_PROCESSES = 32_000_000  # bytes from which further processes save more than their start takes

_CAMERA = re.compile(rb'"camera":"([A-Za-z0-9_.-]+)"')


@dataclass(frozen=True, slots=True)
class Problem:
    path: Path
    line: int  # counts from 1; 0 where it concerns the file
    reason: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else f"{self.path}"
        return f"{place}: {self.reason}"


class Attested(NamedTuple):
    """The last signature, or time stamp, of a chain."""

    seq: int
    time: str  # ISO 8601 in UTC
    keys: tuple[str, ...]  # of all its signatures; a time stamp has none


@dataclass(slots=True)
class Verification:
    """The result of `verify`; dictionaries are by the newest file of a chain, and its camera."""

    files: int = 0  # read
    lines: int = 0  # in them, that hold
    ends: dict[tuple[Path, str], ChainEnd] = field(default_factory=dict)  # the last record that holds
    problems: list[Problem] = field(default_factory=list)
    pictures: int = 0  # whose bytes were checked; one that several files name counts several times
    unchecked: int = 0  # pictures of journals that have no folder of pictures, counted likewise
    attested: dict[tuple[Path, str, str], Attested] = field(default_factory=dict)  # and "signed" or "stamped"
    heads: set[str] = field(default_factory=set)  # of those that must still be there, the ones that are

    @property
    def ok(self) -> bool:
        return not self.problems

    def add(self, other: Verification) -> None:
        for each in fields(self):
            both = getattr(self, each.name), getattr(other, each.name)
            join = or_ if isinstance(both[0], dict | set) else add
            setattr(self, each.name, join(*both))


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    keys: Collection[str] = ()  # public keys that may have signed; none takes any key
    heads: Collection[str] = ()  # hashes of records, noted elsewhere, that must still be there
    roots: Path | None = None  # PEM file with the authorities whose time stamps count; None checks no times


def verify(paths: Iterable[Path], options: VerifyOptions = VerifyOptions()) -> Verification:
    """Check journals: every line is canonical JSON of the schema, its hash holds, and it continues its chain.

    docs/operations.md has what a chain, signatures and hashes kept elsewhere show. The paths are journals of
    one camera (with all its segments), merged files of several, which must equal those in ``journal`` next to
    them, checked as well, or folders. A path that is missing or holds no journal is a problem too.
    """
    given = list(paths)
    beside = {path.parent / "journal" for path in given if path.is_file()}
    chains, empty = find_chains([*given, *sorted(filter(Path.is_dir, beside))])
    checked = list(_check_chains(chains, options))
    whole = Verification(problems=[Problem(p, 0, "the folder holds no journal (*.jsonl)") for p in empty])
    for head in sorted(set(options.heads).difference(*(result.heads for result in checked))):
        reason = f"no record has the hash {head} that was noted: rewritten, cut off, or deleted by retention"
        whole.problems += [Problem(chain.folder, 0, reason) for chain in chains[:1]]
    for result in checked:
        whole.add(result)
    return whole


def _check_chains(chains: list[Chain], options: VerifyOptions) -> Iterator[Verification]:
    """Check each chain, in order; in several processes where that saves time."""
    size = sum(path.stat().st_size for chain in chains for path in chain.files if path.exists())
    processes = min(len(os.sched_getaffinity(0)), len(chains)) if size > WORTH_PROCESSES else 1
    if processes <= 1:
        yield from (_check_chain(chain, options) for chain in chains)
        return
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - small journals need none
    from multiprocessing import get_context  # noqa: PLC0415

    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_check_chain, chains, repeat(options))


def _check_chain(chain: Chain, options: VerifyOptions) -> Verification:
    result, is_merged = Verification(len(chain.files)), (chain.folder / "journal").is_dir()
    try:
        if is_merged:
            _check_merged(chain, result)
        else:
            _check_journal(chain, result, options)
    except OSError as error:
        path = Path(error.filename) if error.filename else chain.files[-1]
        result.problems.append(Problem(path, 0, f"cannot be read: {error.strerror or error}"))
    return result


def _check_journal(chain: Chain, result: Verification, options: VerifyOptions) -> None:
    trusted: dict[type[Attestation], Collection[Any]] = {
        Signature: options.keys,
        Timestamp: load_roots(options.roots) if options.roots else (),
    }
    lines = {kind: kind.read_file(chain.folder, chain.camera) for kind in trusted}
    found = {kind: [e for e in each if not isinstance(e, str)] for kind, each in lines.items()}
    start = load_end(chain.anchor)
    named = {each.seq for every in found.values() for each in every} | ({start.seq} if start else set())
    hashes = dict.fromkeys(named, "")
    end = _check_lines(chain, result, start, hashes, options)
    if start:
        result.problems += _check_start(chain, start, hashes[start.seq], options.keys)
        hashes[start.seq] = start.hash
    for kind, any_of in trusted.items():
        if found[kind]:
            last = max(found[kind], key=lambda each: each.seq)
            keys = dict.fromkeys(each.key for each in found[kind] if isinstance(each, Signature))
            attested = Attested(last.seq, last.time, (*keys,))
            result.attested[chain.files[-1], chain.camera, kind.verb] = attested
        fault = find_fault(lines[kind], chain.camera, hashes, None if result.problems else end, any_of)
        if any_of and not lines[kind] and end.seq and result.ok:
            fault = 0, f"no {kind.noun}: there was none, or all were deleted"
        result.problems += [Problem(kind.file(chain.folder, chain.camera), *fault)] if fault else []


def _check_merged(chain: Chain, result: Verification) -> None:
    """Compare a merged file with the journals that it was made of, which are checked by themselves."""
    path, (journals, _) = chain.files[-1], find_chains([chain.folder / "journal"])
    left = {each.camera: _lines(each.files) for each in journals}
    for number, raw in enumerate(_lines([path]), 1):
        camera = _CAMERA.search(raw)
        if raw != next(left.get(camera[1].decode() if camera else "", iter(())), None):
            reason = "it is not the next record of a camera in journal/: one of the two was rewritten"
            result.problems.append(Problem(path, number, reason))
            return
        result.lines += 1
    missing = [camera for camera, lines in left.items() if next(lines, None)]
    result.problems += [Problem(path, 0, f"records of {camera} are missing") for camera in missing]


def _lines(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as lines:
            yield from lines


def _check_lines(
    chain: Chain, result: Verification, start: ChainEnd | None, hashes: dict[int, str], options: VerifyOptions
) -> ChainEnd:
    """Check every line, and the chain behind those that do not hold; the end of the chain."""
    folder, end = evidence_folder(chain.folder), start or ChainEnd()
    unread, is_first = 0, True  # lines that do not hold since one that did
    for path in chain.files:
        checked, unchecked = set[str](), set[str]()
        for number, raw in enumerate(_lines([path]), 1):
            try:
                record = check_line(raw, chain.camera)
            except RecordError as error:
                result.problems.append(Problem(path, number, str(error)))
                unread += 1
                continue
            is_deleted = start is not None and record.seq <= start.seq
            if is_first and is_deleted:  # its file is still there: the hash of the last one is compared later
                end = ChainEnd(record.seq - 1, record.prev)
            end, faults = _follow(end, record, unread)
            result.lines += not faults
            if not is_deleted:  # retention removes the pictures of what it deletes
                faults += _check_pictures(record, folder, checked, unchecked)
            result.problems += [Problem(path, number, fault) for fault in faults]
            if record.hash in options.heads:
                result.heads.add(record.hash)
            if record.seq in hashes:
                hashes[record.seq] = record.hash
            unread, is_first = 0, False
        result.pictures += len(checked)
        result.unchecked += len(unchecked)
    if not is_first:
        result.ends[chain.files[-1], chain.camera] = end
    return end


def _follow(end: ChainEnd, record: Record, unread: int) -> tuple[ChainEnd, list[str]]:
    """The chain's end, and what is wrong; so many lines before the record may be those that it misses."""
    try:
        return follow(end, record), []
    except RecordError as error:
        missing = record.seq - end.seq - 1
        end = ChainEnd.of(record) if missing >= 0 else end
        return end, [] if 0 < missing <= unread else [str(error)]


def _check_pictures(
    record: Record, folder: Path | None, checked: set[str], unchecked: set[str]
) -> Iterator[str]:
    for side, reference in record.evidence or ():
        if folder is None:
            unchecked.update([reference] if reference else [])
        elif reference and reference not in checked:
            if fault := evidence_fault(folder, reference):
                yield f"record {record.seq} of {record.camera}: its evidence {side}: {fault}"
            else:
                checked.add(reference)


def _check_start(chain: Chain, start: ChainEnd, stated: str, keys: Collection[str]) -> list[Problem]:
    reason, content = "", chain.anchor.read_bytes()
    if stated not in {"", start.hash}:
        reason = f"record {start.seq} has another hash than was noted at its deletion"
    elif b'"signature":' in content:
        fault = find_fault(Signature.read(content.rstrip(b"\n") + b"\n", START), chain.camera, {}, None, keys)
        reason = fault[1] if fault else ""
    elif keys:
        reason = "it is not signed: records may have been cut off the beginning (the next deletion signs it)"
    return [Problem(chain.anchor, 0, reason)] if reason else []


def find_fault(
    lines: Iterable[Attestation | str],
    camera: str,
    hashes: Mapping[int, str],
    end: ChainEnd | None,
    trusted: Collection[Any] = (),
) -> tuple[int, str] | None:
    """The number of the first line (of `Attestation.read`) that does not bear a camera's chain out, and why.

    `hashes` are of the records that the lines name, by number; empty where one is gone. `end` is None where
    the chain does not hold to its end, which is then not compared. `trusted` is as of `Attestation.fault`.
    """
    last = 0
    for number, each in enumerate(lines, 1):
        if isinstance(each, str):
            return number, each
        reason = each.fault(trusted)
        if not reason and each.camera != camera:
            reason = f"it belongs to {each.camera}"
        if not reason and each.seq < last:
            reason = f"it is of record {each.seq}, behind one of {last}"
        if not reason and (hashes.get(each.seq) or each.hash) != each.hash:
            reason = f"record {each.seq} is not the one that was {each.verb} at {each.time}"
        if not reason and end and each.seq > end.seq:
            cut = f"the journal ends with {end.seq}: lines were cut off its end"
            reason = f"record {each.seq} was {each.verb} at {each.time}, but {cut}"
        if reason:
            return number, reason
        last = each.seq
    return None


@lru_cache(2**16)
def _parse_float(text: str) -> float:
    value = float(text)
    if rfc8785.dumps(value) != text.encode():
        raise ValueError(f"{text} is not canonical")
    return value


_DECODER = json.JSONDecoder(parse_float=_parse_float)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def check_line(raw: bytes, camera: str) -> Record:
    """A camera's record from its line with its end; raises RecordError where it does not hold by itself.

    To encode each line again with `rfc8785`, written in Python, would take six times as long. So numbers are
    compared with their canonical spelling while parsing, and the encoder written in C does the rest; only
    what it spells otherwise (numbers below 0.0001) is left to `rfc8785`.
    """
    record, line = read_own(raw, camera), raw[:-1]
    try:
        members = _DECODER.decode(line.decode())
        if _ENCODER.encode(members).encode() == line or rfc8785.dumps(members) == line:
            return record
    except (ValueError, RecursionError):  # a lone surrogate, NaN, nested without end
        pass
    raise RecordError("not canonical JSON (RFC 8785): the line was written by something else")


def follow(end: ChainEnd, record: Record) -> ChainEnd:
    """The end of the chain with `record` appended; raises RecordError where it does not continue it."""
    name, after = f"record {record.seq} of {record.camera}", ChainEnd.of(record)
    if record.seq != end.seq + 1:
        raise RecordError(f"found {name} where {end.seq + 1} was expected: lines are missing or moved")
    if record.prev != end.hash:
        raise RecordError(f"{name}: prev is not the hash of the record before it")
    if after.stream_id <= end.stream_id:
        raise RecordError(f"{name}: its stream id does not rise")
    return after
