"""Files and names that survive a power failure.

What was written is on the disk after `fsync` of the file, a new, renamed or deleted name after `fsync` of its
folder; until then any of them may be there without the others.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PRIVATE_FILE, PRIVATE_FOLDER = 0o640, 0o750  # modes of all in the state folder


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; a file's own fsync does not cover its name."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, with those above it that are missing; then their names are durable.

    The name of an existing folder is synced as well: its maker may have been killed before it could.
    """
    missing = [each for each in (folder, *folder.parents) if not each.is_dir()]
    for each in reversed(missing):
        each.mkdir(mode, exist_ok=True)
    for each in reversed(missing or [folder]):
        sync_folder(each.parent)


@contextmanager
def locking(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold a folder alone; BlockingIOError where another process does, unless it is waited for."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError:  # NFS locks no folders
            pass
        yield
    finally:
        os.close(handle)


def append_durably(path: Path, content: bytes) -> None:
    """Append to a file, which is created if it is missing; of a write that fails (OSError) nothing stays."""
    with appending(path) as handle:
        append_to(handle, content)


@contextmanager
def appending(path: Path) -> Iterator[int]:
    """A private file, open for reading and appending, created if it is missing; its name is durable."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        sync_folder(path.parent)
        yield handle
    finally:
        os.close(handle)


def append_to(handle: int, content: bytes, *, fsync: bool = True) -> None:
    """Append to an open file, durably with `fsync`; of a write that fails (OSError) nothing stays.

    Where the disk fails altogether, half a line may stay.
    """
    size, written = os.fstat(handle).st_size, 0
    try:
        while written < len(content):
            written += os.write(handle, content[written:])
        if fsync:
            os.fsync(handle)
    except OSError:
        with suppress(OSError):
            os.ftruncate(handle, size)
        raise


def replace_file(path: Path, content: bytes, *, durable: bool, mode: int = 0o666) -> None:
    """Write a file completely or not at all; see `replacing`."""
    with replacing(path, durable=durable, mode=mode) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, *, durable: bool, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` once it is complete; after an error `path` is as before.

    A durable one is on the disk at the end; else a power failure may leave the old one, or an empty one.
    """
    fresh = path.with_name(path.name + ".tmp")
    file = open(fresh, "wb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
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
