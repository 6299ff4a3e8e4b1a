"""Objects cut out of footage with soft mattes, to be pasted elsewhere.

The matte of a moving object: inside the teacher's box, where the frame differs from the clip's temporal
median by more than `MIN_DIFFERENCE`, closed, its largest contour, with a soft edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, area, intersection
from pipeline.sources import Image
from train.footage.scenes import Scene

Matte = NDArray[np.float32]

MIN_DIFFERENCE = 26
"""Least difference (largest of the three channels, grey levels) between an object and the median."""
CLOSING = {"": 0.12, "person": 0.3}
"""Label to the gaps that are closed in its crops: clothes are often of the background's colour."""
MIN_SOLIDITY = {"": 0.7, "person": 0.6, "cyclist": 0.6, "bicycle": 0.5}
"""Label (the empty one: all others) to the least share of its convex hull that an object fills.

A torn matte shows holes of the background; people have arms and legs.
"""
_LEAST = (7, 14)  # pixels of the shorter and of the longer side
MARGIN = 0.06
"""How far beyond the teacher's box a matte may reach, in the box's sizes."""


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """One object with its matte.

    Attributes:
        label: the teacher's label.
        image: RGB uint8 ``(h, w, 3)``, a part of a frame around the object.
        matte: float32 ``(h, w)``, 1 on the object, 0 beside it.
        height: height of the object in 0..1 of the frame it was cut from.
        foot: lowest edge of the object in 0..1 of that frame's height.
        light: median grey level around the object in that frame.
        camera: where it was seen.
        origin: the clip and track that it was cut from; empty where it is of neither.
    """

    label: str
    image: Image
    matte: Matte
    height: float
    foot: float
    light: float
    camera: str
    origin: str


def pixels(box: Box, shape: tuple[int, ...], margin: float = 0.0) -> tuple[slice, slice]:
    """The rows and columns of a box, widened by `margin` of its sizes, at least one pixel each."""
    height, width = shape[:2]
    x, y, w, h = box
    left = int(np.clip(np.floor((x - margin * w) * width), 0, width - 1))
    right = int(np.clip(np.ceil((x + (1 + margin) * w) * width), left + 1, width))
    top = int(np.clip(np.floor((y - margin * h) * height), 0, height - 1))
    bottom = int(np.clip(np.ceil((y + (1 + margin) * h) * height), top + 1, height))
    return slice(top, bottom), slice(left, right)


