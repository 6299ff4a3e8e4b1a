"""Whether an export is as it was written, and what that proves."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import av
from pydantic import ValidationError

from daemon.export.archive import SUMS
from daemon.export.chains import pieces_of
from daemon.export.contents import Contents, opened_contents
from daemon.export.manifest import NAME, ExportedClip, Manifest
from pipeline.journal import Problem
from pipeline.journal.chain import check_line, follow
from pipeline.record import ChainEnd, Record, RecordError, parse_stream_id
from pipeline.sources import SourceError

OWN = (NAME, "README.md", "check.py", "index.html", "records.jsonl")
"""Files that every export has, beside its sums."""
_TAG = "sha256:"


@dataclass(frozen=True, slots=True)
class ChainProof:
    """What is there of a camera's chain and holds.

    Attributes:
        pieces: first and last number of each run without a gap.
        covered: how many records a signature covers: it signs them, or one behind them in their run.
        records: how many there are.
        keys: public keys that signed.
    """

    pieces: tuple[tuple[int, int], ...]
    covered: int
    records: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportVerification:
    """What `verify_export` found.

    Attributes:
        path: of the export.
        problems: what does not hold.
        files: files whose sums hold.
        records: records selected that hold.
        pictures: that hold.
        clips: recordings in which the frame is that the record names.
        unproven: those of which nothing shows that they belong to their record.
        chains: by camera.
        problems_then: what did not verify when it was written.
        sum: SHA-256 (hex) of the list of sums; empty where there is none.
    """

    path: Path
    problems: tuple[Problem, ...]
    files: int = 0
    records: int = 0
    pictures: int = 0
    clips: int = 0
    unproven: int = 0
    chains: Mapping[str, ChainProof] = field(default_factory=dict)
    problems_then: tuple[str, ...] = ()
    sum: str = ""


def verify_export(path: Path, keys: Collection[str] = ()) -> ExportVerification:
    """Check an export: every file, record, link, signature and picture, and the frames of its recordings.

    Any changed byte of a file in it is found, and any file that is missing or was put in. Whoever writes it
    anew, sums and all, is found out by signatures alone, or by the sum of the sums, see `ExportVerification`.

    Args:
        path: a folder or a zip.
        keys: public keys that may have signed; none takes those that the signatures name.

    Raises:
        ExportError: it cannot be opened.
    """
    with opened_contents(path) as contents:
        return _ExportCheck(path, contents, keys).all()


class _ExportCheck:
    """One export while it is checked."""

    def __init__(self, path: Path, contents: Contents, keys: Collection[str]) -> None:
        self._path, self._contents, self._keys = path, contents, keys
        self._problems: list[Problem] = []
        self._lines: set[bytes] = set()
        self._hashes: dict[tuple[str, int], Record] = {}

    def all(self) -> ExportVerification:
        sums = self._sums()
        manifest = self._manifest() if NAME in self._contents.names else None
        if manifest is None:
            self._bad(NAME, "there is none: this is not an export of narrations, or it was cut")
            return ExportVerification(self._path, tuple(self._problems))
        chains = {camera: self._chain(camera) for camera in sorted(self._cameras())}
        told = {camera: chain.pieces for camera, chain in manifest.chains.items()}
        if told != {camera: list(chain.pieces) for camera, chain in chains.items()}:
            self._bad(NAME, "the pieces of chains that it names are not those that are there")
        records, pictures = self._records(manifest)
        frames = [self._clip(name, clip) for name, clip in manifest.clips.items()]
        self._names(manifest)
        return ExportVerification(
            self._path,
            tuple(self._problems),
            sums,
            records,
            pictures,
            sum(frames),
            sum("after" not in clip.frames for clip in manifest.clips.values()),
            chains,
            tuple(manifest.problems),
            self._sum(SUMS) if SUMS in self._contents.names else "",
        )

    def _bad(self, name: str, reason: str, line: int = 0) -> None:
        self._problems.append(Problem(self._path / name, line, reason))

    def _cameras(self) -> set[str]:
        found = [name.removeprefix("chain/") for name in self._contents.names if name.startswith("chain/")]
        return {name.removesuffix(".jsonl") for name in found if name.endswith(".jsonl")}

    def _sums(self) -> int:
        """Compare the files with their sums; how many hold."""
        listed: dict[str, str] = {}
        for line in self._raw_lines(SUMS):
            digest, _, name = line.rstrip(b"\n").decode(errors="replace").partition("  ")
            listed[name] = digest
        if not listed:
            self._bad(SUMS, "there is none, so nothing can be compared")
        for name in self._contents.odd:
            self._bad(name, "it is twice there, a folder or a link: no export holds such a thing")
        for name in sorted(set(self._contents.names) - set(listed) - {SUMS}):
            self._bad(name, "it was put in: the sums do not name it")
        good = 0
        for name, digest in sorted(listed.items()):
            if name not in self._contents.names:
                self._bad(name, "it is missing")
            elif found := self._sum(name):
                good += found == digest
                if found != digest:
                    self._bad(name, f"it was changed: its bytes are sha256:{found}")
        return good

    def _sum(self, name: str) -> str:
        """Of a file; empty where it cannot be read, which is noted."""
        try:
            with self._contents.open(name) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        except (OSError, zipfile.BadZipFile, EOFError) as error:
            self._bad(name, f"it cannot be read: {error}")
            return ""

    def _raw_lines(self, name: str) -> Iterator[bytes]:
        """The lines of a file, none where it cannot be read, which is noted elsewhere."""
        if name not in self._contents.names:
            return
        try:
            with self._contents.open(name) as file:
                yield from file
        except (OSError, zipfile.BadZipFile, EOFError):
            return

    def _manifest(self) -> Manifest | None:
        content = b"".join(self._raw_lines(NAME))
        try:
            manifest = Manifest.model_validate_json(content)
        except ValidationError as error:
            self._bad(NAME, f"it is no {NAME} of this narrated: {error.errors()[0]['msg']}")
            return None
        if manifest.content() != content:
            self._bad(NAME, "it was written by something else")
        return manifest

    def _chain(self, camera: str) -> ChainProof:
        """Follow a camera's pieces; a gap ends one."""
        name, end, numbers = f"chain/{camera}.jsonl", ChainEnd(), list[int]()
        for number, raw in enumerate(self._raw_lines(name), 1):
            try:
                record = check_line(raw)
                end = _followed(end, record, camera, first=not numbers)
            except RecordError as error:
                self._bad(name, str(error), number)
                break
            self._lines.add(raw)
            self._hashes[camera, record.seq] = record
            numbers.append(record.seq)
        return self._signed(camera, numbers)

    def _signed(self, camera: str, numbers: list[int]) -> ChainProof:
        from pipeline.journal.signatures import find_fault, read_signatures  # noqa: PLC0415 - loads the library

        name, pieces = f"chain/{camera}.signatures", pieces_of(numbers)
        content = b"".join(self._raw_lines(name))
        lines = list(read_signatures(content))
        signatures = [signature for _, signature in lines if not isinstance(signature, str)]
        hashes = {seq: self._hashes[camera, seq].hash for seq in numbers}
        if self._keys and not lines:
            self._bad(name, "no signature reaches these records: export them again with --linked")
        elif fault := find_fault(lines, camera, hashes, None, self._keys):
            self._bad(name, fault[1], fault[0])
        numbers_signed = {signature.seq for signature in signatures}
        last = {p: max((n for n in numbers_signed if p[0] <= n <= p[1]), default=p[0] - 1) for p in pieces}
        covered = sum(until - first + 1 for (first, _), until in last.items())
        keys = tuple(dict.fromkeys(signature.key for signature in signatures))
        return ChainProof(tuple(pieces), covered, len(numbers), keys)

    def _records(self, manifest: Manifest) -> tuple[int, int]:
        """The records that were selected, and their pictures; how many of each hold."""
        pictures = {Path(n).stem: n for n in self._contents.names if n.startswith("pictures/")}
        proven: set[str] = set()
        good = 0
        for number, raw in enumerate(self._raw_lines("records.jsonl"), 1):
            if raw not in self._lines:
                self._bad("records.jsonl", "the record is in no piece of a chain that holds", number)
                continue
            record = check_line(raw)
            good += 1
            named = record.evidence.model_dump(exclude_none=True) if record.evidence else {}
            for side, reference in named.items():
                digest = reference.removeprefix(_TAG)
                if digest in proven or digest in manifest.gone:
                    continue
                if digest not in pictures:
                    self._bad("records.jsonl", f"its picture {side} is missing: {digest}", number)
                elif self._sum(pictures[digest]) == digest:
                    proven.add(digest)
                else:
                    self._bad(pictures[digest], "its bytes are not those that the record names")
        if good != manifest.records and not self._problems:
            self._bad("records.jsonl", f"it holds {good} records where {manifest.records} were exported")
        return good, len(proven)

    def _clip(self, name: str, clip: ExportedClip) -> bool:
        """Whether a recording shows the frames that its record names."""
        record = self._hashes.get((clip.camera, clip.record))
        if record is None or name not in self._contents.names:
            self._bad(name, "its record is not there" if record is None else "it is missing")
            return False
        for side, number in clip.frames.items():
            stated = (record.before if side == "before" else record.after).sha256
            if self._frame(name, number) != stated:
                self._bad(name, f"its frame {number} is not the one {side} that the record names")
                return False
        return "after" in clip.frames

    def _frame(self, name: str, number: int) -> str:
        from daemon.export.clips import frame_sums  # noqa: PLC0415 - loads the decoders

        with tempfile.TemporaryDirectory(prefix="narrated-") as scratch:
            path = Path(scratch) / Path(name).name
            try:
                with self._contents.open(name) as file, path.open("wb") as copy:
                    shutil.copyfileobj(file, copy)
                return next(islice(frame_sums(path), number, None), "")
            except (OSError, zipfile.BadZipFile, SourceError, av.FFmpegError):
                return ""

    def _names(self, manifest: Manifest) -> None:
        """Files that are not part of an export."""
        named = {*OWN, SUMS, *manifest.clips}
        for name in self._contents.names:
            if name not in named and not name.startswith(("chain/", "pictures/")):
                self._bad(name, "it is not part of an export")


