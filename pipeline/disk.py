"""Files and names that a power failure must not take back.

What was written is on the disk after `fsync` of the file, a new, renamed or deleted name after `fsync` of its
folder; until then any of them may be there without the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; a file's own fsync does not cover its name.

    Raises:
        OSError: the disk fails.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it that are missing, and their names durable.

    Raises:
        OSError: it cannot be made.
    """
    missing = [each for each in (folder, *folder.parents) if not each.is_dir()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        sync_folder(made.parent)


def replace_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Write a file as a whole or not at all; see `replacing`."""
    with replacing(path, durable=durable) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, *, durable: bool) -> Iterator[BinaryIO]:
    """A file to write, which stands at `path` when all of it is written; an error leaves what stood there.

    Args:
        path: what stands there is replaced.
        durable: the new file is on the disk at the end; else a power failure may leave the old one, or an
            empty one.

    Raises:
        OSError: the folder cannot be written.
    """
    fresh = path.with_name(path.name + ".tmp")
    file = fresh.open("wb")
    try:
        with file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:  # an interrupt leaves nothing behind, either
        fresh.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)
