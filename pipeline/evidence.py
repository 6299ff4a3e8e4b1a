"""Evidence: the pictures that a record names, in files named by their SHA-256: ``evidence/ab/ab12...jpg``."""

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock

from pipeline.disk import PRIVATE_FILE, PRIVATE_FOLDER, make_folder, replace_file, sync_folder

SUFFIXES = ("jpg", "webp")  # kinds of pictures; 0.1.0 could store WebP
RECENT_S = 3600.0  # newer pictures are never removed: their records may be on their way to the journal

_TAG = "sha256:"
_REFERENCE = re.compile(rb'"sha256:([0-9a-f]{64})"')
_MANY = 10_000


def references(line: bytes) -> set[str]:
    """The digests of the pictures that a record's line names: nothing else is written as ``"sha256:..."``."""
    return {digest.decode() for digest in _REFERENCE.findall(line)}


def evidence_folder(journals: Path) -> Path | None:
    """The folder of pictures in or beside a folder of journals; None where there is none."""
    places = (journals / "evidence", journals.absolute().parent / "evidence")
    return next((place for place in places if place.is_dir()), None)


class EvidenceStore:
    """Pictures by content: equal ones are stored once, and a changed byte shows.

    For several threads of one process, the only one that puts and removes there. With `fsync` no journalled
    record names a picture that a power failure took.
    """

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self.folder = folder
        self._fsync = fsync
        self._lock = Lock()  # between finding a picture there and removing it
        self._size: int | None = None  # bytes of all pictures
        self._made: set[Path] = set()  # folders whose names are known to be on the disk
        self._put: dict[str, float] = {}  # when, by the monotonic clock

    def put(self, content: bytes, suffix: str) -> str:
        """Store a picture, on disk (with `fsync`) at return; its name is ``sha256:`` and 64 hex digits.

        Raises `OSError`; nothing half-written stays under its name.
        """
        if suffix not in SUFFIXES:
            raise ValueError(f"{suffix!r} is not a kind of picture: {' or '.join(SUFFIXES)}")
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / digest[:2] / f"{digest}.{suffix}"
        with self._lock:
            now = time.monotonic()
            if len(self._put) > _MANY:
                self._put = {each: put for each, put in self._put.items() if put > now - RECENT_S}
            self._put[digest] = now
            self._make(path.parent)
            if not (path.is_file() and path.stat().st_size == len(content)):
                replace_file(path, content, durable=self._fsync, mode=PRIVATE_FILE)
                if self._size is not None:
                    self._size += len(content)
        return _TAG + digest

    def _make(self, folder: Path) -> None:
        """Make the folder, and what stands in it durable: who put that there may have been killed before."""
        if folder in self._made and folder.is_dir():  # who frees the disk may have removed it
            return
        make_folder(self.folder, PRIVATE_FOLDER)
        make_folder(folder, PRIVATE_FOLDER)
        if self._fsync:
            sync_folder(folder)
        self._made.add(folder)

    def find(self, reference: str) -> Path | None:
        path = picture_path(self.folder, reference)
        return path if path.is_file() else None

    def remove(self, digests: Iterable[str]) -> int:
        """Remove pictures that no record names any more, but for those that were put just now; how many."""
        removed, since = 0, time.monotonic() - RECENT_S
        for digest in digests:
            with self._lock:
                path = self.find(digest)
                if path is None or self._put.get(digest, since) > since:
                    continue
                if self._size is not None:
                    self._size -= path.stat().st_size
                path.unlink()
                removed += 1
        return removed

    def older_than(self, before_s: float) -> Iterator[str]:
        """The digests of pictures written before a second since 1970; what a crash left half-written goes."""
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*.*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before_s:
                    if path.suffix == ".tmp":
                        path.unlink()
                    else:
                        yield path.stem

    def size(self) -> int:
        """Bytes of all pictures; the folder, which may hold millions, is listed once."""
        if self._size is None:  # pictures put meanwhile may be missing
            self._size = sum(path.stat().st_size for path in self.folder.glob("[0-9a-f][0-9a-f]/*.*"))
        return self._size

    def recount(self) -> None:
        self._size = None


def evidence_fault(folder: Path, reference: str) -> str:
    """Why a picture does not prove what a record names; empty where it does."""
    path = picture_path(folder, reference)
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return f"{reference} is missing in {folder}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    return "" if _TAG + digest == reference else f"{path} was changed: its bytes are sha256:{digest}"


def picture_path(folder: Path, reference: str) -> Path:
    """The file of a picture; of one that is gone, where it would usually be."""
    digest = reference.removeprefix(_TAG)
    names = [f"{folder}/{digest[:2]}/{digest}.{suffix}" for suffix in SUFFIXES]
    return Path(next(filter(os.path.isfile, names), names[0]))  # retention asks for hundreds of thousands
