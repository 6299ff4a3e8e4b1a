"""Whether journals are whole: every line, every hash, every link, every picture, every signature."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

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
    """What `verify` found.

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
        """True where nothing was found."""
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
    files = [
        (check, file)
        for check in checks
        for file in check.files(pictures=options.evidence and not merged[check])
    ]
    done, size = 0, sum(file.size for _, file in files)
    for (check, file), findings in zip(files, _findings([file for _, file in files], options), strict=True):
        check.take(file.path, findings)
        done += file.size
        if options.progress:
            options.progress(done, size)
    for check in checks:
        check.finish(options.keys)
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


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be checked by itself.

    Attributes:
        path, size: of it.
        evidence: folder of the pictures that the lines name.
        pictures_from: number of the first record whose pictures are checked; None leaves them all alone.
        wanted: numbers of records of `camera` whose hashes are asked for.
    """

    path: Path
    size: int
    evidence: Path | None
    pictures_from: int | None
    camera: str
    wanted: frozenset[int]


@dataclass(slots=True)
class _Run:
    """The lines of one camera in a file: line number of the first, the first record, the last one's end."""

    line: int
    first: Record
    end: ChainEnd


@dataclass(slots=True)
class _Findings:
    """What is in a file: lines that hold, up to the first that does not, and why that one does not.

    `fault_line` is 0 where the file cannot be read.
    """

    lines: int = 0
    runs: dict[str, _Run] = field(default_factory=dict)
    fault: str = ""
    fault_line: int = 0
    pictures: int = 0
    hashes: dict[int, str] = field(default_factory=dict)


def _findings(files: list[_File], options: VerifyOptions) -> Iterator[_Findings]:
    """Of the files, in their order."""
    processes = min(options.processes or len(os.sched_getaffinity(0)), len(files))
    worth = options.processes or sum(file.size for file in files) > _WORTH_PROCESSES
    if processes <= 1 or not worth:
        yield from map(_check_file, files)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_check_file, files)


def _check_file(file: _File) -> _Findings:
    """Check a file up to its first bad line."""
    findings, proven = _Findings(), set[str]()
    try:
        with file.path.open("rb") as lines:
            for raw in lines:
                record = check_line(raw)
                run = findings.runs.get(record.camera)
                end = follow(run.end, record) if run else ChainEnd.of(record)
                if file.pictures_from is not None and record.seq >= file.pictures_from:
                    _check_pictures(record, file.evidence, proven)
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
    findings.pictures = len(proven)
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
        if self._signatures_path.exists():
            self._read_signatures()
        self._hashes: dict[int, str] = {}

    def _read_signatures(self) -> None:
        from pipeline.journal.signatures import read_signatures  # noqa: PLC0415 - see above

        try:
            self._signatures = list(read_signatures(self._signatures_path.read_bytes()))
        except OSError as error:
            self._found(self._signatures_path, 0, f"cannot be read: {error.strerror or error}")

    def files(self, *, pictures: bool) -> Iterator[_File]:
        """The files to be checked; the pictures of what retention has deleted may be gone."""
        first = self._start.seq + 1 if self._start else 1
        wanted = {signature.seq for _, signature in self._signatures if not isinstance(signature, str)}
        folder = self._options.evidence_folder or evidence_beside(self.chain.folder)
        for path in self.chain.files:
            yield _File(
                path,
                path.stat().st_size if path.exists() else 0,
                folder,
                first if pictures else None,
                self.chain.camera,
                frozenset(wanted | {first - 1}),
            )

    def take(self, path: Path, findings: _Findings) -> None:
        """Go on with the next file."""
        if self.problem:
            return
        good, fault, line = findings.lines, findings.fault, findings.fault_line
        for camera, run in sorted(findings.runs.items(), key=lambda item: item[1].line):
            try:
                self._join(camera, run)
            except RecordError as error:
                good, fault, line = run.line - 1, str(error), run.line
                break
            self.ends[camera] = run.end
        self._hashes |= findings.hashes
        self.lines += good
        self.pictures += findings.pictures
        if fault:
            self._found(path, line, fault)

    def _join(self, camera: str, run: _Run) -> None:
        """Compare the first line of a file with the last one before it.

        Raises:
            RecordError: it does not continue the chain.
        """
        end = self.ends.get(camera)
        if end is None:
            start = self._start if camera == self.chain.camera else None
            if start and run.first.seq <= start.seq:
                return  # deleted, but its file is still there; `finish` compares the hash
            end = ChainEnd(start.seq, start.hash) if start else ChainEnd()
        follow(end, run.first)

    def finish(self, keys: Collection[str]) -> None:
        """Compare the chain with what was noted beside it: where it starts, and the signatures."""
        start, end = self._start, self.ends.get(self.chain.camera)
        if start and self._hashes.get(start.seq, start.hash) != start.hash:
            reason = f"record {start.seq} has another hash than was noted at its deletion"
            self._found(self._start_path, 0, reason)
        end = end or (ChainEnd(start.seq, start.hash) if start else None)
        if start and (start.line or keys):
            self._check_start(start, keys)
        if self._signatures:
            self._check_signatures(end or ChainEnd(), keys)
        elif keys and end and not self.problem:
            reason = "no signature: the journal was never signed, or its signatures were deleted"
            self._found(self._signatures_path, 0, reason)

    def _check_start(self, start: Start, keys: Collection[str]) -> None:
        """Check that one of the keys has signed where the chain begins."""
        from pipeline.journal.signatures import START, read_signatures  # noqa: PLC0415 - see above

        if not start.line:
            reason = (
                "it is not signed: records may have been cut off the beginning (the next deletion signs it)"
            )
            self._found(self._start_path, 0, reason)
            return
        ((_, signature),) = read_signatures(start.line + b"\n", START)
        fault = signature if isinstance(signature, str) else signature.fault(self.chain.camera, keys)
        if fault:
            self._found(self._start_path, 0, fault)

    def _check_signatures(self, end: ChainEnd, keys: Collection[str]) -> None:
        from pipeline.journal.signatures import find_fault  # noqa: PLC0415 - see above

        known = self._hashes | ({self._start.seq: self._start.hash} if self._start else {})
        whole = end if self.problem is None else None
        if fault := find_fault(self._signatures, self.chain.camera, known, whole, keys):
            self._found(self._signatures_path, *fault)
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
                self._found(self.chain.files[-1], 0, reason)
                return

    def _found(self, path: Path, line: int, reason: str) -> None:
        """Note a problem; the first of a chain counts."""
        self.problem = self.problem or Problem(path, line, reason)
