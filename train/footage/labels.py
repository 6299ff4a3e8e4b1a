"""From footage and teachers to labelled frames, one camera at a time; what was done is not done again.

``labels/CAMERA.jsonl.gz`` keeps what the teachers said, ``labels/CAMERA.json`` of what it was made: files and
teachers with their hashes, and what is stated about the source. ``frames.jsonl`` holds one frame a line,
`LabelledFrame` as JSON; ``images/CAMERA/`` holds the pictures as JPEG. A camera that is written is whole: its
lines come after its pictures, and every file is replaced as one.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from pydantic import TypeAdapter, ValidationError

from pipeline.disk import make_folder, replace_file
from pipeline.sources import Image
from pipeline.sources.frame import shrink
from train.footage.cameras import (
    STILL_SUFFIXES,
    CameraFiles,
    FootageError,
    cameras_in,
    frames_of,
    sample_frames,
    stated_sources,
)
from train.footage.teachers import TeacherFile, Teachers, teachers
from train.footage.votes import Raw, Vote, clean_votes, merge_votes
from train.progress import Progress
from train.samples import SampleError, image_in

FRAMES = "frames.jsonl"

LARGEST = 1280  # pictures are kept at most this wide
_THUMBNAIL = 160


@dataclass(frozen=True, slots=True)
class LabelledFrame:
    camera: str  # its name
    file: str  # the clip or still it is of
    seconds: float | None  # since the clip's begin; None of a still
    image: str  # path of its picture within the folder; its name ends with ``_`` and the frame's number
    width: int  # and height, of the footage in pixels
    height: int
    votes: tuple[Vote, ...]  # the candidates, cleaned by time


_FRAME = TypeAdapter(LabelledFrame)


def write_camera(
    out: Path, camera: str, labels: Path, footage: Path, wanted: Callable[[str, float | None], bool]
) -> int:
    """Add one camera's frames to the folder `out`, unless they are there; how many were added.

    `labels` is gzipped JSON lines of raw detections, one frame a line: file, frame, seconds, width, height,
    detections as ``[detector, view, class, score, x, y, width, height]``. `footage` holds its clips and
    stills; `wanted` takes a file's name and seconds, and says whether that frame may be used.
    """
    if camera in written_cameras(out):
        return 0
    rows = [row for row in read_labels(labels) if wanted(str(row["file"]), row["seconds"])]
    frames: list[LabelledFrame] = []
    for name, group in groupby(rows, key=lambda row: str(row["file"])):
        frames += _of_file(out, camera, footage, name, list(group))
    path = out / FRAMES
    text = "".join(json.dumps(asdict(frame)) + "\n" for frame in frames)
    before = path.read_bytes() if path.exists() else b""
    make_folder(out)
    replace_file(path, before + text.encode(), durable=True)
    return len(frames)


def read_labels(path: Path) -> list[dict[str, Any]]:
    """The rows of a label file, see `write_camera`; FootageError if it cannot be read to its end."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except (OSError, EOFError, ValueError) as error:
        raise FootageError(f"{path} is damaged or not a label file ({error}); delete it") from error


def write_labels(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a label file, whole or not at all; the same rows give the same bytes."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    make_folder(path.parent)
    replace_file(path, gzip.compress(text.encode(), mtime=0), durable=True)


def _of_file(
    out: Path, camera: str, footage: Path, name: str, rows: Sequence[dict[str, Any]]
) -> list[LabelledFrame]:
    """Write a file's pictures one by one: a clip's do not fit into memory together."""
    path = footage / name
    folder = out / "images" / camera
    folder.mkdir(parents=True, exist_ok=True)
    stem = "-".join(Path(name).with_suffix("").parts) + path.suffix.replace(".", "-")
    targets, thumbnails = [], []
    for row, image in zip(rows, frames_of(path, [int(row["frame"]) for row in rows]), strict=True):
        target = folder / f"{stem}_{row['frame']:06d}.jpg"
        bgr = cv2.cvtColor(shrink(image, LARGEST), cv2.COLOR_RGB2BGR)
        if not cv2.imwrite(str(target), bgr, [cv2.IMWRITE_JPEG_QUALITY, 95]):
            raise FootageError(f"{target} cannot be written; choose another folder, or make room")
        targets.append(str(target.relative_to(out)))
        thumbnails.append(shrink(np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8), _THUMBNAIL))
    raw = [[Raw(r[0], r[2], r[3], tuple(r[4:])) for r in row["detections"]] for row in rows]
    results = [merge_votes(own) for own in raw]
    if path.suffix.lower() not in STILL_SUFFIXES:
        results = clean_votes(results, thumbnails)
    return [
        LabelledFrame(camera, name, row["seconds"], target, row["width"], row["height"], tuple(votes))
        for row, target, votes in zip(rows, targets, results, strict=True)
    ]


def picture(folder: Path, frame: LabelledFrame) -> Image:
    """A labelled frame's picture, RGB uint8 ``(h, w, 3)``; FootageError if it cannot be read."""
    image = image_in(folder / frame.image)
    if image is None:
        raise FootageError(f"{folder / frame.image} cannot be read: label the folder again")
    return image


def read_frames(folder: Path) -> list[LabelledFrame]:
    """The labelled frames of a folder, none where nothing was written yet; FootageError if damaged."""
    path, frames = folder / FRAMES, list[LabelledFrame]()
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            frames.append(_FRAME.validate_json(line))
        except ValidationError as error:
            wrong = error.errors()[0]["msg"]
            raise FootageError(
                f"{path}, line {number} ({wrong}): no labelled frame; delete that file and label again: "
                "labels beside it are reused"
            ) from error
    return frames


def written_cameras(folder: Path) -> set[str]:
    """The cameras of which a folder holds frames; FootageError if the file is damaged."""
    return {frame.camera for frame in read_frames(folder)}


def by_camera(frames: Iterable[LabelledFrame]) -> dict[str, list[LabelledFrame]]:
    cameras: dict[str, list[LabelledFrame]] = {}
    for frame in frames:
        cameras.setdefault(frame.camera, []).append(frame)
    return cameras


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
