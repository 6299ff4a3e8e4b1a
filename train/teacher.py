"""The teacher: a detector that labels footage offline, so that captions can be known to be true.

YOLOX (Ge et al. 2021, "YOLOX: Exceeding YOLO Series in 2021") as an ONNX file with raw head outputs. It
is run on the frame and on 2x2 overlapping tiles, because distant people have a dozen pixels. It is not
part of the product: only training needs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Box = tuple[float, float, float, float]

COCO_LABELS = {
    0: "person",
    1: "bicycle",
    2: "car",
    3: "motorcycle",
    5: "bus",
    7: "truck",
    39: "bottle",
}
"""COCO class number (of 80) to the label used here; what is not named is not reported."""

FAMILIES = {
    "car": "vehicle",
    "bus": "vehicle",
    "truck": "vehicle",
    "vehicle": "vehicle",
    "bicycle": "cycle",
    "motorcycle": "cycle",
    "cyclist": "cycle",
}
"""Labels that a small detector confuses, and that therefore suppress each other."""

_STRIDES = (8, 16, 32)
_GREY = 114
_TILE = 0.6
_EDGE = 0.03
"""A box that ends nearer to an inner edge of a tile is cut there; the detector stops a little short of it."""


class TeacherError(Exception):
    """The teacher cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Detection:
    """One object that the teacher sees.

    Attributes:
        label: a value of `COCO_LABELS`, "cyclist" for a person on a bicycle, or "vehicle" where the teacher
            is not sure which.
        box: ``(x, y, width, height)`` in 0..1 of the frame.
        score: 0..1.
    """

    label: str
    box: Box
    score: float

    @property
    def family(self) -> str:
        """The label, or the family of labels that are easily confused with it."""
        return FAMILIES.get(self.label, self.label)