def _followed(end: ChainEnd, record: Record, camera: str, *, first: bool) -> ChainEnd:
    """The end of a chain with a record behind it, at once or behind a gap.

    Raises:
        RecordError: it does not come behind it.
    """
    if record.camera != camera:
        raise RecordError(f"it is of {record.camera}")
    if first or record.seq > end.seq + 1:
        if not first and parse_stream_id(record.stream_id) <= end.stream_id:
            raise RecordError(f"seq {record.seq} of {camera}: its stream id does not rise")
        return ChainEnd.of(record)
    return follow(end, record)


Tell = Callable[[str], None]


def tell_export(found: ExportVerification, tell: Tell, *, known: bool) -> None:
    """Say what an export proves, and what it cannot.

    Args:
        found: of `verify_export`.
        tell: says a line.
        known: the keys that may have signed were given.
    """
    from daemon.export.export import spelled  # noqa: PLC0415

    for camera, chain in found.chains.items():
        signed = "none of them signed"
        if chain.covered:
            whose = "" if known else f" with {', '.join(chain.keys)} (compare it: --public-key)"
            signed = f"{chain.covered} of {chain.records} signed{whose}"
        gaps = len(chain.pieces) - 1
        tell(f"{found.path}: {camera}: records {spelled(chain.pieces)}: {signed}")
        if gaps > 0:
            tell(f"  {gaps} gaps: nothing shows what lies between, nor that nothing was left out")
        if chain.covered < chain.records:
            tell(f"  {chain.records - chain.covered} could have been written anew by whoever made the export")
    recordings = f", {found.clips} recordings show their records' frames" if found.clips else ""
    tell(f"{found.records} records and {found.pictures} pictures hold{recordings}; files: {found.files}")
    if found.unproven:
        tell(f"{found.unproven} recordings are whole, but nothing shows that they are of their records")
    for problem in found.problems_then:
        tell(f"when it was written this did not verify: {problem}")
    tell(f"sum of all: {found.sum} (compare it with the one noted when it was handed over)")
