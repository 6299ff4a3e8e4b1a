"""The files of an export, a folder or a zip written atomically, and their checksums."""

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.disk import sync_folder

SUMS = "SHA256SUMS"  # names every other file with its SHA-256, as `sha256sum` writes and reads it

MANIFEST = "export.json"

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold: the same files give the same bytes
_STORED = (".jpg", ".webp", ".mp4", ".mkv")  # compressed already


class ExportError(Exception):
    """Nothing can be exported, or not there; the message says what to do."""


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
            if out.is_dir() and not out.is_symlink():
                shutil.rmtree(out)
            else:
                out.unlink(missing_ok=True)
            made.rename(out)
        sync_folder(out.absolute().parent)
    except OSError as error:
        raise ExportError(f"cannot write {out}: {error.strerror or error}") from None


def write_sums(folder: Path) -> str:
    lines = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {_name(folder, path)}\n")
                os.fsync(file.fileno())
    content = "".join(sorted(lines, key=lambda line: line[66:])).encode()
    (folder / SUMS).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def is_export(path: Path) -> bool:
    """True for an export, and for a zip, which may be one that was damaged."""
    return (path / MANIFEST).is_file() or (
        path.is_file() and (path.suffix == ".zip" or zipfile.is_zipfile(path))
    )


def _is_whole(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return (path / MANIFEST).is_file()
    with zipfile.ZipFile(path) as archive:
        return MANIFEST in archive.namelist()


def _pack(folder: Path, out: Path) -> None:
    with out.open("wb") as file:
        with zipfile.ZipFile(file, "w") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    entry = zipfile.ZipInfo(_name(folder, path), _EPOCH)
                    entry.create_system, entry.external_attr = 3, 0o644 << 16  # as Unix writes it
                    stored = path.suffix in _STORED
                    kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
                    archive.writestr(entry, path.read_bytes(), kind)
        file.flush()
        os.fsync(file.fileno())


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
