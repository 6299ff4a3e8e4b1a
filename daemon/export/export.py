"""Writing an export: records, chains and signatures, pictures, recordings, a page, and how to check it."""

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path

from daemon.export.clips import Footage, Mask
from daemon.export.verification import MANIFEST, SUMS, ChainProof, ExportError, check_signatures
from daemon.questions.question import LocalTime
from daemon.search.search import SearchResult
from models.language.catalogue import _
from pipeline.disk import sync_folder
from pipeline.evidence import evidence_folder, picture_path
from pipeline.journal.segments import find_chains, line_end
from pipeline.journal.signatures import Signature, Timestamp
from pipeline.record import Record
from pipeline.report.page import Card, Head, records_page

_STORED = (".jpg", ".webp", ".mp4", ".mkv")  # compressed already


@dataclass(slots=True)
class Manifest:
    selection: str = ""  # the question, restated
    records: int = 0
    linked: bool = False  # the records between those selected, up to the next signature, are here as well
    chains: dict[str, ChainProof] = field(default_factory=dict)  # by camera
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
    _folder: Path = Path()
    _pictures: dict[str, str] = field(default_factory=dict)  # names here by digest; empty: not here
    _lines: dict[str, dict[int, bytes]] = field(default_factory=dict)  # by camera and number

    def write(self, results: Iterable[SearchResult], out: Path, *, force: bool = False) -> tuple[int, str]:
        """Write narrations, into a zip where the name of `out` ends so; `force` replaces what is there.

        Returns how many pictures, and the SHA-256 (hex) of SHA256SUMS. Raises `ExportError`.
        """
        manifest = self.manifest
        with export_folder(out, force=force) as folder:
            self._folder = folder
            for name in ("chain", "pictures"):
                (folder / name).mkdir()
            with (folder / "index.html").open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(records_page(self._head(), self._cards(results)))
            for camera, lines in sorted(self._lines.items()):
                manifest.chains[camera] = self._write_chain(camera, lines)
            manifest.gone.sort()
            content = json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n"
            # Names of files may be no UTF-8.
            (folder / MANIFEST).write_text(content, encoding="utf-8", errors="replace")
            for name in ("README.md", "check.py"):
                (folder / name).write_bytes(resources.files(__package__).joinpath(name).read_bytes())
            return len({*filter(None, self._pictures.values())}), _write_sums(folder)

    def _head(self) -> Head:
        facts = [(_("Selected"), self.manifest.selection), (_("How to check it"), "README.md")]
        missing = [gap[:1].upper() + gap[1:] for gap in self.manifest.gaps]
        return Head(_("What was narrated"), facts, missing=missing or None)

    def _cards(self, results: Iterable[SearchResult]) -> Iterator[Card]:
        with (self._folder / "records.jsonl").open("wb") as file:
            for each in results:
                record = each.record
                self._lines.setdefault(record.camera, {})[record.seq] = each.line + b"\n"
                file.write(each.line + b"\n")
                self.manifest.records += 1
                self.manifest.problems += [f"{record.camera}, record {record.seq}: {m}" for m in each.marks]
                pictures = dict(self._copy_pictures(record))
                clip = self._cut_clip(record, self.footage) if self.footage else ""
                yield Card(record, self.local.zone, pictures, f"#r-{record.id}", each.marks, clip=clip)

    def _copy_pictures(self, record: Record) -> Iterator[tuple[str, str]]:
        """Copy a record's pictures; sides and names of those that are here."""
        named = record.evidence.model_dump(exclude_none=True) if record.evidence else {}
        for side, reference in named.items():
            digest = reference.removeprefix("sha256:")
            if digest not in self._pictures:
                self._pictures[digest] = self._copy_picture(record, side, digest)
            if name := self._pictures[digest]:
                yield side, name

    def _copy_picture(self, record: Record, side: str, digest: str) -> str:
        manifest, path = self.manifest, picture_path(evidence_folder(self.journals) or self.journals, digest)
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):  # also where retention came between
            manifest.gone.append(digest)
            return ""
        if hashlib.sha256(content).hexdigest() != digest:
            manifest.problems.append(f"{record.camera}, record {record.seq}: its picture was changed")
        name = f"pictures/{path.name}"
        if manifest.mask:
            masked = self.mask.picture(record, side, content)
            manifest.masked[digest] = hashlib.sha256(masked).hexdigest() if masked else None
            if masked is None:
                return ""
            content, name = masked, f"pictures/{manifest.masked[digest]}.jpg"
        (self._folder / name).write_bytes(content)
        return name

    def _cut_clip(self, record: Record, footage: Footage) -> str:
        clip = footage.cut(record, self._folder.parent, self.mask)  # which is a temporary folder
        if isinstance(clip, str):
            self.manifest.without_clip[record.id] = clip
            return ""
        path, source = clip
        name = f"clips/{record.camera}-{record.seq}{path.suffix}"
        (self._folder / "clips").mkdir(exist_ok=True)
        path.rename(self._folder / name)
        facts = self.manifest.clips[name] = {"camera": record.camera, "record": record.seq, "source": source}
        if self.mask.changes(record.camera):
            facts["encoded"] = True
        return name

    def _write_chain(self, camera: str, lines: dict[int, bytes]) -> ChainProof:
        proofs = [kind.load(self.journals, camera) for kind in (Signature, Timestamp)]
        path, last = self._folder / f"chain/{camera}.jsonl", max(lines)
        if self.manifest.linked:
            last = max(min((e.seq for e in every if e.seq >= last), default=last) for every in proofs)
            lines = dict(_lines_between(self.journals / f"{camera}.jsonl", min(lines), last))
        path.write_bytes(b"".join(lines[number] for number in sorted(lines)))
        for every in proofs:
            kept = [each for each in every if each.seq in lines]
            for each in kept[:1]:
                each.file(path.parent, camera).write_bytes(b"".join(each.line() + b"\n" for each in kept))
        return check_signatures(path)[0]


