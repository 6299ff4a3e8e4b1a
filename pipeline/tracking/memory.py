"""The last seconds of a camera, by which events are checked: small grey pictures."""

import math
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from pipeline import settings
from pipeline.tracking.tracks import Floats

# its stub wants the points that it is asked for
_lucas_kanade: Any = partial(cv2.calcOpticalFlowPyrLK, winSize=(13, 13), maxLevel=3)


@dataclass(slots=True)
class Memory:
    """Frames of the last `MEMORY_S`: seconds, and grey pictures uint8 ``(h, MEMORY_PIXELS)``."""

    frames: deque[tuple[float, NDArray[np.uint8]]] = field(default_factory=deque)
    compared_s: float = -math.inf  # when `turned` looked last

    def add(self, time_s: float, image: NDArray[np.uint8]) -> None:
        width = settings.MEMORY_PIXELS
        size = (width, max(2, round(image.shape[0] * width / image.shape[1])))
        grey = cv2.resize(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), size, interpolation=cv2.INTER_AREA)
        self.frames.append((time_s, np.asarray(grey, np.uint8)))
        while self.frames[0][0] < time_s - settings.MEMORY_S:
            self.frames.popleft()

    def between(self, start_s: float, end_s: float) -> list[NDArray[np.uint8]]:
        return [grey for time_s, grey in self.frames if start_s - 1e-3 <= time_s <= end_s + 1e-3]

    def likeness(self, box: Box, one_s: float, two_s: float) -> float:
        """Correlation -1..1 of what a place and its rim showed at two moments, the nearest frames."""
        return correlation(self._patch(box, one_s), self._patch(box, two_s))

    def _patch(self, box: Box, time_s: float) -> Floats:
        grey = min(self.frames, key=lambda frame: abs(frame[0] - time_s))[1]
        height, width = grey.shape
        (x, y, w, h), rim = box, settings.RIM_SIZES
        left, right = (min(max(int(v * width), 0), width - 1) for v in (x - rim * w, x + w + rim * w))
        top, low = (min(max(int(v * height), 0), height - 1) for v in (y - rim * h, y + h + rim * h))
        return grey[top : low + 1, left : right + 1].astype(np.float64)

    def turned(self) -> bool:
        """True where most of the picture, not only what moves in it, lies elsewhere than a moment ago.

        Of five frames a second every other one is looked at.
        """
        now_s = self.frames[-1][0]
        earlier = self.between(now_s - 2 * settings.CAMERA_TURN_S, now_s - settings.CAMERA_TURN_S)
        if not earlier or now_s < self.compared_s + settings.CAMERA_TURN_S - settings.JITTER_S:
            return False
        self.compared_s = now_s
        one, two = (cv2.resize(grey, None, fx=0.5, fy=0.5) for grey in (earlier[-1], self.frames[-1][1]))
        points: Any = cv2.goodFeaturesToTrack(one, maxCorners=100, qualityLevel=0.01, minDistance=6)
        if points is None:  # a blank picture
            return False
        there, _, _ = _lucas_kanade(one, two, points, None)
        back, _, _ = _lucas_kanade(two, one, there, None)
        misses = settings.CAMERA_TURN_MISSES_PIXELS
        found = np.abs(back - points).max(axis=(1, 2)) < misses
        if found.sum() < settings.CAMERA_TURN_POINTS:
            return False
        view, alike = cv2.estimateAffinePartial2D(points[found], there[found], ransacReprojThreshold=misses)
        if view is None or alike.mean() < settings.CAMERA_TURN_SHARE:
            return False
        height, width = one.shape
        across, down = np.ptp(points[found][alike.ravel() > 0, 0], axis=0)
        if min(across / width, down / height) < settings.CAMERA_TURN_SPREAD:
            return False  # something large moves
        corners = np.array([(0, 0), (width, 0), (0, height), (width, height)], np.float64)
        moved = np.hypot(*(corners @ view[:, :2].T + view[:, 2] - corners).T)
        return bool(moved.mean() >= settings.CAMERA_TURN_PIXELS)

    def flow(self, box: Box, start_s: float, end_s: float) -> float:
        """Follow a place by sparse optical flow (pyramidal Lucas-Kanade), also back in time.

        Returns the share 0..1 of its points that are found all the way and back again; 0 where none is.
        """
        frames = self.between(*sorted((start_s, end_s)))
        frames = frames if end_s >= start_s else frames[::-1]
        if len(frames) < 2:  # noqa: PLR2004 - nothing to compare
            return 0.0
        height, width = frames[0].shape
        across, down = np.meshgrid(*[np.linspace(0.2, 0.8, 5)] * 2)
        start = np.stack([box[0] + across * box[2], box[1] + down * box[3]], -1).reshape(-1, 1, 2)
        start = np.asarray(start * (width, height), np.float32)
        points, reach = start, 40  # pixels around them: pyramids of whole frames are slow
        for one, two in pairwise(frames):
            low = (points.min((0, 1)) - reach).clip(0).astype(int)
            high = (points.max((0, 1)) + reach + 1).clip(max=(width, height)).astype(int)
            part = np.s_[low[1] : high[1], low[0] : high[0]]
            corner = low.astype(np.float32)
            there, result, _ = _lucas_kanade(one[part], two[part], points - corner, None)
            back, again, _ = _lucas_kanade(two[part], one[part], there, None)
            there, back = there + corner, back + corner
            alive = (result.ravel() > 0) & (again.ravel() > 0)
            alive &= np.abs(back - points).max(axis=(1, 2)) < settings.FLOW_BACK_PIXELS
            alive &= ((there >= 0) & (there < (width, height))).all(axis=(1, 2))
            points = there[alive]
            if not len(points):
                return 0.0
        return len(points) / len(start)


def correlation(one: Floats, two: Floats) -> float:
    """Correlation -1..1 of the grey levels of a place at two moments; 1 where both are without structure."""
    one, two = one - one.mean(), two - two.mean()
    norms = float(np.linalg.norm(one)), float(np.linalg.norm(two))
    return float((one * two).sum()) / (norms[0] * norms[1]) if all(norms) else float(norms[0] == norms[1])