def matte_of(image: Image, median: Image, box: Box, *, closing: float = 0.12) -> tuple[Matte, float]:
    """Soft matte of the moving object in a box.

    Args:
        image: the frame, RGB uint8 ``(h, w, 3)``.
        median: temporal median of the same clip.
        box: the teacher's box.
        closing: gaps up to this share of the shorter side are closed.

    Returns:
        The matte of the box widened by `MARGIN`, float32, and the share 0..1 of the box that it covers
        (0 where nothing in the box differs from the median).
    """
    rows, columns = pixels(box, image.shape, MARGIN)
    difference = cv2.absdiff(image[rows, columns], median[rows, columns]).max(axis=2)
    active = np.asarray(difference > MIN_DIFFERENCE, np.uint8)
    reach = max(3, round(closing * min(active.shape)) | 1)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
    padded = cv2.copyMakeBorder(active, reach, reach, reach, reach, cv2.BORDER_CONSTANT, value=0)
    closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, kernel)[reach:-reach, reach:-reach]
    contours, _ = cv2.findContours(np.ascontiguousarray(closed), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    solid = np.zeros(active.shape, np.uint8)
    if not contours:
        return solid.astype(np.float32), 0.0
    cv2.drawContours(solid, [max(contours, key=cv2.contourArea)], -1, 1, thickness=-1)
    inside = box[2] * box[3] * image.shape[0] * image.shape[1]
    soft = cv2.GaussianBlur(solid.astype(np.float32), (3, 3), 0)
    return np.asarray(soft, np.float32), float(min(solid.sum() / max(inside, 1), 1.0))


def solidity(matte: Matte) -> float:
    """Area of a matte over that of its convex hull, 0..1."""
    rows, columns = np.nonzero(matte > 0.5)  # noqa: PLR2004
    if not len(rows):
        return 0.0
    hull = cv2.convexHull(np.stack([columns, rows], axis=1).astype(np.int32))
    return float(min(len(rows) / max(cv2.contourArea(hull), 1.0), 1.0))


def moving(scene: Scene, at: int, *, min_score: float = 0.4, min_cover: float = 0.4) -> list[int]:
    """Which detections of a sampled frame are moving objects that stand free of others.

    Args:
        scene: the scene.
        at: number of the sampled frame.
        min_score: least score of the teacher.
        min_cover: least share of the box that differs from the median.
    """
    seen = scene.detections[at]
    free = []
    for k, d in enumerate(seen):
        crowded = any(
            intersection(d.box, other.box) > 0.15 * min(area(d.box), area(other.box))
            for j, other in enumerate(seen)
            if j != k
        )
        if d.score < min_score or crowded:
            continue
        if matte_of(scene.images[at], scene.median, d.box)[1] >= min_cover:
            free.append(k)
    return free


def cut(scene: Scene, at: int, k: int) -> Crop | None:
    """Cut one object out of a sampled frame.

    Args:
        scene: the scene.
        at: number of the sampled frame.
        k: number of the detection on it.

    Returns:
        The object, or None where it is small, cut off by the frame or its matte is doubtful.
    """
    image, seen = scene.images[at], scene.detections[at][k]
    height, width = image.shape[:2]
    x, y, w, h = seen.box
    cut_off = x < 0.01 or y < 0.01 or x + w > 0.99 or y + h > 0.985  # noqa: PLR2004
    sides = sorted((w * width, h * height))
    if cut_off or sides[0] < _LEAST[0] or sides[1] < _LEAST[1] or h > 0.9:  # noqa: PLR2004
        return None
    matte, cover = matte_of(image, scene.median, seen.box, closing=CLOSING.get(seen.label, CLOSING[""]))
    least = MIN_SOLIDITY.get(seen.label, MIN_SOLIDITY[""])
    if solidity(matte) < least or not 0.45 <= cover < 0.97:  # noqa: PLR2004  # a full box has its background in it
        return None
    rows, columns = pixels(seen.box, image.shape, MARGIN)
    around = image[pixels(seen.box, image.shape, 0.5)]
    return Crop(
        seen.label,
        image[rows, columns].copy(),
        matte,
        h,
        y + h,
        float(np.median(around)),
        scene.camera,
        f"{scene.clip}:{scene.tracks[at][k]}",
    )


def object_bank(
    scenes: Sequence[Scene], *, min_score: float = 0.5, most: int = 400
) -> dict[str, tuple[Crop, ...]]:
    """Crops of every label from all scenes, at most `most` a label, evenly over what was found."""
    found: dict[str, list[Crop]] = {}
    for scene in scenes:
        for at in range(len(scene.images)):
            for k in moving(scene, at, min_score=min_score, min_cover=0.45):
                crop = cut(scene, at, k)
                if crop is not None:
                    found.setdefault(crop.label, []).append(crop)
    return {
        label: tuple(crops[round(k)] for k in np.linspace(0, len(crops) - 1, min(most, len(crops))))
        for label, crops in sorted(found.items())
    }


def apart(
    bank: Mapping[str, Sequence[Crop]], share: float
) -> tuple[dict[str, tuple[Crop, ...]], dict[str, tuple[Crop, ...]]]:
    """Part a bank in two that share no object: of each camera and label, the last ones go to the second.

    Args:
        bank: label to its crops, those of a clip in the order of time.
        share: about this share 0..1 of a camera's objects of a label (if it has at least four) goes to the
            second.
    """
    first: dict[str, tuple[Crop, ...]] = {}
    second: dict[str, tuple[Crop, ...]] = {}
    for label, crops in bank.items():
        own: dict[str, list[str]] = {}
        for origin, camera in dict.fromkeys((c.origin, c.camera) for c in crops):
            own.setdefault(camera, []).append(origin)
        late = {
            origin
            for origins in own.values()
            if len(origins) > 3  # noqa: PLR2004
            for origin in origins[len(origins) - round(share * len(origins)) :]
        }
        parts = [tuple(c for c in crops if (c.origin in late) == x) for x in (False, True)]
        first |= {label: parts[0]} if parts[0] else {}
        second |= {label: parts[1]} if parts[1] else {}
    return first, second
