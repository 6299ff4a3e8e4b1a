"""The paths of a replay: which files there are, and which of them are one camera."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.record import check_camera
from pipeline.sources import SourceError, redact
from pipeline.sources.stills import is_still
from pipeline.sources.times import name_without_stamp, natural_key
from pipeline.sources.url import LONGEST_NAME, slug

_VIDEO = re.compile(
    r"\.(avi|mp4|m4v|mkv|mov|webm|mpe?g|(m2?)?ts|flv|wmv|asf|ogv|3gp|h?26[45]|hevc|dav)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """Files of one camera, read one after the other.

    Attributes:
        camera: its name.
        paths: videos, or stills, or one folder of stills.
    """

    camera: str
    paths: tuple[Path, ...]


def is_video(path: Path) -> bool:
    """True for what is a video in a folder; a file that is named itself may be called anything."""
    return _VIDEO.fullmatch(path.suffix) is not None


def find_footage(places: Sequence[str], camera: str | None = None) -> list[ReplayInput]:
    """Expand files, folders and globs.

    Args:
        places: a folder stands for the videos in it, or for its stills if there are none.
        camera: name for all of it, which is then read as the segments of one camera. Without it every file is
            a camera of its own, but for names with a time stamp (by the rest of the name) and stills
            (by their folder).

    Returns:
        The footage in the order of `places` and names; a path that does not exist fails when it is opened.

    Raises:
        SourceError: a folder or a pattern holds nothing.
        RecordError: `camera` cannot be a name.
    """
    paths = list(dict.fromkeys(path for place in places for path in _expand(place)))
    if camera is not None:
        return [ReplayInput(check_camera(camera), tuple(paths))]
    groups: dict[tuple[str, Path], list[Path]] = {}
    for path in paths:
        groups.setdefault(_group(path), []).append(path)
    names = _distinct([(name, place) for name, place in groups])
    return [ReplayInput(name, tuple(group)) for name, group in zip(names, groups.values(), strict=True)]


def _expand(place: str) -> list[Path]:
    place = place.removeprefix("file://")
    if "://" in place:
        raise SourceError(
            f"{redact(place)}: replay takes files, folders and globs: copy or mount what lies elsewhere; "
            "a camera belongs in the configuration of `narrated run`"
        )
    path = Path(place).expanduser()
    if path.is_dir():
        files = [p for p in path.rglob("*") if p.is_file()]
        return _footage_in(place, [p for p in files if not is_still(p) or p.parent == path])
    if path.exists() or not glob.has_magic(place):
        return [path]
    matches = [Path(m) for m in glob.glob(str(path), recursive=True)]  # noqa: PTH207 - absolute patterns too
    files = sorted((p for p in matches if p.is_file()), key=_place_in_folder)
    if not files:
        raise SourceError(f"{place}: matches no file: check the pattern, and quote it for the shell")
    return files


def _footage_in(place: str, files: list[Path]) -> list[Path]:
    """The videos among files, or the stills if there are none, in their order."""
    footage = [p for p in files if is_video(p)] or [p for p in files if is_still(p)]
    if not footage:
        raise SourceError(f"{place}: the folder holds neither videos nor still images: check the path")
    return sorted(footage, key=_place_in_folder)


def _place_in_folder(path: Path) -> tuple[Path, tuple[tuple[int, str, int], ...]]:
    return path.parent, natural_key(path)


def _group(path: Path) -> tuple[str, Path]:
    """Name of the file's camera, and a path that tells namesakes apart."""
    if is_still(path):
        return path.resolve().parent.name, path.parent
    if rest := name_without_stamp(path):
        return rest, path.parent
    return path.stem, path


def _distinct(named: Sequence[tuple[str, Path]]) -> list[str]:
    """Names that may be names of cameras, no two alike; namesakes get their folder's name in front."""
    plain = [slug(name) for name, _ in named]
    longer = [
        name if plain.count(name) == 1 else slug(f"{path.resolve().parent.name}_{name}")
        for name, (_, path) in zip(plain, named, strict=True)
    ]
    names: list[str] = []
    for name in longer:
        number, distinct = 2, name
        while distinct in names:
            distinct, number = f"{name[: LONGEST_NAME - 4]}_{number}", number + 1
        names.append(distinct)
    return names
