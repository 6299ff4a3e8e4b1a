"""The folder of a replay: growing journals, at the end narrations.jsonl, subtitles and report.html."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self

from daemon.threads.narrator import JournalledPair
from pipeline.report import ReportFacts, ReportFiles, ReportWriter

_OWN = ("narrations.jsonl", "report.html", "journal")


class OutputError(Exception):
    """The folder cannot be used; the message says what to do."""


def check_output(folder: Path, *, force: bool) -> None:
    """Refuse a folder whose narrations would be lost.

    Raises:
        OutputError: it holds narrations and `force` is not given, or is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is no folder: give another --out")
    if not force and any((folder / name).exists() for name in _OWN):
        raise OutputError(
            f"{folder} holds narrations already: give another --out, or --force to replace them"
        )


class OutputFolder:
    """Collects what was narrated; every file in it is whole, or absent.

    Args:
        folder: made if need be; what an earlier replay wrote there is removed.

    Attributes:
        journal: folder of the journals, which grow as the replay goes on.
        evidence: folder of the pictures that they name, if any are kept.

    Raises:
        OutputError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal"
        self.evidence = folder / "evidence"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for grown in (self.journal, self.evidence):
                if grown.exists():
                    shutil.rmtree(grown)
            for old in [folder / "narrations.jsonl", folder / "report.html", *folder.glob("*.vtt")]:
                old.unlink(missing_ok=True)
            self._report = ReportWriter(folder)
        except OSError as error:
            raise OutputError(f"cannot write {folder}: {error.strerror}: give another --out") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._report.close()

    def add(self, journalled: JournalledPair) -> None:
        """Put a narration and its pictures into the report."""
        self._report.add(journalled.record, journalled.pair.before.image, journalled.pair.after.image)

    def finish(self, facts: ReportFacts) -> ReportFiles:
        """Write narrations.jsonl, the subtitles and the page.

        Args:
            facts: for the page's head.

        Raises:
            OutputError: the folder cannot be written.
        """
        try:
            return self._report.finish(facts)
        except OSError as error:
            raise OutputError(
                f"cannot write {self.folder}: {error.strerror}; the journals in {self.journal} are whole"
            ) from None
