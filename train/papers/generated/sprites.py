"""Drawn things of the generated benchmark: vehicles and people from a few polygons each, seen from the side.

A sprite is drawn four times too large and shrunk by area, so that its edge is as soft as a camera's. Sprites
are kept, since drawing them is most of the work of a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter

COLOURS = {
    "white": (236, 236, 232), "black": (26, 26, 30), "grey": (150, 152, 156), "red": (196, 34, 34),
    "blue": (36, 72, 190), "green": (32, 122, 58), "yellow": (228, 196, 40), "orange": (226, 120, 28),
    "brown": (110, 70, 38),
}  # fmt: skip
"""RGB of every colour that captions name."""

VARIANTS = 4
"""Shades of one colour."""

_OVER = 4
_SHADOW_ALPHA = 96
_ROLES = {
    "dark": (28, 28, 30), "glass": (62, 78, 92), "lamp": (240, 226, 170), "skin": (196, 150, 120),
    "metal": (96, 98, 102),
}  # fmt: skip
_TROUSERS = ((44, 46, 66), (72, 66, 58), (30, 30, 32), (92, 96, 110))


class Thing(BaseModel):
    """A class of things, see the head of ``things.yaml``."""

    share: float
    ground: frozenset[str]
    height: float
    aspect: float
    colours: tuple[str, ...]
    parts: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]
    discs: tuple[tuple[str, tuple[float, float, float]], ...]


THINGS = TypeAdapter(dict[str, Thing]).validate_python(
    yaml.safe_load(Path(__file__).with_name("things.yaml").read_text(encoding="utf-8"))
)
"""Every class that is drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Sprite:
    colour: NDArray[np.float32]  # RGB float32 ``(h, w, 3)``, 0..255
    # float32 ``(h, w, 1)``, 0..1, the share in which it covers what lies behind it
    alpha: NDArray[np.float32]


def sprite_size(label: str, person_height: float) -> tuple[int, int]:
    """``(width, height)`` in pixels of a thing where a person would be `person_height` pixels tall."""
    thing = THINGS[label]
    height = max(round(thing.height * person_height), 4)
    return max(round(height * thing.aspect), 3), height


@lru_cache(maxsize=4096)
def sprite(label: str, colour: str, size: tuple[int, int], flip: bool, variant: int) -> Sprite:
    """Draw a thing of ``(width, height)`` pixels; `variant` is a shade of the colour and the trousers."""
    thing, (width, height) = THINGS[label], (size[0] * _OVER, size[1] * _OVER)
    shade = 1.0 + 0.08 * (variant - (VARIANTS - 1) / 2)
    paint = tuple(min(255.0, c * shade + 4 * variant) for c in COLOURS[colour])
    roles = {**_ROLES, "paint": paint, "trousers": _TROUSERS[variant % len(_TROUSERS)]}
    canvas = np.zeros((height, width, 3), np.float32)
    alpha = np.zeros((height, width), np.uint8)
    _shadow(alpha, label)
    for role, points in thing.parts:
        corners = np.array([(x * width, y * height) for x, y in points]).round().astype(np.int32)
        cv2.fillPoly(canvas, [corners], roles[role])
        cv2.fillPoly(alpha, [corners], 255)
    for role, (x, y, radius) in thing.discs:
        middle = (round(x * width), round(y * height))
        cv2.circle(canvas, middle, max(round(radius * height), 1), roles[role], -1)
        cv2.circle(alpha, middle, max(round(radius * height), 1), 255, -1)
    lit = np.linspace(1.1, 0.88, height, dtype=np.float32)[:, None, None]
    cover = alpha.astype(np.float32)[..., None] / 255
    small = cv2.resize(np.concatenate([canvas * lit * cover, cover], 2), size, interpolation=cv2.INTER_AREA)
    small = small[:, ::-1] if flip else small
    seen = np.maximum(small[..., 3:], 1e-3)
    return Sprite(
        np.ascontiguousarray(small[..., :3] / seen).clip(0, 255), np.ascontiguousarray(small[..., 3:])
    )


def _shadow(alpha: NDArray[np.uint8], label: str) -> None:
    height, width = alpha.shape
    wide = 0.5 if label == "person" else 0.49
    axes = (round(wide * width), max(round(0.07 * height), 1))
    cv2.ellipse(alpha, (width // 2, round(0.93 * height)), axes, 0, 0, 360, _SHADOW_ALPHA, -1)
