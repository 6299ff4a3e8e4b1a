"""The last seconds of a camera, by which events are checked: small grey pictures and weak detections."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, overlaps
from pipeline.tracking.appearance import grey_plane
from pipeline.tracking.types import Detections, Floats

_lucas_kanade: Any = cv2.calcOpticalFlowPyrLK  # its stub wants the points that it is asked for

WIDTH = 320
MEMORY_S = 6.0

_POINTS = 5  # rows and columns of points in a box
_WINDOW = (13, 13)  # pixels of a picture `WIDTH` wide
_BACK = 1.5  # pixels that the way back may miss
_CHANGED = 20.0  # grey levels that count as one


@dataclass(frozen=True, slots=True, eq=False)
class FrameMemory:
    """What is kept of a frame.

    Attributes:
        time_s: when.
        grey: uint8 ``(h, WIDTH)``.
        boxes, scores: its detections.
        used: which of them belong to a track.
    """

    time_s: float
    grey: NDArray[np.uint8]
    boxes: Floats
    scores: Floats
    used: NDArray[np.bool_]

    @classmethod
    def of(
        cls, time_s: float, image: NDArray[np.uint8], found: Detections, used: NDArray[np.bool_]
    ) -> FrameMemory:
        """From a frame."""
        return cls(time_s, grey_plane(image, WIDTH), found.boxes, found.scores, used)


@dataclass(slots=True)
class Memory:
    """Frames of the last `MEMORY_S`."""

    frames: deque[FrameMemory] = field(default_factory=deque)

    def add(self, frame: FrameMemory) -> None:
        """Take the latest, forget the oldest."""
        self.frames.append(frame)
        while self.frames[0].time_s < frame.time_s - MEMORY_S:
            self.frames.popleft()

    def nearest(self, time_s: float) -> FrameMemory:
        """The frame of about this moment."""
        return min(self.frames, key=lambda frame: abs(frame.time_s - time_s))

    def between(self, start_s: float, end_s: float) -> list[FrameMemory]:
        """Frames from one moment to another, both included."""
        return [frame for frame in self.frames if start_s - 1e-3 <= frame.time_s <= end_s + 1e-3]

    def changed(self, box: Box, before_s: float, after_s: float) -> float:
        """How much the pixels of a place differ between two moments beyond the rest of the frame, 0..3."""
        one, two = self.nearest(before_s).grey, self.nearest(after_s).grey
        if one.shape != two.shape:
            return 0.0
        step = two.astype(np.float32) - one
        height, width = step.shape
        left, top = max(int(box[0] * width), 0), max(int(box[1] * height), 0)
        right, low = (
            max(int((box[0] + box[2]) * width), left + 1),
            max(int((box[1] + box[3]) * height), top + 1),
        )
        place = np.abs(step[top:low, left:right] - np.median(step[::4, ::4]))
        return float(np.minimum(place, 3 * _CHANGED).mean() / _CHANGED) if place.size else 0.0

    def flow(self, box: Box, start_s: float, end_s: float) -> tuple[float, float, float]:
        """Follow a place by sparse optical flow (pyramidal Lucas-Kanade), also back in time.

        Returns:
            Share 0..1 of its points that are found all the way and back again, and their median step, x and
            y in shares of the frame; 0 where none is.
        """
        frames = self.between(*sorted((start_s, end_s)))
        frames = frames if end_s >= start_s else frames[::-1]
        if len(frames) < 2:  # noqa: PLR2004 - nothing to compare
            return 0.0, 0.0, 0.0
        height, width = frames[0].grey.shape
        across, down = np.meshgrid(*(np.linspace(0.2, 0.8, _POINTS),) * 2)
        start = np.stack([box[0] + across * box[2], box[1] + down * box[3]], -1).reshape(-1, 1, 2)
        start = np.asarray(start * (width, height), np.float32)
        points, alive = start, np.ones(len(start), bool)
        for one, two in pairwise(frame.grey for frame in frames):
            there, found, _ = _lucas_kanade(one, two, points, None, winSize=_WINDOW, maxLevel=3)
            back, again, _ = _lucas_kanade(two, one, there, None, winSize=_WINDOW, maxLevel=3)
            alive &= (found.ravel() > 0) & (again.ravel() > 0)
            alive &= np.abs(back - points).max(axis=(1, 2)) < _BACK
            alive &= ((there >= 0) & (there < (width, height))).all(axis=(1, 2))
            points = there
        if not alive.any():
            return 0.0, 0.0, 0.0
        dx, dy = np.median((points - start)[alive, 0], axis=0) / (width, height)
        return float(alive.mean()), float(dx), float(dy)

    def unused_score(self, box: Box, start_s: float, end_s: float) -> float:
        """Best score of a detection at a place that belongs to no track, 0..1."""
        best = 0.0
        for frame in self.between(start_s, end_s):
            if len(frame.boxes):
                there = (overlaps([box], frame.boxes)[0] > 0.3) & ~frame.used  # noqa: PLR2004
                best = max(best, float(frame.scores[there].max(initial=0.0)))
        return best
