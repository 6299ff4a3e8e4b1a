"""Verification of journals: every line, every hash, every link, every picture, every signature."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.evidence import evidence_beside, evidence_fault
from pipeline.journal.chain import check_line, follow
from pipeline.journal.segments import Chain, Start, find_chains
from pipeline.record import ChainEnd, Record, RecordError

if TYPE_CHECKING:  # the library of signatures loads where there are some
    from pipeline.journal.signatures import Signature

_WORTH_PROCESSES = 32_000_000
"""Bytes from which further processes save more than their start takes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The first bad line of a chain; `line` counts from 1, 0 stands for the file as a whole."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else f"{self.path}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Signed:
    """How far a chain is signed: number and time (ISO 8601, UTC) of the last signature, and its keys."""

    seq: int
    time: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`.

    Attributes:
        files: files read.
        lines: lines that hold, over all files.
        ends: the last record that holds, per chain's newest file and camera; keep a hash elsewhere to prove
            later that nothing was cut off the end of a chain that is not signed.
        problems: the first bad line of each bad chain.
        pictures: pictures whose bytes were checked (one that several files name counts several times).
        signed: of the chains that have signatures.
    """

    files: int
    lines: int
    ends: dict[tuple[Path, str], ChainEnd] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    pictures: int = 0
    signed: dict[tuple[Path, str], Signed] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True where there is no problem."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What is checked beside the chains themselves.

    Attributes:
        evidence: look at the pictures that the records name.
        evidence_folder: where they are; None is ``evidence`` in the journal's folder or beside it.
        keys: public keys that may have signed; none takes those that the signatures name.
        processes: at most; None is one per processor that this process may use.
        progress: called with the bytes of journals that were checked, and how many there are.
    """

    evidence: bool = True
    evidence_folder: Path | None = None
    keys: Collection[str] = ()
    processes: int | None = None
    progress: Callable[[int, int], None] | None = None


def verify(paths: Iterable[Path], options: VerifyOptions = VerifyOptions()) -> Verification:
    """Check journals: every line is canonical JSON of the schema, its hash holds, and it continues its chain.

    Any changed, inserted or deleted byte is found, with one exception that no chain without an outside
    witness can see: whole lines cut off one of its ends, or all of it written anew. Signatures show that from
    the signed anchor to the last signature, where their key is known; that the signatures themselves were not
    cut back shows who keeps the last one (or the last hash, see `ends`) elsewhere.

    Args:
        paths: journals of one camera (with all its segments, whichever is named), merged files of several
            cameras (each camera's chain is followed on its own), or folders, of which every ``*.jsonl`` is
            read, also in their ``journal``; a merged file must tell the same as the ``journal`` beside it.
            Chains are held from their start, or from where retention has left them.
        options: see there.

    Returns:
        Counts, ends and problems; a path that is missing or holds no journal is a problem too.
    """
    chains, empty = find_chains(paths)
    checks = [_ChainCheck(chain, options) for chain in chains]
    merged = {
        check: [other for other in checks if other.chain.folder == check.chain.folder / "journal"]
        for check in checks
    }
    files = [(check, file) for check in checks for file in check.files(pictures=not merged[check])]
    sizes = [file.path.stat().st_size if file.path.exists() else 0 for _, file in files]
    done, found = 0, _check_files([file for _, file in files], sum(sizes), options.processes)
    for (check, file), size, findings in zip(files, sizes, found, strict=True):
        check.take(file.path, findings)
        done += size
        if options.progress:
            options.progress(done, sum(sizes))
    for check in checks:
        check.finish()
    for check, journals in merged.items():
        check.compare(journals)
    newest = {check: check.chain.files[-1] for check in checks}
    problems = [Problem(folder, 0, "the folder holds no journal (*.jsonl)") for folder in empty]
    return Verification(
        len(files),
        sum(check.lines for check in checks),
        {(newest[check], camera): end for check in checks for camera, end in check.ends.items()},
        (*problems, *(check.problem for check in checks if check.problem)),
        sum(check.pictures for check in checks),
        {(newest[check], check.chain.camera): check.signed for check in checks if check.signed},
    )


class _File(NamedTuple):
    """A file to be checked by itself.

    Attributes:
        path: of it.
        camera: by whose name it is called.
        evidence: folder of the pictures that the lines name.
        pictures_from: number of the first record whose pictures are checked; None leaves them all alone.
        wanted: numbers of records of `camera` whose hashes are asked for.
    """

    path: Path
    camera: str
    evidence: Path | None
    pictures_from: int | None
    wanted: frozenset[int]


@dataclass(slots=True)
class _Run:
    """The lines of one camera in a file: line number of the first, the first record, the last one's end."""

    line: int
    first: Record
    end: ChainEnd


@dataclass(slots=True)
class _Findings:
    """Lines of a file that hold, up to the first that does not, and why that one does not.

    `fault_line` is 0 where the file cannot be read.
    """

    lines: int = 0
    runs: dict[str, _Run] = field(default_factory=dict)
    fault: str = ""
    fault_line: int = 0
    pictures: set[str] = field(default_factory=set)
    hashes: dict[int, str] = field(default_factory=dict)


def _check_files(files: list[_File], size: int, most: int | None) -> Iterator[_Findings]:
    """Of the files, in their order, by at most so many processes."""
    processes = min(most or len(os.sched_getaffinity(0)), len(files))
    if processes <= 1 or not (most or size > _WORTH_PROCESSES):
        yield from map(_check_file, files)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_check_file, files)


def _check_file(file: _File) -> _Findings:
    """Check a file up to its first bad line."""
    findings = _Findings()
    try:
        with file.path.open("rb") as lines:
            for raw in lines:
                record = check_line(raw)
                run = findings.runs.get(record.camera)
                end = follow(run.end, record) if run else ChainEnd.of(record)
                if file.pictures_from is not None and record.seq >= file.pictures_from:
                    _check_pictures(record, file.evidence, findings.pictures)
                findings.lines += 1
                if run:
                    run.end = end
                else:
                    findings.runs[record.camera] = _Run(findings.lines, record, end)
                if record.seq in file.wanted and record.camera == file.camera:
                    findings.hashes[record.seq] = record.hash
    except RecordError as error:
        findings.fault, findings.fault_line = str(error), findings.lines + 1
    except OSError as error:
        findings.fault = f"cannot be read: {error.strerror or error}"
    return findings


def _check_pictures(record: Record, folder: Path | None, proven: set[str]) -> None:
    for side, reference in record.evidence or ():
        if reference is None or reference in proven:
            continue
        if fault := evidence_fault(folder, reference):
            raise RecordError(f"seq {record.seq} of {record.camera}: its evidence {side}: {fault}")
        proven.add(reference)


class _ChainCheck:
    """Follows one chain from file to file, up to its first bad line."""

    def __init__(self, chain: Chain, options: VerifyOptions) -> None:
        self.chain = chain
        self.lines = self.pictures = 0
        self.ends: dict[str, ChainEnd] = {}
        self.problem: Problem | None = None
        self.signed: Signed | None = None
        self._options = options
        self._start_path = chain.folder / f"{chain.camera}.start"
        self._start = Start.load(self._start_path)
        self._signatures_path = chain.folder / f"{chain.camera}.signatures"
        self._signatures: list[tuple[int, Signature | str]] = []
        self._hashes = {self._start.seq: self._start.hash} if self._start else {}
        if self._signatures_path.exists():
            from pipeline.journal.signatures import read_signatures  # noqa: PLC0415 - see above

            try:
                self._signatures = list(read_signatures(self._signatures_path.read_bytes()))
            except OSError as error:
                self._note(self._signatures_path, 0, f"cannot be read: {error.strerror or error}")

    def files(self, *, pictures: bool) -> Iterator[_File]:
        """The files to be checked; the pictures of what retention has deleted may be gone."""
        first = self._start.seq + 1 if self._start else 1
        signed = {signature.seq for _, signature in self._signatures if not isinstance(signature, str)}
        folder = self._options.evidence_folder or evidence_beside(self.chain.folder)
        pictures_from = first if pictures and self._options.evidence else None
        for path in self.chain.files:
            yield _File(path, self.chain.camera, folder, pictures_from, frozenset(signed | {first - 1}))

    def take(self, path: Path, findings: _Findings) -> None:
        """Go on with the next file."""
        if self.problem:
            return
        good, fault, line = findings.lines, findings.fault, findings.fault_line
        for camera, run in sorted(findings.runs.items(), key=lambda item: item[1].line):
            try:
                self._join(camera, run.first)
            except RecordError as error:
                good, fault, line = run.line - 1, str(error), run.line
                break
            self.ends[camera] = run.end
        start = self._start
        if start and findings.hashes.get(start.seq, start.hash) != start.hash:
            reason = f"record {start.seq} has another hash than was noted at its deletion"
            self._note(self._start_path, 0, reason)
        self._hashes |= findings.hashes
        self.lines += good
        self.pictures += len(findings.pictures)
        if fault:
            self._note(path, line, fault)

    def _join(self, camera: str, first: Record) -> None:
        """Compare the first record of a file with the last one before it.

        Raises:
            RecordError: it does not continue the chain.
        """
        end = self.ends.get(camera, ChainEnd())
        if not end.seq and self._start and camera == self.chain.camera:
            if first.seq <= self._start.seq:
                return  # deleted, but its file is still there; its hash is compared
            end = ChainEnd(self._start.seq, self._start.hash)
        follow(end, first)

    def finish(self) -> None:
        """Check the signatures of where the chain begins and of where it ends."""
        start, keys = self._start, self._options.keys
        end = self.ends.get(self.chain.camera, ChainEnd(start.seq, start.hash) if start else ChainEnd())
        if start and (start.line or keys):
            self._check_start(start)
        if self._signatures:
            self._check_signatures(end)
        elif keys and end.seq and not self.problem:
            reason = "no signature: the journal was never signed, or its signatures were deleted"
            self._note(self._signatures_path, 0, reason)

    def _check_start(self, start: Start) -> None:
        from pipeline.journal.signatures import START, read_signatures  # noqa: PLC0415 - see above

        fault = "it is not signed: records may have been cut off the beginning (the next deletion signs it)"
        if start.line:
            ((_, signature),) = read_signatures(start.line + b"\n", START)
            keys, camera = self._options.keys, self.chain.camera
            fault = signature if isinstance(signature, str) else signature.fault(camera, keys)
        if fault:
            self._note(self._start_path, 0, fault)

    def _check_signatures(self, end: ChainEnd) -> None:
        from pipeline.journal.signatures import find_fault  # noqa: PLC0415 - see above

        whole = end if self.problem is None else None
        keys = self._options.keys
        if fault := find_fault(self._signatures, self.chain.camera, self._hashes, whole, keys):
            self._note(self._signatures_path, *fault)
        good = [signature for _, signature in self._signatures if not isinstance(signature, str)]
        if good:
            last = max(good, key=lambda signature: signature.seq)
            self.signed = Signed(last.seq, last.time, tuple(dict.fromkeys(each.key for each in good)))

    def compare(self, journals: list[_ChainCheck]) -> None:
        """Compare a merged file with the journals that it was made of: equal ends have equal chains."""
        if self.problem or not journals or any(check.problem for check in journals):
            return
        ends = {camera: (end, check) for check in journals for camera, end in check.ends.items()}
        for camera in sorted(self.ends.keys() | ends.keys()):
            end, check = ends.get(camera, (None, journals[0]))
            if self.ends.get(camera) != end:
                path = check.chain.files[-1].relative_to(self.chain.folder)
                reason = f"its records of {camera} are not those of {path}: one of the two was written anew"
                self._note(self.chain.files[-1], 0, reason)
                return

    def _note(self, path: Path, line: int, reason: str) -> None:
        """Note a problem; the first of a chain counts."""
        self.problem = self.problem or Problem(path, line, reason)
