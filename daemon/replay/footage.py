"""The demo's clip: OpenCV's vtest.avi, from whoever has it, checked by its sha256."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from platformdirs import user_cache_path

CLIP_NAME = "vtest.avi"
CLIP_SHA256 = "45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf"
CLIP_URL = "https://raw.githubusercontent.com/opencv/opencv/4.x/samples/data/vtest.avi"
DEBIAN_PACKAGE = "opencv-doc"
DEBIAN_PATH = Path("usr/share/doc/opencv-doc/examples/data/vtest.avi")


class DemoClipError(Exception):
    """The demo's clip cannot be had; the message lists what was tried and what to do."""


def demo_clip(folder: Path | None = None, ways: tuple[Callable[[Path], None], ...] | None = None) -> Path:
    """OpenCV's vtest.avi (768x576, 10 frames a second, 79.5 s), fetched once and kept.

    Args:
        folder: where it is kept; None takes the user's cache folder.
        ways: tried in this order; each writes the clip to the path it is given or raises OSError.
            None takes `WAYS`.

    Returns:
        Path of a file whose sha256 is `CLIP_SHA256`.

    Raises:
        DemoClipError: no way led to the right file.
    """
    folder = folder or user_cache_path("narrated", appauthor=False)
    clip = folder / CLIP_NAME
    if clip.is_file() and _sha256(clip) == CLIP_SHA256:
        return clip
    folder.mkdir(parents=True, exist_ok=True)
    tried = []
    for way in WAYS if ways is None else ways:
        # Written beside and renamed, so that an interrupted download is never taken for the clip.
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            candidate = Path(scratch) / CLIP_NAME
            try:
                way(candidate)
                _check(candidate)
            except (OSError, subprocess.SubprocessError) as error:
                tried.append(f"  {(way.__doc__ or way.__name__).splitlines()[0].rstrip('.')}: {error}")
                continue
            return candidate.replace(clip)
    raise DemoClipError(
        "could not get the demo's clip:\n" + "\n".join(tried) + "\n"
        f"Copy any surveillance clip here and run: make demo VIDEO=path (or put {CLIP_NAME} at {clip})"
    )


def _download(target: Path) -> None:
    """OpenCV's repository."""
    with urllib.request.urlopen(CLIP_URL, timeout=20) as answer, target.open("wb") as file:
        shutil.copyfileobj(answer, file)


def _installed(target: Path) -> None:
    """The installed Debian package opencv-doc."""
    shutil.copyfile("/" / DEBIAN_PATH, target)


def _debian(target: Path) -> None:
    """The Debian package opencv-doc, downloaded with apt-get."""
    with tempfile.TemporaryDirectory() as scratch:
        for command in _apt_commands(Path(scratch)):
            done = subprocess.run(  # noqa: S603 - constant commands
                command, cwd=scratch, capture_output=True, text=True, timeout=300, check=False
            )
            if done.returncode == 0:
                break
        packages = sorted(Path(scratch).glob(f"{DEBIAN_PACKAGE}_*.deb"))
        if not packages:
            raise OSError("apt-get could not download it; `sudo apt-get update` may help")
        subprocess.run(  # noqa: S603
            ["dpkg-deb", "-x", str(packages[0]), scratch],  # noqa: S607
            capture_output=True,
            timeout=120,
            check=True,
        )
        shutil.copyfile(Path(scratch) / DEBIAN_PATH, target)


def _apt_commands(scratch: Path) -> Iterator[list[str]]:
    """`apt-get download` with the machine's package lists, else with lists of our own (no root needed)."""
    download = ["apt-get", "-qq", "download", DEBIAN_PACKAGE]
    yield download
    lists, archives = scratch / "lists" / "partial", scratch / "archives" / "partial"
    lists.mkdir(parents=True)
    archives.mkdir(parents=True)
    own = [f"-oDir::State::Lists={lists.parent}", f"-oDir::Cache={archives.parent.parent}"]
    yield ["sh", "-c", 'apt-get -qq "$@" update && apt-get -qq "$@" download ' + DEBIAN_PACKAGE, "sh", *own]


WAYS: tuple[Callable[[Path], None], ...] = (_installed, _download, _debian)
"""Where the clip may be had from, nearest first."""


def _check(path: Path) -> None:
    if _sha256(path) != CLIP_SHA256:
        raise OSError("the download is not the clip (its sha256 differs)")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
