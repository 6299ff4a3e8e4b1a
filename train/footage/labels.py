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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from train import Progress
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


def write_camera(out: Path, camera: str, footage: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Add a camera's frames to the folder `out`; how many. `footage` holds its clips and stills.

    `rows` are raw detections, see `read_labels`, those of a file one after another.
    """
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
    """The rows of a label file, gzipped JSON lines; FootageError if it cannot be read to its end.

    One frame a line: file, frame, seconds, width, height and detections, each a list ``[detector, view,
    class, score, x, y, width, height]``.
    """
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
    out: Path, camera: str, footage: Path, name: str, rows: Sequence[Mapping[str, Any]]
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


def label_frames(options: LabelOptions, tell: Progress = lambda _what, _done, _whole: None) -> LabelReport:
    """Write the labelled frames of all cameras; SampleError if `out` has one that was made otherwise."""
    cameras, there = cameras_in(options.clips), by_camera(read_frames(options.out))
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
        rows = read_labels(given) if given else None
        made_of: dict[str, Any] = {"files": camera.hashes()}
        if given is None or rows is None:
            made_of["teachers"] = by
        else:
            detectors = sorted({str(detection[0]) for row in rows for detection in row["detections"]})
            sha256 = hashlib.sha256(given.read_bytes()).hexdigest()
            made_of |= {"labels": given.name, "sha256": sha256, "detectors": detectors}
        if avoided := {f: list(times[Path(f).name]) for f in camera.files if Path(f).name in times}:
            made_of |= {"avoided": avoided, "avoid_s": _AVOID_S}
        known = read_source(options.out, name)
        same = known is not None and known["made_of"] == made_of
        if name in there and not same:
            raise SampleError(
                f"{options.out} holds {name} already, made of other footage or by other teachers; delete it "
                "or choose another folder"
            )
        labels = options.out / "labels" / (name + _LABELS)
        if rows is None and same:
            with suppress(FootageError):  # cut short: labelled again
                rows = read_labels(labels)
        if rows is None:
            rows = _label_camera(camera, networks(), tell)
            write_labels(labels, rows)
        source = {"camera": name, "footage": str(camera.folder.resolve()), "stated": stated.get(name)}
        text = json.dumps({**source, "made_of": made_of}, indent=1) + "\n"
        make_folder(options.out / "labels")
        replace_file(options.out / "labels" / f"{name}.json", text.encode(), durable=True)
        labelled = {row["file"] for row in rows}
        missing = [file for file in camera.files if file not in labelled]
        notes += [f"{name}: {file} is left out: nothing of it can be read" for file in missing]
        counts[name] = 0
        if name not in there:
            wanted = [row for row in rows if _is_wanted(row, times)]
            counts[name] = write_camera(options.out, name, camera.folder, wanted)
    tell("cameras", len(cameras), len(cameras))
    return LabelReport(counts, tuple(notes))


def _is_wanted(row: Mapping[str, Any], times: Mapping[str, Sequence[float]]) -> bool:
    seconds, avoided = row["seconds"], times.get(Path(row["file"]).name, ())
    return seconds is None or all(abs(seconds - time) > _AVOID_S + _ROUNDED_S for time in avoided)


def _label_camera(camera: CameraFiles, by: Teachers, tell: Progress) -> list[dict[str, Any]]:
    """The rows of a camera's label file; of a file that cannot be read there is none."""
    rows: list[dict[str, Any]] = []
    for number, file in enumerate(camera.files):
        tell(camera.name, number, len(camera.files))
        with suppress(FootageError):
            for frame, seconds, image in sample_frames(camera.folder / file):
                seen = [
                    [raw.detector, view, raw.label, round(raw.score, 4), *(round(v, 4) for v in raw.box)]
                    for view, raw in by(image)
                ]
                at = {"frame": frame, "seconds": None if seconds is None else round(seconds, 3)}
                size = {"width": image.shape[1], "height": image.shape[0]}
                rows.append({"file": file, **at, **size, "detections": seen})
    tell(camera.name, len(camera.files), len(camera.files))
    return rows


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
