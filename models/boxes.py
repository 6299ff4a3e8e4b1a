"""Boxes: places in a frame, and what can be asked of them.

A box is ``(x, y, width, height)`` in 0..1 of the frame, whatever the resolution.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]  # ``(x, y, width, height)`` in 0..1 of the frame
Point = tuple[float, float]  # ``(x, y)`` in 0..1 of the frame
Boxes = Sequence[Box] | NDArray[np.floating]  # N boxes, or ``(N, 4)``

_LEAST_AREA = 1e-12  # so that nothing is divided by 0


def box_of(row: Iterable[float]) -> Box:
    """A box as plain floats, of four numbers of any kind."""
    x, y, width, height = (float(value) for value in row)
    return x, y, width, height


def area(box: Box) -> float:
    """The area of a box as a share 0..1 of the frame."""
    return box[2] * box[3]


def centre(box: Box) -> Point:
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def offset(a: Box, b: Box) -> Point:
    """The way from the middle of `b` to the middle of `a`, ``(x, y)``."""
    return a[0] + a[2] / 2 - b[0] - b[2] / 2, a[1] + a[3] / 2 - b[1] - b[3] / 2


def holds(box: Box, point: Point) -> bool:
    """True where a point lies in a box or on its edge."""
    return box[0] <= point[0] <= box[0] + box[2] and box[1] <= point[1] <= box[1] + box[3]


def intersection(a: Box, b: Box) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return max(width, 0.0) * max(height, 0.0)


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, 0..1."""
    shared = intersection(a, b)
    return shared / max(area(a) + area(b) - shared, _LEAST_AREA)


def share_inside(box: Box, other: Box) -> float:
    """Share 0..1 of a box that lies within another."""
    return intersection(box, other) / max(area(box), _LEAST_AREA)


def union(a: Box, b: Box) -> Box:
    """The smallest box that holds both."""
    return _hull((a, b))


def hull(boxes: Iterable[Box | None]) -> Box | None:
    """The smallest box that holds all those given; None if there are none."""
    given = [box for box in boxes if box is not None]
    return _hull(given) if given else None


def _hull(given: Sequence[Box]) -> Box:
    left, top = (min(box[k] for box in given) for k in (0, 1))
    right, bottom = (max(box[k] + box[k + 2] for box in given) for k in (0, 1))
    return left, top, right - left, bottom - top


def shared_areas(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Areas that N boxes and M others share, float64 ``(N, M)``."""
    one, two = (np.asarray(boxes, np.float64).reshape(-1, 4) for boxes in (a, b))
    # one plane after the other: hundreds of boxes take a third of the time
    x, y, width, height = one.T[:, :, None]
    others = two.T[:, None]
    across = np.minimum(x + width, others[0] + others[2]) - np.maximum(x, others[0])
    down = np.minimum(y + height, others[1] + others[3]) - np.maximum(y, others[1])
    return np.asarray(across.clip(min=0) * down.clip(min=0))


def overlaps(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Intersection over union of N boxes and M others, float64 ``(N, M)``."""
    shared = shared_areas(a, b)
    areas = [np.asarray(boxes, np.float64).reshape(-1, 4)[:, 2:].prod(1) for boxes in (a, b)]
    return np.asarray(shared / np.maximum(areas[0][:, None] + areas[1] - shared, _LEAST_AREA))


def suppress(rivals: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rows int64 ``(M,)`` that stay where each that stays sends away its `rivals` ``(N, N)`` after it."""
    table = np.triu(rivals, 1)
    gone = np.zeros(len(table), np.bool_)
    for i, row in enumerate(table):
        if not gone[i]:
            gone |= row
    return np.flatnonzero(~gone)
