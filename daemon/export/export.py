"""Writing an export: records, chains and signatures, pictures, recordings, a page, and how to check it."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO

from jinja2 import Environment, StrictUndefined

from daemon.export.clips import Footage
from daemon.export.files import MANIFEST, ExportError, export_folder, write_sums
from daemon.export.masks import Mask
from daemon.questions.local_time import LocalTime
from daemon.search.search import SearchResult
from models.language.catalogue import _
from pipeline.evidence import evidence_folder, picture_path
from pipeline.journal.segments import find_chains, line_end
from pipeline.journal.signatures import Attestation, Signature
from pipeline.journal.timestamps import Timestamp
from pipeline.record import Record
from pipeline.report.card import SIDES, Card
from pipeline.report.pages import Head, records_page

_TAG = "sha256:"


@dataclass(slots=True)
class Manifest:
    selection: str = ""  # the question, restated
    records: int = 0
    linked: bool = False  # the records between those selected, up to the next signature, are here as well
    chains: dict[str, dict[str, Any]] = field(default_factory=dict)  # see `_write_chain`, by camera
    problems: list[str] = field(default_factory=list)  # records and pictures that do not verify
    gaps: list[str] = field(default_factory=list)  # of the record, one sentence each
    clips: dict[str, dict[str, object]] = field(default_factory=dict)  # see `_cut_clip`, by name here
    without_clip: dict[str, str] = field(default_factory=dict)  # why a record has no recording, by id
    gone: list[str] = field(default_factory=list)  # digests of pictures that were not there
    mask: str = ""  # the track outside of whose box pictures are black; empty: none
    masked: dict[str, str | None] = field(default_factory=dict)  # by the unmasked digest; None: left out
    schema: str = "narrated-export/2"


@dataclass(slots=True)
class Export:
    """An export while it is written; the same narrations of the same journals give the same bytes."""

    manifest: Manifest  # with `selection`, `gaps`, `linked` and `mask`; gets what was written
    journals: Path  # their folder
    local: LocalTime = field(default_factory=LocalTime)  # time zone of the page
    mask: Mask = field(default_factory=Mask)
    footage: Footage | None = None
    pictures: dict[Path, str] = field(default_factory=dict)  # names here, by where they were
    _folder: Path = Path()
    _lines: dict[str, dict[int, bytes]] = field(default_factory=dict)  # by camera and number

    def write(self, results: Iterable[SearchResult], out: Path, *, force: bool = False) -> tuple[int, str]:
        """Write narrations, into a zip where the name of `out` ends so; `force` replaces what is there.

        Returns how many pictures, and the SHA-256 (hex) of SHA256SUMS. Raises `ExportError`.
        """
        with export_folder(out, force=force) as self._folder:
            return self._write(results)

    def _write(self, results: Iterable[SearchResult]) -> tuple[int, str]:
        manifest, folder = self.manifest, self._folder
        for name in ("chain", "pictures"):
            (folder / name).mkdir()
        facts = [(_("Selected"), manifest.selection or _("everything")), (_("How to check it"), "README.md")]
        missing = [gap[:1].upper() + gap[1:] for gap in manifest.gaps]
        head = Head(_("What was narrated"), facts, missing=missing or None)
        with (folder / "index.html").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(records_page(head, self._cards(results)))
        for camera, lines in sorted(self._lines.items()):
            manifest.chains[camera] = self._write_chain(camera, lines)
        manifest.gone = sorted(set(manifest.gone))
        content = json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n"
        (folder / MANIFEST).write_bytes(content.encode(errors="replace"))  # names of files may be no UTF-8
        (folder / "README.md").write_text(_readme(manifest), encoding="utf-8")
        check = resources.files(__package__).joinpath("check.py")
        (folder / "check.py").write_bytes(check.read_bytes())
        return len({*self.pictures.values()}), write_sums(folder)

    def _cards(self, results: Iterable[SearchResult]) -> Iterator[Card]:
        with (self._folder / "records.jsonl").open("wb") as file:
            for each in results:
                record = each.record
                self._lines.setdefault(record.camera, {})[record.seq] = each.line + b"\n"
                file.write(each.line + b"\n")
                self.manifest.records += 1
                self.manifest.problems += [f"{record.camera}, record {record.seq}: {m}" for m in each.marks]
                self._copy_pictures(each)
                clip = self._cut_clip(each, self.footage) if self.footage else ""
                pictures = {side: p for side, path in each.pictures.items() if (p := self.pictures.get(path))}
                address, zone = f"#r-{record.id}", self.local.zone
                yield Card(record, zone, pictures, address, each.marks, clip=clip, notes=self._notes(record))

    def _copy_pictures(self, result: SearchResult) -> None:
        record, manifest = result.record, self.manifest
        named = record.evidence.model_dump(exclude_none=True) if record.evidence else {}
        for side, reference in named.items():
            path, digest = result.pictures.get(side), reference.removeprefix(_TAG)
            if path in self.pictures:
                continue
            path = path or picture_path(evidence_folder(self.journals) or self.journals, digest)
            try:
                content = path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):  # also where retention came between
                manifest.gone.append(digest)
                continue
            except OSError as error:
                raise ExportError(f"{path} cannot be read: {error.strerror or error}") from None
            if hashlib.sha256(content).hexdigest() != digest:
                manifest.problems.append(f"{record.camera}, record {record.seq}: its picture was changed")
            name = path.name
            if manifest.mask:
                masked = self.mask.picture(record, side, content)
                manifest.masked[digest] = hashlib.sha256(masked).hexdigest() if masked else None
                if masked is None:
                    continue
                content, name = masked, f"{manifest.masked[digest]}.jpg"
            self.pictures[path] = f"pictures/{name}"
            (self._folder / "pictures" / name).write_bytes(content)

    def _notes(self, record: Record) -> list[str]:
        if not self.manifest.mask:
            return []
        named = record.evidence.model_dump(exclude_none=True) if record.evidence else {}
        whole = "; ".join(f"{side} {named[side]}" for side in SIDES if side in named)
        return [f"All but track {self.manifest.mask} is black. Unmasked: {whole or 'no picture'}."]

    def _cut_clip(self, result: SearchResult, footage: Footage) -> str:
        record = result.record
        with tempfile.TemporaryDirectory(prefix="narrated-") as scratch:
            clip = footage.cut(record, Path(scratch), self.mask)
            if isinstance(clip, str):
                self.manifest.without_clip[record.id] = clip
                return ""
            path, source = clip
            name = f"clips/{record.camera}-{record.seq}{path.suffix}"
            (self._folder / "clips").mkdir(exist_ok=True)
            shutil.move(path, self._folder / name)
        facts = {"camera": record.camera, "record": record.seq, "source": source}
        encoded = {"encoded": True} if self.mask.changes(record.camera) else {}
        self.manifest.clips[name] = facts | encoded
        return name

    def _write_chain(self, camera: str, lines: dict[int, bytes]) -> dict[str, Any]:
        """Its ``pieces`` (see `runs_of`), and the numbers ``signed`` and ``stamped`` last (0: none)."""
        kinds: tuple[type[Attestation], ...] = (Signature, Timestamp)
        proofs = {kind: kind.load(self.journals, camera) for kind in kinds}
        numbers = sorted(lines)
        with (self._folder / f"chain/{camera}.jsonl").open("wb") as file:
            if self.manifest.linked:
                last = max(
                    min((each.seq for each in every if each.seq >= numbers[-1]), default=numbers[-1])
                    for every in proofs.values()
                )
                numbers = _copy_lines(self.journals, camera, numbers[0], last, file)
            else:
                file.writelines(lines[number] for number in numbers)
        there, facts = set(numbers), dict[str, Any](pieces=runs_of(numbers))
        for kind, every in proofs.items():
            kept = [each for each in every if each.seq in there]
            facts[kind.verb] = max((each.seq for each in kept), default=0)
            if kept:
                content = b"".join(each.line() + b"\n" for each in kept)
                kind.file(self._folder / "chain", camera).write_bytes(content)
        return facts


def runs_of(numbers: Iterable[int]) -> list[list[int]]:
    """Rising numbers as runs without a gap, ``[first, last]``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def format_runs(runs: Sequence[Sequence[int]]) -> str:
    """Runs of numbers for people: ``1-4, 9``."""
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def _copy_lines(journals: Path, camera: str, first: int, last: int, out: BinaryIO) -> list[int]:
    """Copy the lines of a camera's journal from one number to another; the numbers of those copied."""
    (chain,), _ = find_chains([journals / f"{camera}.jsonl"])
    copied = []
    for path in chain.files:
        if not path.exists():
            raise ExportError(f"{path} is not there: --linked needs the journals, not a merged file")
        with path.open("rb") as file:
            for raw in file:
                end = line_end(raw[:-1]) if raw.endswith(b"\n") else None
                if end is not None and first <= end.seq <= last:
                    out.write(raw)
                    copied.append(end.seq)
    return copied


def _readme(manifest: Manifest) -> str:
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    source = resources.files(__package__).joinpath("README.md.j2").read_text(encoding="utf-8")
    camera = next(iter(manifest.chains), "CAMERA")
    text = environment.from_string(source).render(**asdict(manifest), format_runs=format_runs, camera=camera)
    return text.rstrip("\n") + "\n"
