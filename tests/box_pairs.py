"""Frames of a grey room in which a box stands or does not, and the pairs that they make."""

import numpy as np
from still import shown

from pipeline.distance import l2_rgb
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame
from pipeline.sources.frame import LazyPicture


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
