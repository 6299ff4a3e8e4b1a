"""From footage and teachers to labelled frames, one camera at a time; what was done is not done again.

``labels/CAMERA.jsonl.gz`` keeps what the teachers said, ``labels/CAMERA.json`` of what it was made: files and
teachers with their hashes, and what is stated about the source. Both are written whole or not at all.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pipeline.disk import make_folder, replace_file
from train.footage.cameras import CameraFiles, FootageError, cameras_in, sample_frames, stated_sources
from train.footage.frames import read_labels, write_camera, write_labels, written_cameras
from train.footage.teachers import TeacherFile, Teachers, teachers
from train.progress import Progress
from train.samples import SampleError

_LABELS = ".jsonl.gz"
_AVOID_S = 2.0  # frames within so many seconds of a time to avoid are not used
_ROUNDED_S = 0.005  # by which these times may be rounded


@dataclass(frozen=True, slots=True)
class LabelOptions:
    clips: Path  # folder of footage, see `train.footage.cameras.cameras_in`
    out: Path  # folder of the labelled frames; gone on with where it is there
    teachers: tuple[TeacherFile, ...] = ()  # detectors
    labels: Path | None = None  # of label files ``CAMERA.jsonl.gz``, which replace the teachers
    avoid: Path | None = None  # see `avoided_times`; None avoids nothing


@dataclass(frozen=True, slots=True)
class LabelReport:
    frames: Mapping[str, int]  # number of frames, by camera, those of earlier runs among them as 0
    notes: tuple[str, ...] = ()  # what was left out, and why


def label_frames(options: LabelOptions, progress: Progress | None = None) -> LabelReport:
    """Write the labelled frames of all cameras; SampleError if `out` has one that was made otherwise."""
    tell = progress or (lambda _what, _done, _whole: None)
    cameras, there = cameras_in(options.clips), written_cameras(options.out)
    stated = stated_sources(options.clips)
    times = avoided_times(options.avoid) if options.avoid is not None else {}
    by = [file.plain() for file in options.teachers]
    networks = cache(partial(teachers, options.teachers))  # what is labelled already needs no teacher
    counts: dict[str, int] = {}
    notes: list[str] = []
    for number, camera in enumerate(cameras):
        name = camera.name
        given = options.labels / (name + _LABELS) if options.labels else None
        given = given if given and given.is_file() else None
        tell("cameras", number, len(cameras))
        if given is None and not options.teachers:
            notes.append(f"{name} is left out: {options.labels} has no {name}{_LABELS}")
            continue
        made_of = _made_of(camera, times, given, by)
        known = read_source(options.out, name)
        same = known is not None and known["made_of"] == made_of
        if name in there and not same:
            raise SampleError(
                f"{options.out} holds {name} already, made of other footage or by other teachers; delete it "
                "or choose another folder"
            )
        labels = given or options.out / "labels" / (name + _LABELS)
        if given is None and not (same and _is_complete(labels)):
            label_camera(camera, networks(), labels, tell)
        source = {"camera": name, "footage": str(camera.folder.resolve()), "stated": stated.get(name)}
        text = json.dumps({**source, "made_of": made_of}, indent=1) + "\n"
        make_folder(options.out / "labels")
        replace_file(options.out / "labels" / f"{name}.json", text.encode(), durable=True)
        labelled = {str(row["file"]) for row in read_labels(labels)}
        missing = [file for file in camera.files if file not in labelled]
        notes += [f"{name}: {file} is left out: nothing of it can be read" for file in missing]
        wanted = partial(_is_wanted, times)
        counts[name] = 0 if name in there else write_camera(options.out, name, labels, camera.folder, wanted)
    tell("cameras", len(cameras), len(cameras))
    return LabelReport(counts, tuple(notes))


def _is_wanted(times: Mapping[str, Sequence[float]], file: str, seconds: float | None) -> bool:
    """True for a frame that is near no time to avoid."""
    avoided = times.get(Path(file).name, ())
    return seconds is None or all(abs(seconds - time) > _AVOID_S + _ROUNDED_S for time in avoided)


def label_camera(
    camera: CameraFiles, by: Teachers, target: Path, tell: Progress = lambda _what, _done, _whole: None
) -> None:
    """Write one camera's label file, whole; files that cannot be read are not in it."""
    lines: list[dict[str, Any]] = []
    for number, file in enumerate(camera.files):
        tell(camera.name, number, len(camera.files))
        with suppress(FootageError):
            lines += _label(camera.folder / file, file, by)
    tell(camera.name, len(camera.files), len(camera.files))
    write_labels(target, lines)


def _label(path: Path, file: str, by: Teachers) -> Iterator[dict[str, Any]]:
    for number, seconds, image in sample_frames(path):
        seen = [
            [raw.detector, view, raw.label, round(raw.score, 4), *(round(v, 4) for v in raw.box)]
            for view, raw in by(image)
        ]
        yield {
            "file": file,
            "frame": number,
            "seconds": None if seconds is None else round(seconds, 3),
            "width": image.shape[1],
            "height": image.shape[0],
            "detections": seen,
        }


def _made_of(
    camera: CameraFiles, times: Mapping[str, Sequence[float]], given: Path | None, by: list[dict[str, Any]]
) -> dict[str, Any]:
    """The inputs that decide a camera's labelled frames."""
    made_of: dict[str, Any] = {"files": camera.hashes()}
    if given is None:
        made_of["teachers"] = by
    else:
        detectors = {str(detection[0]) for row in read_labels(given) for detection in row["detections"]}
        sha256 = hashlib.sha256(given.read_bytes()).hexdigest()
        made_of |= {"labels": given.name, "sha256": sha256, "detectors": sorted(detectors)}
    avoided = {f: list(times[Path(f).name]) for f in camera.files if Path(f).name in times}
    return {**made_of, "avoided": avoided, "avoid_s": _AVOID_S} if avoided else made_of


def _is_complete(labels: Path) -> bool:
    with suppress(FootageError):
        read_labels(labels)
        return True
    return False


def read_source(folder: Path, camera: str) -> dict[str, Any] | None:
    """The inputs that a camera's labelled frames were made of; None where no file states them.

    ``camera``, ``footage`` (its folder here), ``stated`` (source and licence, None where nothing is stated)
    and ``made_of`` (``files`` with their hashes, ``teachers`` or ``labels``).
    """
    path = folder / "labels" / f"{camera}.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content if {"footage", "made_of"} <= content.keys() else None
    except (OSError, ValueError):
        return None


def avoided_times(path: Path) -> dict[str, tuple[float, ...]]:
    """The times near which nothing may be sampled, for example those of a benchmark.

    Of JSON Lines every object anywhere inside that has the keys ``clip`` and ``seconds`` counts, unless its
    ``seconds`` is null (a still). Returns the ascending seconds by a clip's file name.
    """
    times: dict[str, set[float]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in filter(str.strip, lines):
            for clip, seconds in _named_moments(json.loads(line)):
                times.setdefault(Path(clip).name, set()).add(seconds)
    except (OSError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise FootageError(f"{path} cannot be read as JSON Lines ({error}); give another file") from error
    if not times:
        raise FootageError(f'{path} names no {{"clip": ..., "seconds": ...}}; nothing would be avoided')
    return {clip: tuple(sorted(own)) for clip, own in times.items()}


def _named_moments(value: object) -> Iterator[tuple[str, float]]:
    """Clips and seconds anywhere in a JSON value."""
    if isinstance(value, Mapping):
        if "clip" in value and value.get("seconds") is not None:
            yield str(value["clip"]), float(value["seconds"])
        for inner in value.values():
            yield from _named_moments(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_moments(inner)
