"""A disk that is full, and one that forgets what was not synced.

`ForgetfulDisk` notes every operation on the files of a folder, in the order of the system calls. After any
number of them `leftovers` gives what a power cut may leave there: everything that was synced; of the names
that were not, any part, and of the bytes none, half of the last ones, or all. Only operations on the same
name keep their order, as no file system promises more.
"""

from __future__ import annotations

import builtins
import io
import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

Tree = dict[str, bytes | None]
"""What is in a folder, by relative path: the bytes of files, None for folders."""

_NAMING = ("make", "rename", "unlink")
_MANY = 4  # unsynced names of which every part is tried; of more: none, one, all but one, all


class Killed(BaseException):
    """The process ends here without a chance to put anything in order; what it did stays."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation."""

    kind: str  # make, rename and unlink change names; write and cut change bytes; sync keeps either
    names: tuple[str, ...]  # relative paths: made, renamed (from, to), deleted, or the folder that is synced
    file: int | None = None  # number of the file that is made, written, cut or synced; None for folders
    offset: int = 0  # where is written, or cut
    data: bytes = b""

    def __str__(self) -> str:
        return f"{self.kind} {' '.join(self.names)}"


class ForgetfulDisk:
    """Notes what is done in `root`, an empty folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.steps = root, list[Step]()  # what was done, in its order
        self.killed_after: int | None = None  # steps after which `Killed` is raised
        self._files: dict[int, int] = {}  # numbers of files by inode

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note all that is done meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", partial(self._open, os.open))
            patch.setattr(os, "write", partial(self._write, os.write))
            notes: dict[str, Callable[..., None]] = {
                "fsync": self._synced,
                "ftruncate": self._cut,
                "truncate": self._cut,
                "mkdir": self._made,
                "unlink": self._unlinked,
                "rename": self._renamed,
                "replace": self._renamed,
            }
            for name, note in notes.items():
                patch.setattr(os, name, _then(getattr(os, name), note))
            opened = partial(self._opened, builtins.open)
            for module in (io, builtins):
                patch.setattr(module, "open", opened)
            yield

    def leftovers(self, count: int) -> Iterable[Tree]:
        """What a power cut after so many steps may leave; each once."""
        done = self.steps[:count]
        pending = [n for n, step in enumerate(done) if step.kind in _NAMING and not _kept(done, n)]
        trees = (_tree(done, {*gone}, share) for gone in _parts(pending) for share in (0.0, 0.5, 1.0))
        return {frozenset(tree.items()): tree for tree in trees}.values()

    def _note(
        self, kind: str, *names: str, file: int | None = None, offset: int = 0, data: bytes = b""
    ) -> None:
        self.steps.append(Step(kind, names, file, offset, data))
        if self.killed_after == len(self.steps):
            raise Killed

    def _relative(self, path: Any) -> str | None:
        """The path within `root`; None elsewhere."""
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        place = Path(path).absolute()
        return str(place.relative_to(self.root)) if place.is_relative_to(self.root) else None

    def _open(self, real: Callable[..., int], path: Any, flags: int, *mode: int, **options: Any) -> int:
        new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
        handle = real(path, flags, *mode, **options)
        if (name := self._relative(path)) is not None:
            if new:
                self._files[os.fstat(handle).st_ino] = len(self.steps)
                self._note("make", name, file=len(self.steps))
            elif flags & os.O_TRUNC:
                self._cut(handle, 0)
        return handle

    def _opened(
        self, real: Callable[..., Any], path: Any, mode: str = "r", *rest: Any, **options: Any
    ) -> Any:
        """As `open`, whose buffers write past `os.write`."""
        if isinstance(path, int) or self._relative(path) is None or not set(mode) & set("wax+"):
            return real(path, mode, *rest, **options)
        assert "b" in mode, "write bytes: that is all this disk can note"
        kind = {"w": os.O_TRUNC, "a": os.O_APPEND, "x": os.O_EXCL}[mode[0]]
        raw = _NotedFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | kind), mode.replace("x", "w"))
        return raw if (options.get("buffering") == 0 or rest[:1] == (0,)) else io.BufferedWriter(raw)

    def _write(self, real: Callable[..., int], handle: int, data: Any) -> int:
        written = real(handle, data)
        if (name := self._relative(handle)) is not None:
            end, number = os.lseek(handle, 0, os.SEEK_CUR), self._files[os.fstat(handle).st_ino]
            self._note("write", name, file=number, offset=end - written, data=bytes(data[:written]))
        return written

    def _synced(self, handle: int) -> None:
        if (name := self._relative(handle)) is not None:
            self._note("sync", name, file=self._files.get(os.fstat(handle).st_ino))

    def _cut(self, file: Any, size: int) -> None:
        if (name := self._relative(file)) is not None:
            inode = os.fstat(file) if isinstance(file, int) else Path(file).stat()
            self._note("cut", name, file=self._files[inode.st_ino], offset=size)

    def _made(self, path: Any, *_: Any) -> None:
        if (name := self._relative(path)) is not None:
            self._note("make", name)

    def _unlinked(self, path: Any) -> None:
        if (name := self._relative(path)) is not None:
            self._note("unlink", name)

    def _renamed(self, path: Any, target: Any) -> None:
        names = self._relative(path), self._relative(target)
        if names[0] is not None and names[1] is not None:
            self._note("rename", names[0], names[1])


class _NotedFile(io.FileIO):
    """Writes by `os`, where that is noted."""

    def write(self, data: Any) -> int:
        return os.write(self.fileno(), data)

    def truncate(self, size: int | None = None) -> int:
        os.ftruncate(self.fileno(), self.tell() if size is None else size)
        return os.fstat(self.fileno()).st_size


def _then(real: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    def call(*values: Any, **options: Any) -> None:
        real(*values, **options)
        note(*values)

    return call


def _kept(done: Sequence[Step], number: int) -> bool:
    """Whether the folder of a name was synced after it changed."""
    folder = str(Path(done[number].names[-1]).parent)
    return any(step.kind == "sync" and step.names == (folder,) for step in done[number + 1 :])


def _parts(pending: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The choices of what is forgotten."""
    count = len(pending)
    sizes = range(count + 1) if count <= _MANY else sorted({0, 1, count - 1, count})
    return chain.from_iterable(combinations(pending, size) for size in sizes)