def _lines_between(journal: Path, first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a journal by their numbers, as they are; those that are no records are left out."""
    ((chain,), _empty) = find_chains([journal])
    for path in chain.files:
        with path.open("rb") as file:
            for raw in file:
                end = line_end(raw) if raw.endswith(b"\n") else None
                if end and first <= end.seq <= last:
                    yield end.seq, raw


@contextmanager
def export_folder(out: Path, *, force: bool = False) -> Iterator[Path]:
    """A hidden folder that becomes `out` at the end, packed if that is a ``.zip``; raises `ExportError`."""
    if out.exists() and not force:
        raise ExportError(f"{out} exists already: give another --out, or --force to replace it")
    if out.exists() and not _is_whole(out):
        raise ExportError(f"{out} is not an export, and is not replaced: give another --out")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            made = folder = Path(scratch, "folder")
            folder.mkdir()
            yield folder
            if out.suffix.lower() == ".zip":
                made = Path(scratch, "zip")
                _pack(folder, made)
            if out.exists() and (out.is_dir() or made.is_dir()):  # only a file replaces a file in one step
                out.rename(Path(scratch, "replaced"))
            made.replace(out)
        sync_folder(out.absolute().parent)
    except OSError as error:
        raise ExportError(f"cannot make {out}: {error}") from None


def _is_whole(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return (path / MANIFEST).is_file()
    with zipfile.ZipFile(path) as archive:
        return MANIFEST in archive.namelist()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    paths = sorted(folder.rglob("*"))
    return ((path.relative_to(folder).as_posix(), path) for path in paths if path.is_file())


def _write_sums(folder: Path) -> str:
    lines = []
    for name, path in _files(folder):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
            os.fsync(file.fileno())
    content = "".join(lines).encode()
    (folder / SUMS).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def _pack(folder: Path, out: Path) -> None:
    with out.open("wb") as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, path in _files(folder):
                entry = zipfile.ZipInfo(name)  # of 1980: the same files give the same bytes
                entry.external_attr = 0o644 << 16
                kind = zipfile.ZIP_STORED if path.suffix in _STORED else zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes(), kind)
        file.flush()
        os.fsync(file.fileno())
