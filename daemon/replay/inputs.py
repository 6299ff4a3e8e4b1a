"""The paths of a replay: which files there are, and which of them are one camera."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.record_format import check_camera
from pipeline.sources import LONGEST_NAME, SourceError, find_files, redact, slug
from pipeline.sources.stills import is_still
from pipeline.sources.times import name_without_stamp


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """Files of one camera, read one after the other: videos, or stills, or one folder of stills."""

    camera: str
    paths: tuple[Path, ...]


def find_footage(places: Sequence[str], camera: str | None = None) -> list[ReplayInput]:
    """Expand files, folders (the videos in it, or its stills if there are none) and globs, in their order.

    All of it is of the one `camera`. Without a name every file is a camera, but for names with a time stamp
    (grouped by the rest of the name) and stills (by their folder). A path that does not exist fails when it
    is opened; a folder or a pattern that holds nothing raises `SourceError`, a bad name `RecordError`.
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
    if not place:  # of a variable that is not set; as a path it is the folder that we are in
        raise SourceError("an empty path is given: name files, folders or globs")
    if "://" in place:
        advice = "copy or mount what lies elsewhere; a camera belongs in the configuration of `narrated run`"
        raise SourceError(f"{redact(place)}: replay takes files, folders and globs: {advice}")
    return find_files(Path(place).expanduser())


def _group(path: Path) -> tuple[str, Path]:
    """Name of the file's camera, and a path that differs between cameras of the same name."""
    if is_still(path):
        return path.resolve().parent.name, path.parent
    if rest := name_without_stamp(path):
        return rest, path.parent
    return path.stem, path


def _distinct(named: Sequence[tuple[str, Path]]) -> list[str]:
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
