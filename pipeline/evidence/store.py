"""The folder of pictures: ``evidence/ab/ab12...webp``, named by what is in them."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from pipeline.disk import make_folder, sync_folder

SUFFIXES = ("jpg", "webp")
"""Kinds of pictures; a digest alone does not say which it is."""

UNSETTLED_S = 3600.0
"""What was put within so long is never swept: its record may be on its way to the journal."""

_TAG = "sha256:"
_NAME = re.compile(r"[0-9a-f]{64}\.(?:jpg|webp)")
_UNFINISHED = ".part"
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Swept:
    """What `EvidenceStore.sweep` removed: files and bytes."""

    files: int = 0
    bytes: int = 0


def evidence_beside(journals: Path) -> Path | None:
    """The folder of pictures in or beside a folder of journals; None where there is none."""
    places = (journals / "evidence", journals.parent / "evidence")
    return next((place for place in places if place.is_dir()), None)


class EvidenceStore:
    """Pictures by content: what is stored twice is there once, and a changed byte shows.

    For several threads of one process, the only one that puts and sweeps there.

    Args:
        folder: made when the first picture comes.
        fsync: wait for the disk, so that no journalled record names a picture that a power failure took.
    """

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self.folder = folder
        self._fsync = fsync
        self._lock = Lock()  # between finding a picture there and sweeping it away
        self._known: Swept | None = None
        self._put: dict[str, float] = {}  # when, by the monotonic clock: the wall clock may step by an hour

    def put(self, content: bytes, suffix: str) -> str:
        """Store a picture; when this returns it is whole and on disk (with `fsync`).

        Returns:
            How a record names it: ``sha256:`` and 64 hexadecimal digits.

        Raises:
            OSError: the disk is full or fails; nothing half-written stays under the picture's name.
        """
        if suffix not in SUFFIXES:
            raise ValueError(f"{suffix!r} is not a kind of picture: {' or '.join(SUFFIXES)}")
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / digest[:2] / f"{digest}.{suffix}"
        with self._lock:
            self._remember(digest)
            if not (path.is_file() and path.stat().st_size == len(content)):
                self._write(path, content)
                if self._known:
                    self._known = Swept(self._known.files + 1, self._known.bytes + len(content))
        return _TAG + digest

    def _remember(self, digest: str) -> None:
        now = time.monotonic()
        self._put[digest] = now
        if len(self._put) > _REMEMBERED:  # where nobody sweeps
            self._put = {each: put for each, put in self._put.items() if put > now - UNSETTLED_S}

    def _write(self, path: Path, content: bytes) -> None:
        if self._fsync:
            make_folder(path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + _UNFINISHED)
        try:
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        if self._fsync:
            sync_folder(path.parent)

    def find(self, reference: str) -> Path | None:
        """The file of a picture as a record names it, or None where there is none."""
        return _find(self.folder, reference)

    def sweep(
        self,
        kept: Container[str],
        *,
        among: Iterable[str] | None = None,
        unsettled_s: float = UNSETTLED_S,
    ) -> Swept:
        """Remove the pictures that no record names any more, and what a crash left unfinished.

        Args:
            kept: digests (64 hexadecimal digits) that records name, see `references`.
            among: the digests that may be removed; None looks through the whole folder.
            unsettled_s: what was put within so long stays in any case.

        Raises:
            OSError: the folder cannot be read or written.
        """
        files, size, since = 0, 0, time.monotonic() - unsettled_s
        for path in self._files() if among is None else filter(None, map(self.find, among)):
            digest, part = path.name[:64], path.name.endswith(_UNFINISHED)
            if digest in kept and not part:
                continue
            with self._lock:
                if self._put.get(digest, since) > since:
                    continue
                self._put.pop(digest, None)
                length = path.stat().st_size
                path.unlink()
            files, size = files + 1, size + length
        with self._lock:
            self._put = {digest: moment for digest, moment in self._put.items() if moment > since}
            if self._known:
                self._known = Swept(self._known.files - files, self._known.bytes - size)
        return Swept(files, size)

    def known_size(self) -> Swept:
        """As `size`, but the folder is only looked through the first time: it may hold millions."""
        if self._known is None:
            counted = self.size()  # what is put meanwhile may be missing
            with self._lock:
                self._known = counted
        return self._known

    def size(self) -> Swept:
        """How many pictures there are, and their bytes."""
        files, size = 0, 0
        for path in self._files():
            with suppress(FileNotFoundError):  # swept meanwhile, or renamed at its end
                size += path.stat().st_size
                files += 1
        return Swept(files, size)

    def _files(self) -> Iterator[Path]:
        """Only files that this class wrote: nothing else in the folder is ever touched."""
        for folder in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            for path in folder.iterdir():
                if _NAME.fullmatch(path.name.removesuffix(_UNFINISHED)):
                    yield path


def evidence_fault(folder: Path | None, reference: str) -> str:
    """Why a picture does not prove what a record names; empty where it does.

    Args:
        folder: of the evidence; None where there is none.
        reference: ``sha256:`` and 64 hexadecimal digits.
    """
    path = _find(folder, reference) if folder else None
    if path is None:
        return f"{reference} is missing in {folder or 'the folder evidence beside the journal'}"
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    return "" if _TAG + digest == reference else f"{path} was changed: its bytes are sha256:{digest}"


def _find(folder: Path, reference: str) -> Path | None:
    digest = reference.removeprefix(_TAG)
    for suffix in SUFFIXES:
        name = f"{folder}/{digest[:2]}/{digest}.{suffix}"
        if os.path.isfile(name):  # noqa: PTH113 - retention asks for hundreds of thousands
            return Path(name)
    return None
