"""Pictures of a gate that slides open."""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from models.language.places import Door

Picture = NDArray[np.uint8]
HEIGHT, WIDTH = 240, 320
LEFT, TOP, RIGHT, LOW = 120, 60, 200, 180
GATE = Door("the gate", ((0.375, 0.25), (0.625, 0.25), (0.625, 0.75), (0.375, 0.75)))


@lru_cache(maxsize=128)
def scene(opened: float = 0.0, *, light: float = 1.0, shift: int = 0, seed: int = 1) -> Picture:
    """A wall of stones with a gate of bars, slid open by a share, before a dark yard with a bright window.

    The same picture is drawn once: nobody may write on it.
    """
    random = np.random.default_rng(seed)
    stones = cv2.resize(random.uniform(90, 150, (24, 32)), (WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST)
    stones[TOP:LOW, LEFT:RIGHT] = 40
    stones[80:110, 150:180] = 170
    leaf = np.full((LOW - TOP, RIGHT - LEFT), 110.0)
    leaf[:, ::10] = leaf[::40] = 190
    wide = round((RIGHT - LEFT) * (1 - opened))
    stones[TOP:LOW, LEFT : LEFT + wide] = leaf[:, RIGHT - LEFT - wide :]
    noise = np.random.default_rng(round(1000 * (opened + light) + shift)).normal(0, 1.5, stones.shape)
    noisy = np.roll(stones, shift, 1) * light + noise
    picture = np.repeat(noisy.clip(0, 255).astype(np.uint8)[..., None], 3, 2)
    picture.flags.writeable = False
    return picture
