"""The folder of a replay: growing journals, at the end narrations.jsonl, subtitles and report.html."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from daemon.replay.resumption import Outcome, Resumption
from daemon.threads.narrator import JournalledPair
from pipeline.disk import replace_file
from pipeline.journal import JournalError, read_camera
from pipeline.journal.segments import closed_segments
from pipeline.record import Record
from pipeline.report.facts import ReportFacts
from pipeline.report.writer import PICTURES, ReportWriter

_OWN = ("narrations.jsonl", "report.html", "journal")


class OutputError(Exception):
    """The folder cannot be used; the message says what to do."""


def check_output(folder: Path, *, force: bool) -> None:
    """Refuse a folder whose narrations would be lost.

    Raises:
        OutputError: it holds narrations and `force` is not given, or is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is not a folder: give another --out")
    if not force and any((folder / name).exists() for name in _OWN):
        raise OutputError(
            f"{folder} holds narrations already: give another --out, --force to replace them, or --resume to "
            "go on with a replay that was interrupted"
        )


@dataclass(frozen=True, slots=True)
class FinishedCamera:
    """What the folder of a replay holds of one finished camera.

    Attributes:
        camera: its name.
        outcome: what came of it.
        journal, evidence: contents by path in the folder.
        pictures: those of the report.
    """

    camera: str
    outcome: Outcome
    journal: dict[str, bytes]
    evidence: dict[str, bytes]
    pictures: bytes

    @property
    def narrations(self) -> int:
        """How many there are: a line each."""
        return sum(content.count(b"\n") for content in self.journal.values())

    @classmethod
    def read(cls, folder: Path, camera: str, outcome: Outcome) -> FinishedCamera:
        """Of a folder that a replay of this one camera has written, its report left out."""

        def contents(paths: Iterable[Path]) -> dict[str, bytes]:
            return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}

        return cls(
            camera,
            outcome,
            contents(_chains(folder / "journal", [camera])),
            contents((folder / "evidence").rglob("*")),
            (folder / PICTURES).read_bytes(),
        )


class OutputFolder:
    """Collects what was narrated; every file in it is whole, or absent.

    Args:
        folder: made if need be; what an earlier replay wrote there is removed, but for what a resumed one
            keeps.
        of: identity of the replay, see `daemon.replay.resumption`.
        resume: go on with an earlier replay there.

    Attributes:
        resumption: the cameras that are finished.
        restored: the records of those that an earlier replay finished, by camera.
        journal: folder of the journals, which grow as the replay goes on.
        evidence: folder of the pictures that they name, if any are kept.

    Raises:
        OutputError: the folder cannot be written.
        ResumptionError: there is nothing that can go on.
    """

    def __init__(self, folder: Path, of: str, *, resume: bool = False) -> None:
        self.folder = folder
        self._complete = False
        self.restored: dict[str, list[Record]] = {}
        self.journal = folder / "journal"
        self.evidence = folder / "evidence"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.resumption = Resumption(folder, of, resume=resume)
            self._report = ReportWriter(folder, resume=resume)
            self._restore()
            for old in [folder / "narrations.jsonl", folder / "report.html", *folder.glob("*.vtt")]:
                old.unlink(missing_ok=True)
            if not self.restored and self.evidence.exists():
                shutil.rmtree(self.evidence)
            self.resumption.save()
        except OSError as error:
            raise OutputError(f"cannot write {folder}: {error.strerror}: give another --out") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._report.close(keep=not self._complete)

    def _restore(self) -> None:
        """Take up the finished cameras, and remove the journals of all others."""
        for camera in list(self.resumption.finished):
            try:
                records = list(read_camera(self.journal, camera))
            except JournalError:
                records = None
            if records is not None and self._report.restore(records):
                self.restored[camera] = records
            else:  # lost with the power
                self.resumption.forget(camera)
        kept = set(_chains(self.journal, self.restored))
        for path in self.journal.glob("*"):
            if path not in kept:
                path.unlink()

    def add(self, journalled: JournalledPair) -> None:
        """Put a narration and its pictures into the report."""
        if journalled.pair:
            self._report.add(journalled.record, journalled.pair.before.image, journalled.pair.after.image)

    def adopt(self, files: FinishedCamera) -> None:
        """Take a camera that was narrated elsewhere; afterwards it counts as finished.

        Raises:
            OutputError: the folder cannot be written.
        """
        try:
            for name, content in (files.evidence | files.journal).items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, content, durable=name in files.journal)
            self._report.take_pictures(files.pictures)
            self.finish_camera(files.camera, files.outcome)
        except OSError as error:
            raise OutputError(
                f"cannot write {self.folder}: {error.strerror}: make room, then --resume"
            ) from None

    def finish_camera(self, camera: str, outcome: Outcome) -> None:
        """A camera's records are all here: a replay that is resumed keeps them."""
        self._report.flush()
        self.resumption.note(camera, outcome)

    def finish(self, facts: ReportFacts, *, complete: bool) -> None:
        """Write narrations.jsonl, the subtitles and the page.

        Args:
            facts: for the page's head.
            complete: nothing is left that a resumed replay would do.

        Raises:
            OutputError: the folder cannot be written.
        """
        try:
            self._report.finish(facts)
            if complete:
                self.resumption.clear()
                self._complete = True
        except OSError as error:
            raise OutputError(
                f"cannot write {self.folder}: {error.strerror}; the journals in {self.journal} are whole"
            ) from None


def _chains(journal: Path, cameras: Iterable[str]) -> Iterator[Path]:
    """The files that hold the records of cameras."""
    for camera in cameras:
        yield journal / f"{camera}.jsonl"
        yield from (segment.path for segment in closed_segments(journal, camera))
