"""Boxes: places in a frame, and what can be asked of them.

A box is ``(x, y, width, height)`` in 0..1 of the frame, whatever the resolution.
"""

from collections.abc import Iterable

Box = tuple[float, float, float, float]  # ``(x, y, width, height)`` in 0..1 of the frame
Point = tuple[float, float]  # ``(x, y)`` in 0..1 of the frame

LEAST_AREA = 1e-12  # so that nothing is divided by 0


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
    return shared / max(area(a) + area(b) - shared, LEAST_AREA)


def share_inside(box: Box, other: Box) -> float:
    """Share 0..1 of a box that lies within another."""
    return intersection(box, other) / max(area(box), LEAST_AREA)


def hull(boxes: Iterable[Box | None]) -> Box | None:
    """The smallest box that holds all those given; None if there are none."""
    given = [box for box in boxes if box is not None]
    if not given:
        return None
    left, top = (min(box[k] for box in given) for k in (0, 1))
    right, bottom = (max(box[k] + box[k + 2] for box in given) for k in (0, 1))
    return left, top, right - left, bottom - top
