"""Frames whose pictures are decoded already, and pairs of a grey room in which a box stands or does not."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from pipeline.distance import l2_rgb
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame, Image
from pipeline.sources.frame import LazyPicture, shrink

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Still:
    image: Image

    def rgb(self) -> Image:
        return self.image

    def small(self, width: int) -> Image:
        return shrink(self.image, width)

    def release(self) -> None:
        """It is held as it is."""


def shown(image: Image, second: float = 0.0, camera: str = "yard", **other: Any) -> Frame:
    """The frame of a picture so many seconds after noon, of which one channel is the plane.

    `other` are further fields, or these in another way.
    """
    made = {"camera": camera, "time": NOON + timedelta(seconds=second), "clock": Clock.FILE}
    made |= {"pts": int(1000 * second), "luma": image[..., 0].copy(), "picture": Still(image)}
    return Frame(**made | other)


def undecodable() -> np.ndarray:
    """Its error names a camera with its password."""
    raise ValueError("rtsp://admin:hunter2@10.0.0.5/ cannot be decoded")


def frame(second: float, *, box: bool, clock: Clock = Clock.FILE, broken: bool = False) -> Frame:
    image = np.full((240, 320, 3), 90, np.uint8)
    if box:
        image[70:130, 130:190] = 230
    other = {"picture": LazyPicture(undecodable)} if broken else {}
    return shown(image, second, "room", clock=clock, pts=round(second), **other)


def pair(second: float, *, comes: bool = True, clock: Clock = Clock.FILE, broken: bool = False) -> FramePair:
    """The box comes, or goes, within four seconds; of a broken pair the second picture cannot be read."""
    before = frame(second, box=not comes, clock=clock)
    after = frame(second + 4, box=comes, clock=clock, broken=broken)
    l2, *_ = l2_rgb(before.image, frame(second + 4, box=comes).image)
    return FramePair(before, after, l2)