class Teacher:
    """Finds objects in RGB images with a YOLOX network.

    Args:
        weights: ONNX file with raw head outputs (centre offsets, log sizes, objectness and 80 class
            scores of the strides 8, 16 and 32).
        min_score: detections below are not reported.
        threads: threads of the ONNX runtime.

    Raises:
        TeacherError: onnxruntime is not installed, or the file is not such a network.
    """

    def __init__(self, weights: Path, *, min_score: float = 0.25, threads: int = 1) -> None:
        try:
            import onnxruntime  # noqa: PLC0415  # an extra: describing pictures must not need it
        except ImportError:
            raise TeacherError(
                "the teacher needs onnxruntime, which is not installed: pip install 'narrated[train]'"
            ) from None
        if not weights.is_file():
            raise TeacherError(f"no detector at {weights}; give the path of a YOLOX network in ONNX format")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        try:
            self._net: Any = onnxruntime.InferenceSession(
                str(weights), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its exceptions have no public common ancestor
            raise TeacherError(
                f"{weights} is not an ONNX network that onnxruntime can run: {error}"
            ) from error
        entry = self._net.get_inputs()[0]
        if len(entry.shape) != len("NCHW") or not isinstance(entry.shape[2], int):
            raise TeacherError(
                f"{weights} takes {entry.shape}; expected images of one fixed size (N, 3, S, S)"
            )
        self._entry, self._size = entry.name, int(entry.shape[2])
        self._cells, self._strides = _anchors(self._size)
        self.min_score = min_score
        self.sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()

    def detect(self, image: Image) -> tuple[Detection, ...]:
        """Objects on the whole frame and on its tiles, merged, the surest first.

        Args:
            image: RGB uint8 ``(height, width, 3)``.
        """
        height, width = image.shape[:2]
        found = self._detect_once(image)
        tile_w, tile_h = round(width * _TILE), round(height * _TILE)
        for x in (0, width - tile_w):
            for y in (0, height - tile_h):
                tile = image[y : y + tile_h, x : x + tile_w]
                for seen in self._detect_once(tile):
                    if not _cut_by_tile(seen.box, left=x > 0, top=y > 0):
                        found.append(_from_tile(seen, (x / width, y / height)))
        return merge_riders(suppress(found))

    def _detect_once(self, image: Image) -> list[Detection]:
        height, width = image.shape[:2]
        scale = min(self._size / height, self._size / width)
        small_w, small_h = max(int(width * scale), 1), max(int(height * scale), 1)
        canvas = np.full((self._size, self._size, 3), _GREY, np.uint8)
        canvas[:small_h, :small_w] = cv2.resize(image, (small_w, small_h), interpolation=cv2.INTER_LINEAR)
        entry = canvas[..., ::-1].transpose(2, 0, 1)[None].astype(np.float32)
        out = self._net.run(None, {self._entry: entry})[0][0]
        scores = out[:, 4:5] * out[:, 5:]
        classes = scores.argmax(axis=1)
        best = scores[np.arange(len(scores)), classes]
        found = []
        for k in np.flatnonzero(best >= self.min_score):
            label = COCO_LABELS.get(int(classes[k]))
            if label is None:
                continue
            centre = (out[k, :2] + self._cells[k]) * self._strides[k] / scale
            size = np.exp(out[k, 2:4]) * self._strides[k] / scale
            low = np.clip((centre - size / 2) / (width, height), 0, 1)
            high = np.clip((centre + size / 2) / (width, height), 0, 1)
            if (high > low).all():
                box = (float(low[0]), float(low[1]), float(high[0] - low[0]), float(high[1] - low[1]))
                found.append(Detection(label, box, float(best[k])))
        return found


def _anchors(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cell ``(x, y)`` of every output row, and its stride."""
    cells, strides = [], []
    for stride in _STRIDES:
        count = size // stride
        row, column = np.divmod(np.arange(count * count), count)
        cells.append(np.stack([column, row], axis=1))
        strides.append(np.full((count * count, 1), stride))
    return np.concatenate(cells).astype(np.float64), np.concatenate(strides).astype(np.float64)


def _cut_by_tile(box: Box, *, left: bool, top: bool) -> bool:
    """Whether the box ends at an inner edge of a tile: then only a part of the object was seen."""
    x, y, width, height = box
    across = x < _EDGE if left else x + width > 1 - _EDGE
    down = y < _EDGE if top else y + height > 1 - _EDGE
    return across or down


def _from_tile(seen: Detection, origin: tuple[float, float]) -> Detection:
    x, y, width, height = seen.box
    left, top = origin[0] + x * _TILE, origin[1] + y * _TILE
    box = (left, top, min(width * _TILE, 1 - left), min(height * _TILE, 1 - top))  # tiles are whole pixels
    return Detection(seen.label, box, seen.score)


def intersection(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return max(width, 0.0) * max(height, 0.0)


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, 0..1."""
    shared = intersection(a, b)
    return shared / max(a[2] * a[3] + b[2] * b[3] - shared, 1e-12)


def union(a: Box, b: Box) -> Box:
    """The smallest box that holds both."""
    x, y = min(a[0], b[0]), min(a[1], b[1])
    return x, y, max(a[0] + a[2], b[0] + b[2]) - x, max(a[1] + a[3], b[1] + b[3]) - y


def centre(box: Box) -> tuple[float, float]:
    """Centre ``(x, y)`` of a box."""
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def suppress(
    found: Sequence[Detection], *, max_iou: float = 0.5, max_inside: float = 0.8, max_grown: float = 4.0
) -> tuple[Detection, ...]:
    """Non-maximum suppression within each family, the surest first.

    Args:
        found: detections of the frame and of its tiles.
        max_iou: a detection that overlaps a surer one more than this is the same object.
        max_inside: a detection with more than this share of its area inside a surer one is a part of it.
        max_grown: a detection that holds so much of a surer one of the same label is the same object, unless
            it is more than so many times as large.
    """
    kept: list[Detection] = []
    for seen in sorted(found, key=lambda d: -d.score):
        rivals = [k for k in kept if k.family == seen.family]
        area = seen.box[2] * seen.box[3]
        same = any(
            iou(seen.box, k.box) > max_iou
            or intersection(seen.box, k.box) > max_inside * area
            or (
                seen.label == k.label
                and intersection(seen.box, k.box)
                > max_inside * k.box[2] * k.box[3]
                > max_inside * area / max_grown
            )
            for k in rivals
        )
        if not same:
            kept.append(seen)
    return tuple(kept)


def merge_riders(found: Sequence[Detection], *, min_inside: float = 0.3) -> tuple[Detection, ...]:
    """A person on a bicycle becomes one cyclist, a person on a motorcycle a part of it.

    Args:
        found: detections.
        min_inside: least share of the cycle's box that the rider's box covers.
    """
    people = [d for d in found if d.label == "person"]
    merged: list[Detection] = []
    riders: set[int] = set()
    for cycle in (d for d in found if d.label in ("bicycle", "motorcycle")):
        area = cycle.box[2] * cycle.box[3]
        shares = [intersection(p.box, cycle.box) / area for p in people]
        best = int(np.argmax(shares)) if shares else -1
        above = best >= 0 and people[best].box[1] < cycle.box[1] + 0.3 * cycle.box[3]
        if best >= 0 and best not in riders and shares[best] >= min_inside and above:
            riders.add(best)
            label = "cyclist" if cycle.label == "bicycle" else "motorcycle"
            score = max(cycle.score, people[best].score)
            merged.append(Detection(label, union(cycle.box, people[best].box), score))
        else:
            merged.append(cycle)
    merged += [p for k, p in enumerate(people) if k not in riders]
    merged += [d for d in found if d.label not in ("bicycle", "motorcycle", "person")]
    return tuple(sorted(merged, key=lambda d: -d.score))
