"""Motion of tracks: velocities by least squares, predicted boxes, and their share outside the frame."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from models.boxes import Box
from pipeline import settings
from pipeline.tracking.types import Floats, Observation


def velocity(observations: Sequence[Observation], *, at_start: bool = False) -> tuple[float, float]:
    """Shares of the frame a second, x and y, at the end (or start) of a track; 0 where it was seen once.

    A side that the frame's edge cuts stays there whatever the object does, so it is left out.
    """
    near = _first_or_last(observations, at_start=at_start)
    if len(near) < 2:  # noqa: PLR2004 - no motion in one observation
        return 0.0, 0.0
    mean = sum(o.time_s for o in near) / len(near)
    times = [o.time_s - mean for o in near]
    spread = max(sum(t * t for t in times), 1e-9)
    speeds = []
    for axis in (0, 1):
        low = [o.box[axis] for o in near]
        high = [o.box[axis] + o.box[axis + 2] for o in near]
        cut_low, cut_high = min(low) < settings.EDGE_SHARE, max(high) > 1 - settings.EDGE_SHARE
        middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        side = high if cut_low and not cut_high else low if cut_high and not cut_low else middle
        speeds.append(sum(t * s for t, s in zip(times, side, strict=True)) / spread)
    return speeds[0], speeds[1]


def _first_or_last(observations: Sequence[Observation], *, at_start: bool) -> Sequence[Observation]:
    if at_start:
        start = observations[0].time_s
        return [o for o in observations[:12] if o.time_s <= start + settings.VELOCITY_S + 1e-6]
    end = observations[-1].time_s
    return [o for o in observations[-12:] if o.time_s >= end - settings.VELOCITY_S - 1e-6]


def whole_box(observations: Sequence[Observation], *, at_start: bool = False) -> Box:
    """The end's (start's) box as large as it was before the frame's edge cut it."""
    near = _first_or_last(observations, at_start=at_start)
    x, y, w, h = (near[0] if at_start else near[-1]).box
    wide, high = max(o.box[2] for o in near), max(o.box[3] for o in near)
    if x < settings.EDGE_SHARE and wide > w:
        x, w = x + w - wide, wide
    elif x + w > 1 - settings.EDGE_SHARE and wide > w:
        w = wide
    if y < settings.EDGE_SHARE and high > h:
        y, h = y + h - high, high
    elif y + h > 1 - settings.EDGE_SHARE and high > h:
        h = high
    return x, y, w, h


def moved_box(box: Box, speed: tuple[float, float], seconds: float) -> Box:
    """A box after so long at this velocity."""
    return box[0] + speed[0] * seconds, box[1] + speed[1] * seconds, box[2], box[3]


def share_outside(boxes: Floats) -> Floats:
    """Share 0..1 of boxes ``(N, 4)`` outside of the frame."""
    low = boxes[:, :2].clip(0, 1)
    high = (boxes[:, :2] + boxes[:, 2:]).clip(0, 1)
    return np.asarray(1 - (high - low).prod(1) / np.maximum(boxes[:, 2:].prod(1), 1e-12))


def sizes(boxes: Floats, aspect: float) -> Floats:
    """Roots of the areas of boxes ``(..., 4)``, in heights of the frame."""
    return np.asarray(np.sqrt(np.maximum(boxes[..., 2] * boxes[..., 3] * aspect, 1e-9)))


def distances(one: Floats, two: Floats, aspect: float) -> Floats:
    """Distances ``(N, M)`` of middles in heights of the frame."""
    step = one[:, None, :2] + one[:, None, 2:] / 2 - two[None, :, :2] - two[None, :, 2:] / 2
    return np.asarray(np.hypot(step[..., 0] * aspect, step[..., 1]))


def sizes_apart(one: Box, two: Box, aspect: float) -> float:
    """Own sizes between two middles."""
    across, down = (one[k] + one[k + 2] / 2 - two[k] - two[k + 2] / 2 for k in (0, 1))
    size, other = (sqrt(max(w * h * aspect, 1e-9)) for _, _, w, h in (one, two))
    return float(np.hypot(across * aspect, down)) / sqrt(size * other)
