"""Drawn things of the generated benchmark: vehicles and people from a few polygons each, seen from the side.

A sprite is drawn four times too large and shrunk by area, so that its edge is as soft as a camera's. Sprites
are kept, since drawing them is most of the work of a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

CanvasPoint = tuple[float, float]

COLOURS: dict[str, tuple[int, int, int]] = {
    "white": (236, 236, 232),
    "black": (26, 26, 30),
    "grey": (150, 152, 156),
    "red": (196, 34, 34),
    "blue": (36, 72, 190),
    "green": (32, 122, 58),
    "yellow": (228, 196, 40),
    "orange": (226, 120, 28),
    "brown": (110, 70, 38),
}
"""RGB of every colour that is told."""

VARIANTS = 4
"""Shades of one colour."""

_OVER = 4
_SHADOW_ALPHA = 96
_ROLES = {
    "dark": (28, 28, 30),
    "glass": (62, 78, 92),
    "lamp": (240, 226, 170),
    "skin": (196, 150, 120),
    "metal": (96, 98, 102),
}
_TROUSERS = ((44, 46, 66), (72, 66, 58), (30, 30, 32), (92, 96, 110))


@dataclass(frozen=True, slots=True)
class Shape:
    height: float  # as a share of the height of a person at the same place
    aspect: float  # width over height
    # polygons in order, each with the role that gives its colour; ``(x, y)`` in 0..1 of the box, y downwards
    parts: tuple[tuple[str, tuple[CanvasPoint, ...]], ...]
    # ``(x, y, radius)``, the radius as a share of the height, each with its role; drawn last
    discs: tuple[tuple[str, tuple[float, float, float]], ...]
    colours: tuple[str, ...]  # those in which it comes


_PAINTS = ("white", "black", "grey", "red", "blue", "green", "yellow")
_CLOTHES = ("white", "black", "red", "blue", "green", "yellow", "orange")
_WHEEL, _HUB = 0.15, 0.06


def _wheels(*across: float) -> tuple[tuple[str, tuple[float, float, float]], ...]:
    return tuple(
        (role, (x, 0.84, radius)) for x in across for role, radius in (("dark", _WHEEL), ("metal", _HUB))
    )


def _alone(points: tuple[CanvasPoint, ...]) -> tuple[CanvasPoint, ...]:
    """A part of the cyclist's bicycle, as high as its box where nobody rides it."""
    return tuple((x, (y - 0.4) / 0.6) for x, y in points)


def _box(left: float, top: float, right: float, bottom: float) -> tuple[CanvasPoint, ...]:
    return ((left, top), (right, top), (right, bottom), (left, bottom))


_PERSON_PARTS = (
    ("trousers", ((0.28, 0.52), (0.5, 0.52), (0.44, 0.99), (0.2, 0.99))),
    ("trousers", ((0.5, 0.52), (0.72, 0.52), (0.84, 0.99), (0.6, 0.99))),
    ("paint", ((0.24, 0.2), (0.76, 0.2), (0.74, 0.58), (0.26, 0.58))),
    ("paint", ((0.24, 0.21), (0.06, 0.5), (0.16, 0.54), (0.34, 0.3))),
    ("paint", ((0.76, 0.21), (0.94, 0.48), (0.84, 0.53), (0.66, 0.3))),
)
_FRAME_PARTS = (
    ("metal", ((0.2, 0.8), (0.42, 0.5), (0.46, 0.5), (0.24, 0.82))),
    ("paint", ((0.4, 0.5), (0.74, 0.5), (0.74, 0.55), (0.4, 0.55))),
    ("paint", ((0.4, 0.5), (0.54, 0.8), (0.58, 0.78), (0.45, 0.5))),
    ("paint", ((0.7, 0.5), (0.53, 0.8), (0.57, 0.82), (0.75, 0.54))),
    ("metal", ((0.7, 0.42), (0.75, 0.42), (0.86, 0.8), (0.81, 0.82))),
    ("dark", _box(0.34, 0.44, 0.48, 0.5)),
)

