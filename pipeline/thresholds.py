"""Lower and upper threshold of a camera, calibrated from its own footage.

Spot-the-diff (Jhamtani and Berg-Kirkpatrick 2018, section 2) keeps the frame pairs whose L2 distance lies
between a lower and an upper threshold that its authors set by hand, one pair for all videos. Here they are
found per camera. Departure: the lower threshold is compared with the *peak* over blocks of the distance
map, because a person who covers 0.1 % of the frame hardly moves the distance of the whole frame.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline import settings
from pipeline.distance import l2_luma
from pipeline.sources import Frame

_HELD = 4096  # distance maps held at most: hours of footage are thinned evenly


@dataclass(frozen=True, slots=True)
class PairThresholds:
    """The band in which two frames are a candidate pair, in grey levels 0..255.

    They are of different kinds, so that lower may exceed upper; ValueError where one is out of range.
    """

    lower: float = 20.0  # the largest L2 distance over blocks must exceed this, else nothing changed
    upper: float = 50.0  # an L2 distance of the whole frame beyond this is an event of the whole scene

    def __post_init__(self) -> None:
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            if not 0.0 < value <= 255.0:  # noqa: PLR2004 - the range of uint8
                raise ValueError(f"the {name} threshold {value} is not within 0..255 grey levels")


def calibrate(frames: Iterable[Frame], block: int = settings.SCREENING_BLOCK) -> PairThresholds | None:
    """Thresholds of a camera from its sampled footage, quiet or busy, by day or night; None of too little.

    The noise is read off consecutive samples, in blocks (of `block` analysis pixels) whose distance is steady
    over time (noise is, passers-by are not) and no more than three times that of the quietest quarter of the
    frame (steady traffic is): the 90 % quantile over these blocks of their median over time. Then ``lower = 8
    + 1.5 noise`` within `LOWER_BOUNDS` (beyond them only where most of the frame is that noisy) and ``upper =
    2.5 x`` the 95 % quantile of the whole-frame distance within `UPPER_BOUNDS`. Only luma is looked at, of
    `MIN_FRAMES` frames or more; at most 4,096 distance maps and two frames are held.
    """
    distances: list[float] = []
    maps: list[NDArray[np.float32]] = []
    stride = 1
    for number, (before, after) in enumerate(pairwise(frames)):
        if number % stride or before.luma.shape != after.luma.shape:
            continue
        distance, blocks = l2_luma(before.luma, after.luma, block)
        if maps and maps[-1].shape != blocks.shape:  # another resolution: the maps cannot be compared
            distances, maps = [], []
        distances.append(distance)
        maps.append(blocks)
        if len(maps) > _HELD:
            distances, maps, stride = distances[::2], maps[::2], 2 * stride
    if len(maps) < settings.MIN_FRAMES - 1:
        return None
    noise, floor = _noise(np.stack(maps).reshape(len(maps), -1))
    (least, most), factor = settings.LOWER_BOUNDS, settings.NOISE_FACTOR
    lower = float(np.clip(settings.LIGHT_DRIFT_LEVELS + factor * noise, least, max(most, factor * floor)))
    busy = round(float(np.quantile(distances, settings.ACTIVITY_QUANTILE)), 3)
    upper = float(np.clip(settings.ACTIVITY_FACTOR * busy, *settings.UPPER_BOUNDS))
    return PairThresholds(round(lower, 2), round(upper, 2))


def _noise(blocks: NDArray[np.float32]) -> tuple[float, float]:
    """Noise of the quiet blocks, and the level that three quarters of all blocks lie above, in grey levels.

    `blocks`: L2 distance of consecutive samples, float32 ``(time, blocks)``.
    """
    quartile, median = np.quantile(blocks, (0.25, 0.5), axis=0)
    floor = float(np.quantile(quartile, 0.25))
    steady = median <= settings.QUIET_RATIO * np.maximum(quartile, 1.0)
    quiet = steady & (quartile <= settings.NOISE_SPREAD * max(floor, 1.0))
    return float(np.quantile(median[quiet] if quiet.any() else quartile, settings.NOISE_QUANTILE)), floor
