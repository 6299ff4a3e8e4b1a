"""The last seconds of a camera, by which events are checked: small grey pictures and weak detections."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, overlaps
from pipeline.tracking.appearance import grey_plane
from pipeline.tracking.types import Detections, Floats

WIDTH = 320
MEMORY_S = 6.0

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

    def unused_score(self, box: Box, start_s: float, end_s: float) -> float:
        """Best score of a detection at a place that belongs to no track, 0..1."""
        best = 0.0
        for frame in self.between(start_s, end_s):
            if len(frame.boxes):
                there = (overlaps([box], frame.boxes)[0] > 0.3) & ~frame.used  # noqa: PLR2004
                best = max(best, float(frame.scores[there].max(initial=0.0)))
        return best
