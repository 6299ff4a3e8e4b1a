"""Which files make up the chains that a path names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.journal.segments import closed_name, closed_segments


@dataclass(frozen=True, slots=True)
class Chain:
    """The files of one chain, oldest first, at least one.

    Attributes:
        folder: of the files.
        camera: by whose name they are called; a merged file holds the chains of several.
        files: closed segments, then the one that is written.
    """

    folder: Path
    camera: str
    files: tuple[Path, ...]


def find_chains(paths: Iterable[Path]) -> tuple[list[Chain], list[Path]]:
    """The chains of journals, merged files and folders, each once.

    Args:
        paths: a file stands for its whole chain, a folder for all that lie in it and in its ``journal``.

    Returns:
        The chains, and the folders that hold none.
    """
    chains: dict[tuple[Path, str], Chain] = {}
    empty = []
    for path in paths:
        journals = [path]
        if path.is_dir():
            journals = [*sorted(path.glob("*.jsonl")), *sorted(path.glob("journal/*.jsonl"))]
        if not journals:
            empty.append(path)
        for journal in journals:
            closed = closed_name(journal.name)
            camera = closed[0] if closed else journal.stem
            if (journal.parent, camera) not in chains:
                chains[journal.parent, camera] = _chain(journal, camera)
    return list(chains.values()), empty


def _chain(journal: Path, camera: str) -> Chain:
    folder = journal.parent
    current = folder / f"{camera}.jsonl"
    files = [segment.path for segment in closed_segments(folder, camera)]
    if current.exists() or not files:
        files.append(current if current.exists() else journal)
    return Chain(folder, camera, tuple(files))
