"""Where the journals to be searched lie."""

import os
from pathlib import Path
from typing import NamedTuple

from daemon.questions.question import NoJournalsError
from pipeline.disk import PRIVATE_FOLDER, make_folder
from pipeline.record_format import closed_name

INSTALLED = Path("/var/lib/narrated")  # where the service's unit keeps its state


class JournalFile(NamedTuple):
    name: str
    chain: str  # the name that the files of one chain share; a camera, but for merged files
    first: int | None  # number of a closed segment's first record; None for the file that is being written


def journal_folder(path: Path) -> Path:
    """The folder of journals that a path means: itself, or the ``journal`` in a state or replay folder."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - holds and pictures lie beside a link, not where it leads
    if (path / "journal").is_dir():
        return path / "journal"
    if not path.is_dir():
        raise NoJournalsError(f"there is no folder {path}: give a folder of journals, or a replay's --out")
    return path


def make_journal_folder(state: Path) -> None:
    folder = state / "journal"
    try:
        if not folder.is_dir():
            make_folder(folder, PRIVATE_FOLDER)
    except OSError as error:
        raise NoJournalsError(f"{folder} is missing and cannot be made: {error.strerror}") from error


def default_state(configured: Path) -> Path:
    """The state folder to search where none is named: what is usual here, else the installed service's."""
    places = [configured] if os.environ.get("STATE_DIRECTORY") else [configured, INSTALLED]
    return next((place for place in places if (place / "journal").is_dir()), configured)


def journal_files(folder: Path) -> list[JournalFile]:
    """The files of journals in a folder, by name; NoJournalsError where it cannot be read."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".jsonl"))
    except OSError as error:
        raise NoJournalsError(f"cannot read {folder}: {error.strerror or error}") from None
    return [
        JournalFile(name, *(closed_name(name) or (name.removesuffix(".jsonl"), None)))
        for name in names
        if not name.startswith(".")
    ]
