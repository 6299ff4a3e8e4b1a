"""Where an export is written to: a folder or a zip, there as a whole or not at all, and its sums."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline.disk import sync_folder

SUMS = "SHA256SUMS"
"""Names every other file with its SHA-256, as `sha256sum` writes and reads it."""

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip can tell: the same files give the same bytes
_BLOCK = 1 << 20
_STORED = (".jpg", ".webp", ".mp4", ".mkv")  # compressed already
_MODE = 0o644


class ExportError(Exception):
    """Nothing can be exported, or not there; the message says what to do."""


class Archive(ABC):
    """Takes files one after the other and knows their sums; use `opened_archive`."""

    def __init__(self) -> None:
        self.sums: dict[str, str] = {}

    def write(self, name: str, parts: Iterable[bytes]) -> str:
        """Add a file; its SHA-256 (hex)."""
        digest = hashlib.sha256()
        with self._opened(name) as file:
            for part in parts:
                file.write(part)
                digest.update(part)
        self.sums[name] = digest.hexdigest()
        return self.sums[name]

    def copy(self, name: str, path: Path) -> str:
        """Add a file of the disk; its SHA-256 (hex).

        Raises:
            OSError: it cannot be read; nothing is added where it is gone.
        """
        with path.open("rb") as file:
            return self.write(name, iter(lambda: file.read(_BLOCK), b""))

    def finish(self) -> str:
        """Add the sums of all files; the sum of these, which stands for the whole export."""
        lines = [f"{digest}  {name}\n".encode() for name, digest in sorted(self.sums.items())]
        return self.write(SUMS, lines)

    @abstractmethod
    def _opened(self, name: str) -> AbstractContextManager[BinaryIO]: ...


class _Folder(Archive):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    @contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO]:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())


class _Zip(Archive):
    def __init__(self, archive: zipfile.ZipFile) -> None:
        super().__init__()
        self._zip = archive

    @contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO]:
        entry = zipfile.ZipInfo(name, _EPOCH)
        entry.create_system, entry.external_attr = 3, _MODE << 16  # as Unix writes it, wherever this runs
        stored = name.endswith(_STORED)
        entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        with self._zip.open(entry, "w", force_zip64=True) as file:
            yield file  # type: ignore[misc]


@contextmanager
def opened_archive(out: Path | BinaryIO, *, force: bool = False) -> Iterator[Archive]:
    """Write an export: nobody ever sees half of it under its name.

    Args:
        out: a zip where its name ends with ``.zip``, else a folder; or a stream that takes a zip.
        force: replace what is there.

    Raises:
        ExportError: something is there, or it cannot be written.
    """
    if not isinstance(out, Path):
        with zipfile.ZipFile(out, "w") as archive:
            yield _Zip(archive)
        return
    if out.exists() and not force:
        raise ExportError(f"{out} is there already: give another --out, or --force to replace it")
    fresh = out.with_name(f".{out.name}.tmp")
    try:
        _remove(fresh)
        if out.suffix.lower() == ".zip":
            with fresh.open("wb") as file:
                with zipfile.ZipFile(file, "w") as archive:
                    yield _Zip(archive)
                file.flush()
                os.fsync(file.fileno())
        else:
            fresh.mkdir(parents=True)
            yield _Folder(fresh)
        _replace(fresh, out)
    except OSError as error:
        raise ExportError(f"cannot write {out}: {error.strerror or error}; nothing is left there") from None
    finally:
        _remove(fresh)


def _replace(fresh: Path, out: Path) -> None:
    old = out.with_name(f".{out.name}.old")
    _remove(old)
    if out.exists():
        out.rename(old)
    fresh.rename(out)
    sync_folder(out.absolute().parent)
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
