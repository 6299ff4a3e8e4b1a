"""Checking an export: check.py's checks, and the signatures."""

import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from daemon.export.check import check, sha256
from daemon.export.export import format_runs, runs_of
from daemon.export.files import MANIFEST, SUMS, ExportError
from pipeline.journal.segments import line_end
from pipeline.journal.signatures import Signature
from pipeline.journal.verification import find_fault
from pipeline.report.words import many


@dataclass(frozen=True, slots=True)
class ChainProof:
    """The part of a camera's chain that an export holds."""

    pieces: list[list[int]]  # first and last record of each run without a gap
    covered: int  # records that a signature signs, or a later one in their run
    records: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportVerification:
    """Result; `sum` is the SHA-256 (hex) of SHA256SUMS, `problems_then` those at the time of export."""

    path: Path
    problems: tuple[str, ...]
    records: int = 0
    pictures: int = 0
    clips: int = 0
    chains: Mapping[str, ChainProof] = field(default_factory=dict)
    problems_then: tuple[str, ...] = ()
    sum: str = ""


def verify_export(
    path: Path, keys: Collection[str] = (), timestamp_ca: Path | None = None
) -> ExportVerification:
    """Check every file, record, link, signature and picture of an export, a folder or a zip.

    Signatures are checked by any of `keys` (without them, by those that they name), times by the authorities
    in the PEM file `timestamp_ca`. Raises `ExportError`.
    """
    with _unpack(path) as folder:
        if not (folder / MANIFEST).is_file():
            return ExportVerification(path, (f"{path}: this is not an export of narrations, or it was cut",))
        problems, chains = check(folder, timestamp_ca), dict[str, ChainProof]()
        for chain in sorted(folder.glob("chain/*.jsonl")):
            chains[chain.stem], fault = _check_signatures(chain, keys)
            problems += [fault] if fault else []
        try:
            then = tuple(json.loads((folder / MANIFEST).read_bytes())["problems"])
        except (ValueError, KeyError, TypeError):
            then = ()
        return ExportVerification(
            path,
            tuple(f"{path}: {problem}" for problem in problems),
            sum(chain.records for chain in chains.values()),
            len(list(folder.glob("pictures/*"))),
            len(list(folder.glob("clips/*"))),
            chains,
            then,
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


def _check_signatures(chain: Path, keys: Collection[str]) -> tuple[ChainProof, str]:
    ends = [end for line in chain.read_bytes().split(b"\n")[:-1] if (end := line_end(line))]
    hashes = {end.seq: end.hash for end in ends}
    path, pieces, fault = chain.with_suffix(".signatures"), runs_of(hashes), ""
    lines = Signature.read(path.read_bytes() if path.is_file() else b"")
    if keys and not lines:
        fault = f"chain/{path.name}: no signature covers these records: export them again with --linked"
    elif broken := find_fault(lines, chain.stem, hashes, None, keys):
        fault = f"chain/{path.name}:{broken[0]}: {broken[1]}"
    signatures = [each for each in lines if not isinstance(each, str)]
    last = [max((s.seq for s in signatures if a <= s.seq <= b), default=a - 1) for a, b in pieces]
    covered = sum(signed - first + 1 for signed, (first, _) in zip(last, pieces, strict=True))
    signers = tuple(dict.fromkeys(signature.key for signature in signatures))
    return ChainProof(pieces, covered, len(hashes), signers), fault


def print_export(result: ExportVerification, say: Callable[[str], None], *, known: bool) -> None:
    """Print what an export proves and what it does not; `known`: keys that may have signed were given."""
    for camera, chain in result.chains.items():
        signed = "none of them signed"
        if chain.covered:
            whose = "" if known else f" with {', '.join(chain.keys)} (compare it: --public-key)"
            signed = f"{chain.covered} of {chain.records} signed{whose}"
        say(f"{result.path}: {camera}: records {format_runs(chain.pieces)}: {signed}")
        if (gaps := len(chain.pieces) - 1) > 0:
            say(f"  {many(gaps, 'gap')}: nothing shows what lies between, nor that nothing was left out")
        if chain.covered < chain.records:
            say(f"  {chain.records - chain.covered} could have been rewritten by the maker of the export")
    recordings = f", {many(result.clips, 'recording')}" if result.clips else ""
    say(f"{many(result.records, 'record')}, {many(result.pictures, 'picture')}{recordings}")
    for problem in result.problems_then:
        say(f"when it was written this did not verify: {problem}")
    say(f"checksum of the whole export: {result.sum} (compare it with the one kept when it was handed over)")
