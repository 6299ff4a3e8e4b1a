"""The cameras of a folder of footage: which clips and stills are of which, and where they are from."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import av
import av.error
import cv2
import numpy as np

from pipeline.sources import Image

CLIP_SUFFIXES = (".mp4", ".avi", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".ts")
STILL_SUFFIXES = (".jpg", ".jpeg", ".png")

TEST_FOOTAGE = ("vtest*", "opencv_vtest*")  # OpenCV's sample clip is never trained on
MANIFEST = "MANIFEST.json"  # beside the clips or above: list of {"name": CAMERA, "repo", "licence", ...}
_STATED = ("repo", "commit", "url", "path", "credit", "licence", "licence_class")
_EVERY_S = 0.5


class FootageError(Exception):
    """Footage cannot be used; the message names the file and says what to do."""


@dataclass(frozen=True, slots=True)
class CameraFiles:
    name: str  # of the camera
    folder: Path  # where its files lie
    files: tuple[str, ...]  # their paths within the folder, clips and stills, sorted

    def hashes(self) -> dict[str, str]:
        """sha256 (hex) of every file."""
        hashes = {}
        for file in self.files:
            with (self.folder / file).open("rb") as stream:
                hashes[file] = hashlib.file_digest(stream, "sha256").hexdigest()
        return hashes


def cameras_in(folder: Path) -> list[CameraFiles]:
    """The cameras of a folder.

    What lies in a subfolder is of one camera, which has the subfolder's name. A file beside the subfolders is
    of the camera that its name gives without a last ``_`` and digits (``corner_0628.mp4`` is of ``corner``).
    Links are followed; `TEST_FOOTAGE` is left out. No footage, or a subfolder and files beside it that name
    one camera, raise `FootageError`.
    """
    results: dict[str, list[Path]] = {}
    for path in _files(folder):
        named = any(fnmatch(path.name.lower(), pattern) for pattern in TEST_FOOTAGE)
        if path.suffix.lower() in (*CLIP_SUFFIXES, *STILL_SUFFIXES) and not named:
            parts = path.relative_to(folder).parts
            camera = parts[0] if len(parts) > 1 else re.sub(r"_\d+$", "", path.stem)
            results.setdefault(camera, []).append(path)
    if not results:
        raise FootageError(f"no clips or stills under {folder} that are not excluded")
    cameras = []
    for name, paths in sorted(results.items()):
        folders = {folder / name if len(p.relative_to(folder).parts) > 1 else folder for p in paths}
        if len(folders) > 1:
            raise FootageError(f"the folder {folder / name} and files beside it name one camera: rename one")
        (own,) = folders
        cameras.append(CameraFiles(name, own, tuple(sorted(str(p.relative_to(own)) for p in paths))))
    return cameras


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(root) / name


def stated_sources(folder: Path) -> dict[str, dict[str, Any]]:
    """Where cameras are from and under which licence, by their names, as `MANIFEST` states it."""
    for path in (folder / MANIFEST, folder.resolve().parent / MANIFEST):
        if path.is_file():
            try:
                rows = json.loads(path.read_text(encoding="utf-8"))
                return {str(row["name"]): {k: row[k] for k in _STATED if k in row} for row in rows}
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise FootageError(
                    f'{path} must hold a list of {{"name": CAMERA, "licence": ...}} ({error!r})'
                ) from error
    return {}


def sample_frames(path: Path, every_s: float = _EVERY_S) -> Iterator[tuple[int, float | None, Image]]:
    """A clip's frames, at most one in `every_s`, or a still; of a damaged clip what it still gives.

    Yields number, seconds since its begin (None of a still) and image, RGB uint8 ``(height, width, 3)``;
    FootageError if nothing can be read.
    """
    due, seen = 0.0, False
    for number, seconds, frame in decoded_frames(path):
        if seconds is None or seconds >= due:
            due, seen = (seconds or 0.0) + every_s, True
            yield number, seconds, rgb_of(frame)
    if not seen:
        raise FootageError(f"{path} cannot be read; remove it or exclude it")


def frames_of(path: Path, wanted: Sequence[int]) -> Iterator[Image]:
    """The frames of these ascending numbers, RGB; FootageError if one of them cannot be read."""
    left = list(wanted)
    for number, _, frame in decoded_frames(path):
        if left and number == left[0]:
            left.pop(0)
            yield rgb_of(frame)
        if not left:
            return
    if left:
        raise FootageError(f"{path} has no frame {left[0]} that can be read; remove it or exclude it")


def decoded_frames(path: Path) -> Iterator[tuple[int, float | None, Any]]:
    """Number, seconds (None of a still) and frame, for `rgb_of`; of a damaged clip what it still gives."""
    if path.suffix.lower() in STILL_SUFFIXES:
        image = cv2.imread(str(path))
        if image is not None:
            yield 0, None, image
        return
    try:
        with av.open(str(path)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                yield number, float(frame.time) if frame.time is not None else number / 25, frame
    except (av.error.FFmpegError, OSError, IndexError):
        return  # what was read is used; the callers tell where it is too little


def rgb_of(frame: Any) -> Image:
    if isinstance(frame, np.ndarray):
        return np.asarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), np.uint8)
    return np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
