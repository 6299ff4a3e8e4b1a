"""Which of the objects that the teacher sees at different times are the same object."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, area, centre
from pipeline.sources import Image
from train.footage.teacher import Detection

MAX_STEP = 1.3
"""Longest way between two sampled frames, in the object's own sizes."""
MAX_GROWTH = 1.8
"""Largest ratio of two areas of one object from frame to frame."""
MIN_LIKENESS = 0.5
"""Least colour likeness of one object from frame to frame."""


_MEMORY = 2  # frames in which an object may not be seen


def colours(image: Image, box: Box) -> NDArray[np.float32]:
    """Colour histogram of the inner part of a box, float32 ``(64,)``, sum 1."""
    height, width = image.shape[:2]
    x, y, w, h = box
    left, right = int((x + 0.2 * w) * width), int(np.ceil((x + 0.8 * w) * width))
    top, bottom = int((y + 0.1 * h) * height), int(np.ceil((y + 0.9 * h) * height))
    inner = np.ascontiguousarray(image[top : max(bottom, top + 1), left : max(right, left + 1)])
    counts = cv2.calcHist([inner], [0, 1, 2], None, [4, 4, 4], [0, 256] * 3).ravel()
    return np.asarray(counts / max(counts.sum(), 1), np.float32)


def likeness(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Bhattacharyya coefficient of two histograms, 0..1."""
    return float(np.sqrt(a * b).sum())


def step(a: Box, b: Box) -> float:
    """Distance of two boxes' centres in their mean size (for boxes of a square frame)."""
    (ax, ay), (bx, by) = centre(a), centre(b)
    size = (np.sqrt(area(a)) + np.sqrt(area(b))) / 2
    return float(np.hypot(ax - bx, ay - by) / max(size, 1e-6))


def growth(a: Box, b: Box) -> float:
    """Ratio >= 1 of two boxes' areas."""
    ratio = (area(a) + 1e-9) / (area(b) + 1e-9)
    return max(ratio, 1 / ratio)


def link(
    images: Sequence[Image],
    detections: Sequence[Sequence[Detection]],
    *,
    gaps: Collection[int] = (),
) -> tuple[tuple[int, ...], ...]:
    """Give every detection the number of its track, by greedy nearest links in time order.

    Args:
        images: sampled frames, in time order.
        detections: what the teacher sees on each.
        gaps: numbers of frames before which so much time has passed that no track goes on.

    Returns:
        One number per detection, laid out like `detections`.
    """
    last: dict[int, tuple[int, Detection, NDArray[np.float32]]] = {}
    numbers: list[tuple[int, ...]] = []
    new = 0
    for at, (image, seen) in enumerate(zip(images, detections, strict=True)):
        looks = [colours(image, d.box) for d in seen]
        if at in gaps:
            last.clear()
        recent = {track: (old, look) for track, (when, old, look) in last.items() if at - when <= _MEMORY}
        links = _links(recent, seen, looks)
        mine: dict[int, int] = {}
        for _, track, k in sorted(links):
            if k not in mine and track not in mine.values():
                mine[k] = track
        for k in range(len(seen)):
            if k not in mine:
                mine[k], new = new, new + 1
            last[mine[k]] = (at, seen[k], looks[k])
        numbers.append(tuple(mine[k] for k in range(len(seen))))
    return tuple(numbers)


def _links(
    recent: dict[int, tuple[Detection, NDArray[np.float32]]],
    seen: Sequence[Detection],
    looks: Sequence[NDArray[np.float32]],
) -> list[tuple[float, int, int]]:
    """Possible links ``(way, track, detection)``."""
    links = []
    for track, (old, look) in recent.items():
        for k, d in enumerate(seen):
            way = step(d.box, old.box)
            alike = d.family == old.family and growth(d.box, old.box) < MAX_GROWTH and way < MAX_STEP
            if alike and likeness(look, looks[k]) > MIN_LIKENESS:
                links.append((way, track, k))
    return links


def vote(
    detections: Sequence[Sequence[Detection]], tracks: Sequence[Sequence[int]], *, sure: float = 0.75
) -> tuple[tuple[Detection, ...], ...]:
    """Give all detections of a track the label that it has most, by score.

    A bus or truck that is never seen with a score of `sure` becomes a "vehicle": small detectors take vans
    for buses, and a caption must not say what is not known.
    """
    scores: dict[int, dict[str, float]] = {}
    best: dict[int, float] = {}
    for seen, numbers in zip(detections, tracks, strict=True):
        for d, track in zip(seen, numbers, strict=True):
            own = scores.setdefault(track, {})
            own[d.label] = own.get(d.label, 0.0) + d.score
            best[track] = max(best.get(track, 0.0), d.score if d.label in ("bus", "truck") else 0.0)
    labels = {track: max(sorted(own), key=lambda name: own[name]) for track, own in scores.items()}
    for track, label in labels.items():
        if label in ("bus", "truck") and best[track] < sure:
            labels[track] = "vehicle"
    return tuple(
        tuple(replace(d, label=labels[track]) for d, track in zip(seen, numbers, strict=True))
        for seen, numbers in zip(detections, tracks, strict=True)
    )