SHAPES: dict[str, Shape] = {
    "person": Shape(1.0, 0.42, _PERSON_PARTS, (("skin", (0.5, 0.1, 0.095)),), _CLOTHES),
    "car": Shape(
        0.85,
        2.15,
        (
            (
                "paint",
                (
                    *((0.02, 0.48), (0.18, 0.42), (0.31, 0.02), (0.71, 0.02)),
                    *((0.86, 0.42), (0.98, 0.5), (0.99, 0.82), (0.01, 0.82)),
                ),
            ),
            ("glass", ((0.25, 0.43), (0.34, 0.12), (0.5, 0.12), (0.5, 0.43))),
            ("glass", ((0.54, 0.43), (0.54, 0.12), (0.68, 0.12), (0.79, 0.43))),
            ("lamp", _box(0.95, 0.54, 0.99, 0.62)),
        ),
        _wheels(0.2, 0.8),
        _PAINTS,
    ),
    "van": Shape(
        1.2,
        1.9,
        (
            ("paint", ((0.01, 0.08), (0.72, 0.08), (0.9, 0.42), (0.99, 0.5), (0.99, 0.84), (0.01, 0.84))),
            ("glass", ((0.62, 0.42), (0.62, 0.15), (0.71, 0.15), (0.85, 0.42))),
            ("lamp", _box(0.95, 0.56, 0.99, 0.64)),
        ),
        _wheels(0.2, 0.8),
        ("white", "black", "blue", "red", "yellow"),
    ),
    "truck": Shape(
        1.55,
        2.1,
        (
            ("paint", _box(0.01, 0.04, 0.68, 0.74)),
            ("dark", _box(0.01, 0.74, 0.98, 0.84)),
            ("metal", ((0.71, 0.22), (0.92, 0.22), (0.99, 0.5), (0.99, 0.8), (0.71, 0.8))),
            ("glass", ((0.8, 0.28), (0.9, 0.28), (0.95, 0.48), (0.8, 0.48))),
        ),
        _wheels(0.14, 0.32, 0.84),
        ("white", "blue", "orange", "green", "red"),
    ),
    "bus": Shape(
        1.6,
        2.9,
        (
            ("paint", ((0.01, 0.06), (0.97, 0.06), (0.99, 0.3), (0.99, 0.86), (0.01, 0.86))),
            *(("glass", _box(x, 0.17, x + 0.12, 0.46)) for x in (0.04, 0.19, 0.34, 0.49, 0.64)),
            ("glass", _box(0.8, 0.17, 0.98, 0.56)),
        ),
        _wheels(0.18, 0.82),
        ("red", "white", "yellow", "green", "blue"),
    ),
    "bicycle": Shape(
        0.72,
        1.55,
        tuple((role, _alone(points)) for role, points in _FRAME_PARTS),
        (
            *(("dark", (x, 0.72, 0.27)) for x in (0.2, 0.82)),
            *(("metal", (x, 0.72, 0.19)) for x in (0.2, 0.82)),
        ),
        ("red", "black", "blue"),
    ),
    "cyclist": Shape(
        1.12,
        0.85,
        (
            *_FRAME_PARTS,
            ("trousers", ((0.36, 0.42), (0.52, 0.42), (0.6, 0.76), (0.5, 0.78))),
            ("paint", ((0.32, 0.44), (0.54, 0.16), (0.68, 0.2), (0.52, 0.48))),
            ("paint", ((0.6, 0.2), (0.76, 0.42), (0.7, 0.45), (0.56, 0.28))),
        ),
        (*_wheels(0.2, 0.82), ("skin", (0.66, 0.1, 0.085))),
        ("yellow", "red", "white", "blue"),
    ),
}
"""Every class that is drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Sprite:
    colour: NDArray[np.float32]  # RGB float32 ``(h, w, 3)``, 0..255
    # float32 ``(h, w, 1)``, 0..1, the share in which it covers what lies behind it
    alpha: NDArray[np.float32]


def sprite_size(label: str, person_height: float) -> tuple[int, int]:
    """``(width, height)`` in pixels of a thing where a person would be `person_height` pixels tall."""
    shape = SHAPES[label]
    height = max(round(shape.height * person_height), 4)
    return max(round(height * shape.aspect), 3), height


@lru_cache(maxsize=4096)
def sprite(label: str, colour: str, size: tuple[int, int], flip: bool, variant: int) -> Sprite:
    """Draw a thing.

    Args:
        size: ``(width, height)`` in pixels.
        variant: 0..`VARIANTS` - 1, a shade of the colour and the trousers.
    """
    shape, (width, height) = SHAPES[label], (size[0] * _OVER, size[1] * _OVER)
    shade = 1.0 + 0.08 * (variant - (VARIANTS - 1) / 2)
    paint = tuple(min(255.0, c * shade + 4 * variant) for c in COLOURS[colour])
    roles = {**_ROLES, "paint": paint, "trousers": _TROUSERS[variant % len(_TROUSERS)]}
    canvas = np.zeros((height, width, 3), np.float32)
    alpha = np.zeros((height, width), np.uint8)
    _shadow(alpha, label)
    for role, points in shape.parts:
        corners = np.array([(x * width, y * height) for x, y in points]).round().astype(np.int32)
        cv2.fillPoly(canvas, [corners], roles[role])
        cv2.fillPoly(alpha, [corners], 255)
    for role, (x, y, radius) in shape.discs:
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
