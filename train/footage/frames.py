"""Labelled frames: the folder that composing writes and that the detector learns from.

``frames.jsonl`` holds one frame a line, `LabelledFrame` as JSON; ``images/CAMERA/`` holds the pictures as
JPEG. A camera that is written is whole: its lines come after its pictures, and the file is replaced as one.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from pydantic import TypeAdapter, ValidationError

from pipeline.disk import make_folder, replace_file
from pipeline.sources import Image
from pipeline.sources.frame import shrink
from train.footage.cameras import STILL_SUFFIXES, FootageError, frames_of
from train.footage.votes import Raw, Vote, clean_votes, merge_votes
from train.samples import image_in

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