def _tree(done: Sequence[Step], forgotten: set[int], share: float) -> Tree:
    files: dict[str, int | None] = {}
    lost = set[str]()
    for number, step in enumerate(done):
        if step.kind not in _NAMING:
            continue
        if number in forgotten or lost & set(step.names):
            lost |= set(step.names)
        elif step.kind == "make":
            files[step.names[0]] = step.file
        else:
            moved = files.pop(step.names[0])
            files |= {step.names[1]: moved} if step.kind == "rename" else {}
    there = {".", *files}
    return {
        name: None if file is None else _bytes(done, file, share)
        for name, file in files.items()
        if all(str(parent) in there for parent in Path(name).parents)
    }


def _bytes(done: Sequence[Step], file: int, share: float) -> bytes:
    """What a file holds where it keeps this share of what was last written and not synced."""
    steps = [step for step in done if step.file == file and step.kind in ("write", "cut", "sync")]
    synced = max((n for n, step in enumerate(steps, 1) if step.kind == "sync"), default=0)
    content = bytearray()
    for number, step in enumerate(steps, 1):
        if step.kind == "sync" or (number > synced and share == 0.0):
            continue
        torn = share < 1.0 and synced < number == len(steps)
        data = step.data[: int(len(step.data) * share)] if torn else step.data
        if step.kind == "cut":
            del content[step.offset :]
        else:
            content[step.offset : step.offset + len(data)] = data
    return bytes(content)


@contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """The kernel's own limit on file sizes stops a write in the middle, as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
