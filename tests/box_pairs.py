"""Frames of a grey room in which a box stands or does not, and the pairs that they make."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from pipeline.distance import l2_rgb
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame

START = datetime(2024, 3, 1, tzinfo=UTC)


class Still:
    """A picture; one that is broken names a camera with its password in its error."""

    def __init__(self, image: np.ndarray, *, broken: bool = False) -> None:
        self._image, self._broken = image, broken

    def rgb(self) -> np.ndarray:
        if self._broken:
            raise ValueError("rtsp://admin:hunter2@10.0.0.5/ cannot be decoded")
        return self._image

    def release(self) -> None:
        """It is held as it is."""


def frame(second: float, *, box: bool, clock: Clock = Clock.FILE, broken: bool = False) -> Frame:
    image = np.full((240, 320, 3), 90, np.uint8)
    if box:
        image[70:130, 130:190] = 230
    time = START + timedelta(seconds=second)
    return Frame("room", time, clock, round(second), image[..., 0].copy(), Still(image, broken=broken))


def pair(second: float, *, comes: bool = True, clock: Clock = Clock.FILE, broken: bool = False) -> FramePair:
    """The box comes, or goes, within four seconds; of a broken pair the second picture cannot be read."""
    before = frame(second, box=not comes, clock=clock)
    after = frame(second + 4, box=comes, clock=clock, broken=broken)
    l2, *_ = l2_rgb(before.image, frame(second + 4, box=comes).image)
    return FramePair(before, after, l2)
