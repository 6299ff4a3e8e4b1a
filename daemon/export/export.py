"""Writing an export: records, chains and signatures, pictures, recordings, a page, and how to check it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import BinaryIO

from jinja2 import Environment, StrictUndefined

from daemon.export.archive import Archive, opened_archive
from daemon.export.chains import ChainLines
from daemon.export.clips import Footage, Recorded
from daemon.export.manifest import NAME, CheckedJournal, ExportedChain, ExportedClip, Manifest
from daemon.questions.local_time import LocalTime
from daemon.search.found import FoundRecord
from daemon.search.page import Addresses, page
from pipeline.journal import VerifyOptions, verify
from pipeline.journal.segments import closed_segments

_TAG = "sha256:"
_SOURCES = "'self' file: data:"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What goes with the records.

    Attributes:
        journals: folder of the journals.
        local: in which times the page tells.
        selection: what was asked for, as options of `narrated query`.
        linked: the records between those selected, too, up to the next signature.
        footage: where recordings are; None gives none.
        force: replace what is there.
    """

    journals: Path
    local: LocalTime = field(default_factory=LocalTime)
    selection: str = ""
    linked: bool = False
    footage: Footage | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        manifest: see there.
        pictures: how many.
        sum: SHA-256 (hex) of the list of all sums: note it, and nothing can be changed unseen.
    """

    manifest: Manifest
    pictures: int
    sum: str


def write_export(found: Iterable[FoundRecord], out: Path | BinaryIO, options: ExportOptions) -> Exported:
    """Write narrations as one folder or zip, see `opened_archive`, that can be checked without us.

    The same narrations of the same journals give the same bytes: no time of writing is in them.

    Raises:
        ExportError: it cannot be written, or something is there already.
    """
    with (
        opened_archive(out, force=options.force) as archive,
        tempfile.TemporaryDirectory(prefix="narrated-") as scratch,
        ChainLines() as lines,
    ):
        writing = _Writing(archive, lines, options, Path(scratch))
        return writing.all(found)


class _Writing:
    """One export while it is written."""

    def __init__(self, archive: Archive, lines: ChainLines, options: ExportOptions, scratch: Path) -> None:
        self._archive, self._lines, self._options, self._scratch = archive, lines, options, scratch
        self._pictures: dict[Path, str] = {}
        self._clips: dict[str, ExportedClip] = {}
        self._clip_of: dict[str, str] = {}
        self._without: dict[str, str] = {}
        self._gone: set[str] = set()
        self._problems: list[str] = []

    def all(self, found: Iterable[FoundRecord]) -> Exported:
        """Take the narrations one by one; the page comes with them, what is told of all of them last."""
        own = self._options
        shown = self._scratch / "index.html"
        addresses = Addresses(
            lambda path: self._pictures.get(path, ""),
            lambda f: self._clip_of.get(f.record.hash, ""),
            _SOURCES,
        )
        facts = [("Selected", own.selection or "everything"), ("How to check it", "README.md")]
        with shown.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(
                page("What was narrated", facts, [], self._taken(found), own.local, addresses=addresses)
            )
        self._archive.copy("index.html", shown)
        if own.linked:
            self._lines.link(own.journals)
        journals = _checked(own.journals, self._lines.cameras, self._problems)
        written = self._lines.write(self._archive, own.journals)
        manifest = Manifest(
            selection=own.selection,
            records=self._lines.records,
            linked=own.linked,
            chains={name: ExportedChain(pieces=p, signed=signed) for name, (p, signed) in written.items()},
            journals=journals,
            problems=self._problems,
            clips=self._clips,
            without_clip=self._without,
            gone=sorted(self._gone),
        )
        self._archive.write(NAME, [manifest.content()])
        self._archive.write("README.md", [_readme(manifest).encode()])
        check = resources.files(__package__).joinpath("check.py")
        self._archive.write("check.py", [check.read_bytes()])
        return Exported(manifest, len(self._pictures), self._archive.finish())

    def _taken(self, found: Iterable[FoundRecord]) -> Iterator[FoundRecord]:
        for each in found:
            record = each.record
            self._lines.add(record.camera, record.seq, each.line)
            self._problems += [f"{record.camera}, record {record.seq}: {mark}" for mark in each.marks]
            self._take_pictures(each)
            if self._options.footage:
                self._take_clip(each, self._options.footage)
            yield each

    def _take_pictures(self, found: FoundRecord) -> None:
        evidence = found.record.evidence
        named = evidence.model_dump(exclude_none=True) if evidence else {}
        for side, reference in named.items():
            digest, path = reference.removeprefix(_TAG), found.pictures.get(side)
            if path in self._pictures:
                continue
            try:
                if path is None:
                    raise FileNotFoundError  # noqa: TRY301 - as where retention comes between
                name = f"pictures/{path.name}"
                changed = self._archive.copy(name, path) != digest
            except FileNotFoundError:
                self._gone.add(digest)
                continue
            self._pictures[path] = name
            if changed:
                self._problems.append(
                    f"{found.record.camera}, record {found.record.seq}: its picture was changed"
                )

    def _take_clip(self, found: FoundRecord, footage: Footage) -> None:
        record = found.record
        clip = footage.clip(record, self._scratch)
        if not isinstance(clip, Recorded):
            self._without[record.id] = clip
            return
        name = f"clips/{record.camera}-{record.seq}{clip.path.suffix}"
        self._archive.copy(name, clip.path)
        frames = {side: clip.frames[side] for side in ("before", "after") if side in clip.frames}
        self._clips[name] = ExportedClip(
            camera=record.camera,
            record=record.seq,
            source=clip.source,
            frames=frames,
        )
        self._clip_of[record.hash] = name


def spelled(pieces: Sequence[tuple[int, int]]) -> str:
    """Runs of numbers for people: ``1-4, 9``."""
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in pieces)


def _readme(manifest: Manifest) -> str:
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    source = resources.files(__package__).joinpath("README.md.j2").read_text(encoding="utf-8")
    camera = next(iter(manifest.chains), "CAMERA")
    values = {name: getattr(manifest, name) for name in ("records", "linked", "chains", "journals", "clips")}
    text = environment.from_string(source).render(
        **values, selection=manifest.selection, problems=manifest.problems, pieces=spelled, camera=camera
    )
    return text.rstrip("\n") + "\n"


def _checked(journals: Path, cameras: Sequence[str], problems: list[str]) -> dict[str, CheckedJournal]:
    """How the journals of cameras are, as a whole; what does not hold is added to the problems."""
    files = {camera: journals / f"{camera}.jsonl" for camera in cameras}
    paths = [path for camera, path in files.items() if path.exists() or closed_segments(journals, camera)]
    merged = [] if len(paths) == len(files) else [journals]
    found = verify([*paths, *merged], VerifyOptions(evidence=False))
    problems += [f"{p.path.name}:{p.line}: {p.reason}" for p in found.problems]
    checked = {}
    for (path, camera), end in found.ends.items():
        if camera in files:
            signed = found.signed.get((path, camera))
            checked[camera] = CheckedJournal(
                last=end.seq,
                hash=end.hash,
                signed=signed.seq if signed else 0,
                keys=list(signed.keys) if signed else [],
            )
    return checked
