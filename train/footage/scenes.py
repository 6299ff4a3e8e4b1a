"""Scenes: what a clip of a fixed camera shows, and what stands still in it.

Sampled frames, the temporal median of the clip (which holds no moving object) and what the teacher sees on
both, linked over time so that it is known which object is which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import av.error
import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.sources import Image
from train.footage.cameras import Clip, FootageError
from train.footage.identity import link, vote
from train.footage.teacher import Detection, Teacher

_MEDIAN_FRAMES = 31
_WIDEST = 640  # pixels; wider footage is reduced
_ROUNDED_S = 0.005
_MAX_DARKER = 35.0
"""Largest difference of the mean grey levels of two clips that are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One clip, sampled and labelled by the teacher.

    Attributes:
        camera: name of the camera.
        clip: file name of the clip.
        times_s: presentation times in the clip, seconds, ascending.
        images: sampled frames, RGB uint8 ``(h, w, 3)``, all of one size.
        median: temporal median of the clip, like `images`.
        detections: what the teacher sees on each of `images`.
        tracks: the number of the track of each of `detections`; equal numbers are the same object.
        standing: what the teacher sees on `median`.
    """

    camera: str
    clip: str
    times_s: tuple[float, ...]
    images: tuple[Image, ...]
    median: Image
    detections: tuple[tuple[Detection, ...], ...]
    tracks: tuple[tuple[int, ...], ...]
    standing: tuple[Detection, ...]


def avoided_times(path: Path) -> dict[str, tuple[float, ...]]:
    """The times of clips from which nothing may be sampled, for example those of a benchmark.

    Args:
        path: JSON Lines; every object anywhere inside that has the keys ``clip`` and ``seconds`` counts,
            unless its ``seconds`` is null (a still).

    Returns:
        File name of a clip to the times in it, seconds, ascending.

    Raises:
        FootageError: the file cannot be read, is not JSON Lines, or names no time of any clip.
    """
    times: dict[str, set[float]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in filter(str.strip, lines):
            for clip, seconds in _named(json.loads(line)):
                times.setdefault(Path(clip).name, set()).add(seconds)
    except (OSError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise FootageError(f"{path} cannot be read as JSON Lines ({error}); give another file") from error
    if not times:
        raise FootageError(f'{path} names no {{"clip": ..., "seconds": ...}}; nothing would be avoided')
    return {clip: tuple(sorted(own)) for clip, own in times.items()}


def is_near(seconds: float, times: Sequence[float], within_s: float) -> bool:
    """Whether a moment is so near to one of some times; those in files are rounded: the limit itself is."""
    return any(abs(seconds - time) <= within_s + _ROUNDED_S for time in times)


def _named(value: object) -> Iterator[tuple[str, float]]:
    """Clips and seconds anywhere in a JSON value."""
    if isinstance(value, Mapping):
        if "clip" in value and value.get("seconds") is not None:
            yield str(value["clip"]), float(value["seconds"])
        for inner in value.values():
            yield from _named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner)


def load_scene(
    clip: Clip,
    teacher: Teacher,
    *,
    max_frames: int = 192,
    avoid: Sequence[float] = (),
    avoid_s: float = 2.0,
) -> Scene | None:
    """Sample a clip evenly, take its median and ask the teacher.

    Args:
        clip: the clip.
        teacher: labels the sampled frames.
        max_frames: at most this many frames are labelled; short clips give fewer.
        avoid: times in the clip, seconds.
        avoid_s: frames that are no further from a time in `avoid` are used for nothing, neither as sampled
            frames nor for the median.

    Returns:
        The scene, or None where fewer than four readable frames are left.
    """
    frames = _read(clip.path, lambda seconds: not is_near(seconds, avoid, avoid_s))
    if len(frames) < 4:  # noqa: PLR2004  # a median of three frames still shows what moves
        return None
    duration_s = frames[-1][0] - frames[0][0]
    count = min(max_frames, len(frames), round(min(max(4 * duration_s, 24), 36 + duration_s)))
    chosen = [frames[k] for k in _evenly(len(frames), count)]
    stack = np.stack([frames[k][1] for k in _evenly(len(frames), _MEDIAN_FRAMES)])
    median = np.median(stack, axis=0).astype(np.uint8)
    detections = [teacher.detect(image) for _, image in chosen]
    images = tuple(image for _, image in chosen)
    tracks = link(images, detections, gaps=_gaps([t for t, _ in chosen]))
    standing = teacher.detect(median)
    return Scene(
        camera=clip.camera,
        clip=clip.path.name,
        times_s=tuple(t for t, _ in chosen),
        images=images,
        median=median,
        detections=vote(detections, tracks),
        tracks=tracks,
        standing=vote([standing], [range(len(standing))])[0],
    )


def _gaps(times_s: Sequence[float]) -> set[int]:
    """Numbers of the frames before which frames were avoided: the step is much longer than usual."""
    steps = np.diff(times_s)
    return {int(k) + 1 for k in np.flatnonzero(steps > 2.5 * np.median(steps) + 0.1)}


def _evenly(length: int, count: int) -> list[int]:
    return sorted({round(k) for k in np.linspace(0, length - 1, min(count, length))})


def _read(path: Path, wanted: Callable[[float], bool], most: int = 160) -> list[tuple[float, Image]]:
    """At most about `most` wanted frames ``(seconds, image)``, evenly; what a damaged file still gives."""
    frames: list[tuple[float, Image]] = []
    stride = 1
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise FootageError(f"{path} holds no video; remove it or exclude it")
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            seen = 0
            for index, frame in enumerate(container.decode(stream)):
                seconds = float(frame.time if frame.time is not None else index / 25)
                if not wanted(seconds):
                    continue
                seen += 1
                if (seen - 1) % stride:
                    continue
                frames.append((seconds, _reduced(frame)))
                if len(frames) >= 2 * most:  # the length is not known before the end
                    frames, stride = frames[::2], stride * 2
    except (av.error.FFmpegError, OSError) as error:
        if not frames:
            raise FootageError(f"{path} cannot be read ({error}); remove it or exclude it") from error
    return frames


def _reduced(frame: av.VideoFrame) -> Image:
    image = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
    height, wide = image.shape[:2]
    if wide <= _WIDEST:
        return image
    size = (_WIDEST, 2 * round(height * _WIDEST / wide / 2))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def aligned_views(a: Scene, b: Scene) -> bool:
    """Whether two clips of a camera show the same view in like light: their medians lie on each other.

    A camera may have been turned between two occasions, and by night the teacher sees less; such pairs would
    show nothing but that.
    """
    if a.median.shape != b.median.shape:
        return False
    if abs(float(a.median.mean()) - float(b.median.mean())) > _MAX_DARKER:
        return False
    first, second = (_edges(s.median) for s in (a, b))
    (dx, dy), _ = cv2.phaseCorrelate(first, second)
    scale = first.shape[1] / a.median.shape[1]
    correlation = float(np.corrcoef(first.ravel(), second.ravel())[0, 1])
    return abs(dx) <= 6 * scale and abs(dy) <= 6 * scale and correlation > 0.3  # noqa: PLR2004


def _edges(image: Image) -> NDArray[np.float32]:
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)
    small = cv2.resize(grey, (176, 144), interpolation=cv2.INTER_AREA)
    return np.asarray(np.abs(small - cv2.GaussianBlur(small, (0, 0), 3)), np.float32)
