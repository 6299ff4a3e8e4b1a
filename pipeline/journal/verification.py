"""Whether journals are whole: every line, every hash, every link, every picture, every signature."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from pipeline.evidence import evidence_beside
from pipeline.journal.chains import Chain, find_chains
from pipeline.journal.pieces import CameraLines, Findings, Piece, check, continued, pieces_of
from pipeline.journal.segments import Start
from pipeline.journal.witnesses import Witnesses, read_witnesses
from pipeline.record import ChainEnd, RecordError

_FRESH = ChainEnd()
_WORTH_PROCESSES = 16
"""Pieces from which further processes save more than their start takes."""


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
    """How far a chain is signed: the number signed last, and by which public keys."""

    seq: int
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
        pictures: pictures whose bytes were checked (one that several records name may count several times).
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
        progress: told the bytes of journals that were checked, and how many there are.
    """

    evidence: bool = True
    evidence_folder: Path | None = None
    keys: Collection[str] = ()
    processes: int | None = None
    progress: Callable[[int, int], None] | None = None


def verify(paths: Iterable[Path], options: VerifyOptions = VerifyOptions()) -> Verification:
    """Check journals: every line is canonical JSON of the schema, its hash holds, and it continues its chain.

    Any changed, inserted or deleted byte is found, with one exception that no chain without an outside
    witness can see: whole lines cut off its end, or all of it written anew. Signatures are such a witness up
    to the last one, where their key is known; keep the last hash elsewhere for the rest, see `ends`.

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
    problems = [Problem(folder, 0, "the folder holds no journal (*.jsonl)") for folder in empty]
    walks = [_Walk(chain, options) for chain in chains]
    merged = _merged(walks)
    pieces = [(walk, piece) for walk in walks for piece in walk.pieces(pictures=walk not in merged)]
    size, done = sum(piece.stop - piece.start for _, piece in pieces), 0
    for (walk, piece), findings in zip(pieces, _checked([p for _, p in pieces], options), strict=True):
        walk.take(piece, findings)
        done += piece.stop - piece.start
        if options.progress:
            options.progress(done, size)
    for walk in walks:
        walk.finish(options.keys)
    for walk, journals in merged.items():
        walk.compare(journals)
    problems += [walk.problem for walk in walks if walk.problem]
    return Verification(
        sum(len(chain.files) for chain in chains),
        sum(walk.lines for walk in walks),
        {(w.chain.files[-1], camera): end for w in walks for camera, end in w.ends.items()},
        tuple(problems),
        sum(walk.pictures for walk in walks),
        {(w.chain.files[-1], w.chain.camera): w.signed for w in walks if w.signed},
    )


def _checked(pieces: list[Piece], options: VerifyOptions) -> Iterator[Findings]:
    """The findings of the pieces, in their order."""
    processes = min(options.processes or len(os.sched_getaffinity(0)), len(pieces))
    if processes <= 1 or (len(pieces) < _WORTH_PROCESSES and options.processes is None):
        yield from map(check, pieces)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(check, pieces)


def _merged(walks: list[_Walk]) -> dict[_Walk, list[_Walk]]:
    """The chains of merged files, each with those in the ``journal`` beside it, whose pictures suffice."""
    beside = {walk: [w for w in walks if w.chain.folder == walk.chain.folder / "journal"] for walk in walks}
    return {walk: journals for walk, journals in beside.items() if journals}


class _Walk:
    """Follows one chain from piece to piece, up to its first bad line."""

    def __init__(self, chain: Chain, options: VerifyOptions) -> None:
        self.chain = chain
        self.lines = 0
        self.pictures = 0
        self.ends: dict[str, ChainEnd] = {}
        self.problem: Problem | None = None
        self.signed: Signed | None = None
        self._options = options
        self._start = Start.load(chain.folder / f"{chain.camera}.start")
        self._witnesses: Witnesses = read_witnesses(chain.folder, chain.camera)
        self._hashes: dict[int, str] = {}
        self._path, self._line = chain.files[0], 0

    def pieces(self, *, pictures: bool) -> Iterator[Piece]:
        """What is to be checked; without `pictures` they are left alone in any case."""
        options = self._options
        evidence = options.evidence_folder or evidence_beside(self.chain.folder)
        wanted = self._witnesses.numbers | ({self._start.seq} if self._start else set())
        asked = {self.chain.camera: wanted} if wanted else {}
        for path in self.chain.files:
            yield from pieces_of(path, evidence, options.evidence and pictures, asked)

    def take(self, piece: Piece, findings: Findings) -> None:
        """Go on with the next piece."""
        if self.problem:
            return
        if piece.path != self._path:
            self._path, self._line = piece.path, 0
        good, fault = findings.lines, findings.fault
        for camera, run in sorted(findings.runs.items(), key=lambda item: item[1].line):
            try:
                self._join(camera, run)
            except RecordError as error:
                good, fault = run.line - 1, str(error)
                break
            self.ends[camera] = run.end
        self._hashes |= {seq: digest for (_, seq), digest in findings.hashes.items()}
        self.lines += good
        self._line += good
        self.pictures += findings.pictures
        if findings.unreadable:
            self.problem = Problem(piece.path, 0, findings.unreadable)
        elif fault:
            self.problem = Problem(piece.path, self._line + 1, fault)

    def _join(self, camera: str, run: CameraLines) -> None:
        """Compare the first line of a piece with the last one before it.

        Raises:
            RecordError: it does not continue the chain.
        """
        end = self.ends.get(camera)
        if end is None:
            start = self._start if camera == self.chain.camera else None
            if start and run.first.seq <= start.seq:
                return  # retention was interrupted before it deleted; `finish` compares the hash
            end = ChainEnd(start.seq, start.hash) if start else _FRESH
        continued(end, run.first)

    def finish(self, keys: Collection[str]) -> None:
        """Compare the chain with what was noted outside it: where retention left it, and the signatures."""
        start, end = self._start, self.ends.get(self.chain.camera)
        if start and self._hashes.get(start.seq, start.hash) != start.hash and not self.problem:
            path = self.chain.folder / f"{self.chain.camera}.start"
            self.problem = Problem(
                path, 0, f"record {start.seq} has another hash than was noted at its deletion"
            )
        if end is None and start:
            end = ChainEnd(start.seq, start.hash)
        if end is None and not self._witnesses.path.exists():
            return
        known = self._hashes | ({start.seq: start.hash} if start else {})
        fault = self._witnesses.fault(known, end or _FRESH, keys, whole=self.problem is None)
        if fault and not self.problem:
            self.problem = Problem(self._witnesses.path, *fault)
        if self._witnesses.last:
            self.signed = Signed(self._witnesses.last, self._witnesses.keys)

    def compare(self, journals: list[_Walk]) -> None:
        """Compare a merged file with the journals that it was made of: equal ends have equal chains."""
        if self.problem or any(walk.problem for walk in journals):
            return
        ends = {camera: (end, walk) for walk in journals for camera, end in walk.ends.items()}
        for camera in sorted(self.ends.keys() | ends.keys()):
            end, walk = ends.get(camera, (None, journals[0]))
            if self.ends.get(camera) != end:
                path = walk.chain.files[-1].relative_to(self.chain.folder)
                reason = f"its records of {camera} are not those of {path}: one of the two was written anew"
                self.problem = Problem(self.chain.files[-1], 0, reason)
                return
