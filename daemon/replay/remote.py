"""Footage in object storage and on servers: whatever fsspec knows, fetched when its turn comes."""

from __future__ import annotations

import glob
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.sources import SourceError, redacted


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that is fetched before it is read.

    Attributes:
        place: the URL by which its file system is found; it may hold a password.
        name: of the file in that file system.
    """

    place: str = field(repr=False)
    name: str

    @property
    def path(self) -> Path:
        """What it is called among other footage: relative, without scheme, query and password."""
        return Path(redacted(self.name.partition("://")[2] or self.name).partition("?")[0].lstrip("/"))

    @property
    def stamp(self) -> str:
        """Changes when the file does, as far as its server tells."""
        try:
            return str(_opened(self.place)[0].ukey(self.name))
        except (OSError, SourceError):
            return ""

    def fetch(self, folder: Path) -> Path:
        """The file in a folder of this machine; one that is there already is not fetched again.

        Raises:
            SourceError: it cannot be fetched.
        """
        here = folder / self.path
        if not here.exists():
            here.parent.mkdir(parents=True, exist_ok=True)
            part = here.with_name(f"{here.name}.part")
            try:
                _opened(self.place)[0].get_file(self.name, str(part))
            except Exception as error:  # noqa: BLE001 - each file system has its own
                raise _failed(self.place, error) from None
            part.replace(here)
        return here


def find_remote(place: str) -> list[RemoteFile]:
    """The files at a URL: one, those under a folder, or those that match a pattern.

    Raises:
        SourceError: there are none, or nobody knows how to ask; the message holds no password.
    """
    system, root = _opened(place)
    try:
        if glob.has_magic(root):
            names = system.glob(root)
        else:
            names = [root] if system.info(root)["type"] == "file" else system.find(root)
    except Exception as error:  # noqa: BLE001 - each file system has its own
        raise _failed(place, error) from None
    if not names:
        raise SourceError(f"{redacted(place)}: there is no file: check the URL, and quote a pattern")
    return [RemoteFile(place, name) for name in names]


def _opened(place: str) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise SourceError(f"{redacted(place)}: needs fsspec: pip install 'narrated[remote]'") from None
    try:
        found: tuple[Any, str] = fsspec.url_to_fs(place)
    except Exception as error:  # noqa: BLE001 - each file system has its own
        raise _failed(place, error) from None
    return found


def _failed(place: str, error: Exception) -> SourceError:
    absent = isinstance(error, FileNotFoundError)
    reason = "no such file" if absent else redacted(error) or type(error).__name__
    return SourceError(f"{redacted(place)}: cannot be fetched ({reason}): check the URL and who may read it")
