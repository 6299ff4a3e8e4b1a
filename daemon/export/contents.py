"""What is in an export: the files of a folder or of a zip, never unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from daemon.export.archive import ExportError
from daemon.export.manifest import NAME


class Contents(Protocol):
    """Files by name."""

    names: tuple[str, ...]
    odd: tuple[str, ...]

    def open(self, name: str) -> BinaryIO:
        """A file, from its beginning.

        Raises:
            OSError, zipfile.BadZipFile: here or while it is read: it is damaged.
        """
        ...


class _FolderContents:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
        named = {path: path.relative_to(folder).as_posix() for path in paths}
        self.names = tuple(name for path, name in named.items() if path.is_file() and not path.is_symlink())
        self.odd = tuple(name for name in named.values() if name not in self.names)

    def open(self, name: str) -> BinaryIO:
        return (self._folder / name).open("rb")


class _ZipContents:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._zip = archive
        names = [entry.filename for entry in archive.infolist()]
        self.names = tuple(sorted(set(names)))
        self.odd = tuple(sorted({name for name in names if names.count(name) > 1 or name.endswith("/")}))

    def open(self, name: str) -> BinaryIO:
        return self._zip.open(name)  # type: ignore[return-value]


def is_export(path: Path) -> bool:
    """Whether a path is an export: a zip, or a folder that says so."""
    return (path / NAME).is_file() or (path.is_file() and zipfile.is_zipfile(path))


@contextmanager
def opened_contents(path: Path) -> Iterator[Contents]:
    """The files of an export.

    Raises:
        ExportError: it cannot be opened.
    """
    if path.is_dir():
        yield _FolderContents(path)
        return
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise ExportError(f"{path} cannot be opened: {error}") from None
    with archive:
        yield _ZipContents(archive)
