"""How long what is somewhere stays to be seen, by the regions that differ from the scene without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.sources import Luma

_DELTA = 25.0  # grey levels that a pixel of a region differs by at least
_NOISE = 4.5  # ... and times the median difference
_LEAST = 0.0015  # of the frame: smaller regions are noise
_REACH = 0.6  # of its longer side that a region goes in one step, from edge to edge
_MERGED = 1.5  # times larger a step on: it has met something else
_EDGE = 2  # pixels from the frame's edge at which a region is cut off, and may grow
_FLAT = 25.0  # variance of a scene too flat to tell a gain
_GRID = 10  # every so manieth pixel judges the light


@dataclass(frozen=True, slots=True, eq=False)
class _Regions:
    """Regions of one plane.

    Attributes:
        labels: uint16 ``(h, w)``, 0 where there is none; widened by two pixels.
        boxes: int ``(n, 5)``: x, y, width, height and pixels of each label.
        large: the labels that are no noise.
    """

    labels: NDArray[np.uint16]
    boxes: NDArray[np.int64]
    large: tuple[int, ...]


class Presence:
    """Follows regions from plane to plane, while they do not meet another.

    Args:
        planes: luma in the direction of following, uint8 ``(h, w)`` each; on the last one, the scene, the
            objects are not to be seen any more where they were.
    """

    def __init__(self, planes: Sequence[Luma]) -> None:
        self._planes = planes
        self._found: dict[int, _Regions] = {}

    def last_seen(
        self, places: NDArray[np.float32], steps: NDArray[np.intp]
    ) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """Until when what was at some places can be followed further.

        Args:
            places: float32 ``(n, 2)`` in pixels.
            steps: the plane of each, int ``(n,)``.

        Returns:
            The same, later: the middle of the region that was last seen, and its plane, which is never the
            last one. A place that lies in no region, or whose region ends with its plane, stays as it is.
        """
        places, steps = places.copy(), steps.copy()
        for step in np.unique(steps):
            here = np.flatnonzero(steps == step)
            x, y = places[here].astype(np.intp).T
            labels = self._regions(int(step)).labels[y, x]
            for label in np.unique(labels[labels > 0]):
                end, region = self._end(int(step), int(label))
                if end > step:
                    left, top, width, height = self._regions(end).boxes[region, :4]
                    places[here[labels == label]] = (left + width / 2, top + height / 2)
                    steps[here[labels == label]] = end
        return places, steps

    def _end(self, step: int, region: int) -> tuple[int, int]:
        """Where following a region ends: plane and label."""
        while step + 1 < len(self._planes) - 1:
            box, then = self._regions(step).boxes[region], self._regions(step + 1)
            near = [(_apart(box, then.boxes[label]), label) for label in then.large]
            distance, label = min(near, default=(np.inf, 0))
            met = then.boxes[label, 4] > _MERGED * box[4] and not self._cut_off(box)
            if distance > _REACH * max(box[2], box[3]) or met:
                break
            step, region = step + 1, label
        return step, region

    def _cut_off(self, box: NDArray[np.int64]) -> bool:
        """Whether the frame's edge hides a part of it."""
        height, width = self._planes[0].shape
        x, y, wide, high = box[:4]
        return bool(min(x, y) <= _EDGE or x + wide >= width - _EDGE or y + high >= height - _EDGE)

    def _regions(self, step: int) -> _Regions:
        if step not in self._found:
            self._found[step] = _regions(self._planes[step], self._planes[-1])
        return self._found[step]


def _apart(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """Pixels between two boxes along the axis on which they are farther apart, 0 where they touch."""
    across = max(b[0] - (a[0] + a[2]), a[0] - (b[0] + b[2]))
    down = max(b[1] - (a[1] + a[3]), a[1] - (b[1] + b[3]))
    return max(int(across), int(down), 0)


def _regions(plane: Luma, scene: Luma) -> _Regions:
    """Regions in which a plane differs from the scene once its light is matched."""
    gain, offset = _light(scene[::_GRID, ::_GRID].ravel(), plane[::_GRID, ::_GRID].ravel())
    table = np.clip(np.round(gain * np.arange(256) + offset), 0, 255).astype(np.uint8)
    difference = cv2.absdiff(plane, np.asarray(cv2.LUT(scene, table), np.uint8))
    limit = max(_DELTA, _NOISE * float(np.median(difference[::2, ::2])))
    mask = (np.asarray(cv2.blur(difference, (3, 3))) > limit).astype(np.uint8)
    mask = np.asarray(cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8)), np.uint8)
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(mask, connectivity=8, ltype=cv2.CV_16U)
    large = [label for label in range(1, len(boxes)) if boxes[label, 4] >= _LEAST * mask.size]
    names = np.zeros(len(boxes), np.uint16)
    names[large] = large
    wide = cv2.dilate(names[np.asarray(labels)], np.ones((5, 5), np.uint8))
    return _Regions(np.asarray(wide, np.uint16), np.asarray(boxes, np.int64), tuple(large))


def _light(scene: NDArray[np.uint8], plane: NDArray[np.uint8]) -> tuple[float, float]:
    """Gain and offset of a plane's light over the scene's, by trimmed least squares."""
    x, y = scene.astype(np.float32), plane.astype(np.float32)
    gain, offset = 1.0, float(np.median(y - x))
    for _ in range(3):
        rest = np.abs(y - gain * x - offset)
        kept = rest <= max(2.5 * 1.4826 * float(np.median(rest)), 3.0)
        a, b = x[kept], y[kept]
        spread = float(a.var())
        together = float(((a - a.mean()) * (b - b.mean())).mean())
        gain = min(max(together / spread, 0.5), 2.0) if spread > _FLAT else 1.0
        offset = float(b.mean() - gain * a.mean())
    return gain, offset
