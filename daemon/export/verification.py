"""Checking an export: check.py's checks, and the signatures."""

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from daemon.export.check import check, sha256
from pipeline.journal.segments import line_end
from pipeline.journal.signatures import Signature
from pipeline.journal.verification import find_fault
from pipeline.report.words import many

SUMS = "SHA256SUMS"  # names every other file with its SHA-256, as `sha256sum` writes and reads it
MANIFEST = "export.json"


class ExportError(Exception):
    """Nothing can be exported, or not there; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ChainProof:
    """The part of a camera's chain that an export holds."""

    pieces: list[tuple[int, int]]  # first and last record of each run without a gap
    records: int
    covered: int  # records that a signature signs, or a later one in their run
    keys: tuple[str, ...]  # that have signed

    def __str__(self) -> str:
        runs = ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in self.pieces)
        count = f"{self.covered} of {self.records}" if self.covered else "none of them"
        return f"records {runs}: {count} signed"


@dataclass(frozen=True, slots=True)
class ExportVerification:
    path: Path
    problems: tuple[str, ...]
    records: int
    pictures: int
    clips: int
    chains: Mapping[str, ChainProof]  # by camera
    sum: str  # the SHA-256 (hex) of SHA256SUMS


def verify_export(
    path: Path, keys: Collection[str] = (), timestamp_ca: Path | None = None
) -> ExportVerification:
    """Check every file, record, link, signature and picture of an export, a folder or a zip.

    Signatures are checked by any of `keys` (without them, by those that they name), times by the authorities
    in the PEM file `timestamp_ca`. Raises `ExportError`.
    """
    with _unpack(path) as folder:
        if not (folder / MANIFEST).is_file():
            raise ExportError(f"{path}: this is not an export of narrations, or it was cut")
        problems, chains = check(folder, timestamp_ca), dict[str, ChainProof]()
        for chain in sorted(folder.glob("chain/*.jsonl")):
            chains[chain.stem], fault = check_signatures(chain, keys)
            problems += [fault] if fault else []
        return ExportVerification(
            path,
            tuple(f"{path}: {problem}" for problem in problems),
            sum(chain.records for chain in chains.values()),
            len(list(folder.glob("pictures/*"))),
            len(list(folder.glob("clips/*"))),
            chains,
            sha256(folder / SUMS) if (folder / SUMS).is_file() else "",
        )


@contextmanager
def _unpack(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="narrated-") as scratch:
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
                names = {entry.filename for entry in entries}
                size, free = sum(entry.file_size for entry in entries), shutil.disk_usage(scratch).free
                if len(names) < len(entries) or any(name.endswith("/") for name in names):
                    raise ExportError(f"{path} has an entry twice, or a folder: it was tampered with")
                if size > free:
                    raise ExportError(f"{path} unpacks to {size:,} bytes, and {free:,} are free in {scratch}")
                archive.extractall(scratch)
        except (OSError, zipfile.BadZipFile, EOFError, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
            raise ExportError(f"{path} is not a whole zip, copy it again: {error}") from None
        yield Path(scratch)


def check_signatures(chain: Path, keys: Collection[str] = ()) -> tuple[ChainProof, str]:
    """What a file of a chain's records proves, and what is wrong with the signatures beside it."""
    ends = [end for line in chain.read_bytes().split(b"\n")[:-1] if (end := line_end(line))]
    hashes, path, fault = {end.seq: end.hash for end in ends}, chain.with_suffix(".signatures"), ""
    lines = Signature.read_file(chain.parent, chain.stem)
    if keys and not lines:
        fault = f"chain/{path.name}: no signature covers these records: export them again with --linked"
    elif broken := find_fault(lines, chain.stem, hashes, None, keys):
        fault = f"chain/{path.name}:{broken[0]}: {broken[1]}"
    # A number less its place is the same throughout a run without a gap.
    runs = groupby(enumerate(hashes), key=lambda each: each[1] - each[0])
    pieces = [(run[0][1], run[-1][1]) for run in (list(each) for _, each in runs)]
    signatures = [each for each in lines if not isinstance(each, str)]
    last = [max((s.seq for s in signatures if a <= s.seq <= b), default=a - 1) for a, b in pieces]
    covered = sum(signed - first + 1 for signed, (first, _) in zip(last, pieces, strict=True))
    keys = tuple(dict.fromkeys(signature.key for signature in signatures))
    return ChainProof(pieces, len(hashes), covered, keys), fault


def print_export(result: ExportVerification, say: Callable[[str], None], *, known: bool) -> None:
    """Print what an export proves and what it does not; `known`: keys that may have signed were given."""
    for camera, chain in result.chains.items():
        whose = (
            f" with {', '.join(chain.keys)} (compare it: --public-key)" if chain.covered and not known else ""
        )
        say(f"{result.path}: {camera}: {chain}{whose}")
        if (gaps := len(chain.pieces) - 1) > 0:
            say(f"  {many(gaps, 'gap')}: nothing shows what lies between, nor that nothing was left out")
        if chain.covered < chain.records:
            say(f"  {chain.records - chain.covered} could have been rewritten by the maker of the export")
    recordings = f", {many(result.clips, 'recording')}" if result.clips else ""
    say(f"{many(result.records, 'record')}, {many(result.pictures, 'picture')}{recordings}")
    say(f"checksum of the whole export: {result.sum} (compare it with the one kept when it was handed over)")
