"""Fixed cameras of the generated benchmark: what is always in the picture, and where things can stand.

Sprites are the things that stand there, drawn by the shapes of ``things.yaml``.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
import yaml
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, TypeAdapter

from pipeline.sources import Image

SURFACES = ("", "road", "parking lot", "sidewalk", "grass")  # by number; 0 is none
ROAD, LOT, SIDEWALK, GRASS = range(1, 5)

_GROUND_COLOURS = {ROAD: (98, 98, 102), LOT: (116, 114, 112), SIDEWALK: (168, 162, 152), GRASS: (96, 122, 72)}
_GRAIN = {ROAD: 5.0, LOT: 6.0, SIDEWALK: 5.0, GRASS: 9.0}
_LINE = (208, 206, 198)


Landmark = tuple[str, float, float]  # its noun, and its place ``(x, y)`` in pixels of the canvas


@dataclass(frozen=True, slots=True, eq=False)
class Scenery:
    name: str  # of the camera
    picture: Image  # RGB uint8 ``(H, W, 3)``
    ground: NDArray[np.uint8]  # uint8 ``(H, W)``, index into `SURFACES`
    landmarks: tuple[Landmark, ...]  # trees, lamp posts and buildings
    horizon: float  # row of the canvas above which nothing stands
    margin: int  # pixels of the canvas beyond each edge of the frame

    @property
    def side(self) -> int:
        return len(self.picture) - 2 * self.margin

    def person_height(self, y: float) -> float:
        depth = (y - self.horizon) / max(len(self.picture) - self.horizon, 1.0)
        return self.side * (0.06 + 0.085 * max(depth, 0.0))


@lru_cache(maxsize=256)
def scenery(seed: int, number: int, side: int) -> Scenery:
    """A camera's view; the same seed, number and side (of the frame, in pixels) give the same."""
    rng = np.random.default_rng([seed, 0xCA3E, number])
    margin = max(round(0.035 * side), 3)
    whole = side + 2 * margin
    horizon = rng.uniform(0.16, 0.26) * whole
    ground = np.zeros((whole, whole), np.uint8)
    picture = np.empty((whole, whole, 3), np.float32)
    picture[:] = np.array((150, 168, 190), np.float32) + rng.uniform(-25, 25)
    (_street, _lot, _avenue)[number % 3](ground, horizon, rng)
    for surface, colour in _GROUND_COLOURS.items():
        picture[ground == surface] = np.array(colour, np.float32) + rng.uniform(-12, 12)
    _markings(picture, ground, horizon, rng)
    landmarks = _buildings(picture, ground, horizon, rng)
    _texture(picture, ground, rng)
    landmarks += _plants(picture, ground, horizon, rng)
    light = rng.uniform(0.78, 1.08) * rng.uniform(0.95, 1.05, 3)
    lit = cv2.GaussianBlur(np.clip(picture * light, 0, 255).round().astype(np.uint8), (3, 3), 0)
    return Scenery(f"view{number:03d}", np.asarray(lit, np.uint8), ground, tuple(landmarks), horizon, margin)


def _fill(ground: NDArray[np.uint8], surface: int, corners: ArrayLike) -> None:
    cv2.fillPoly(ground, [np.asarray(corners).round().astype(np.int32)], surface)


def _bands(
    ground: NDArray[np.uint8], horizon: float, slope: float, surfaces: tuple[int, ...], *edges: float
) -> None:
    """Surfaces one below the other from the horizon on; the further ones begin at shares of the depth."""
    side, depth = len(ground), len(ground) - horizon
    for surface, edge in zip(surfaces, (0.0, *edges), strict=True):
        top, lean = horizon + edge * depth, slope * depth if edge else 0.0
        _fill(ground, surface, [(0, top - lean), (side, top + lean), (side, side), (0, side)])


def _street(ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator) -> None:
    slope = rng.uniform(-0.05, 0.05)
    far, near = (GRASS, LOT) if rng.random() < 0.5 else (SIDEWALK, GRASS)  # noqa: PLR2004
    edges = rng.uniform(0.1, 0.16), rng.uniform(0.42, 0.5), rng.uniform(0.6, 0.68)
    _bands(ground, horizon, slope, (far, ROAD, SIDEWALK, near), *edges)


def _lot(ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator) -> None:
    slope = rng.uniform(-0.06, 0.06)
    edges = rng.uniform(0.06, 0.1), rng.uniform(0.24, 0.3), rng.uniform(0.8, 0.88)
    _bands(ground, horizon, slope, (GRASS, ROAD, LOT, SIDEWALK), *edges)


def _avenue(ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator) -> None:
    """A road that runs away from the camera, sidewalks beside it, a parking lot or grass at the sides."""
    side = len(ground)
    middle, reach = rng.uniform(0.35, 0.65) * side, rng.uniform(0.26, 0.36) * side
    _bands(ground, horizon, 0.0, (GRASS,))
    lot = LOT if rng.random() < 0.5 else GRASS  # noqa: PLR2004
    left = rng.random() < 0.5  # noqa: PLR2004
    half = np.array([(0, horizon), (middle, horizon), (middle, side), (0, side)])
    _fill(ground, lot, half if left else half * (-1, 1) + (side, 0))
    for surface, wide in ((SIDEWALK, 1.45), (ROAD, 1.0)):
        near, far = reach * wide, 0.4 * reach * wide
        top = (middle - far, horizon), (middle + far, horizon)
        _fill(ground, surface, [*top, (middle + near, side), (middle - near, side)])


def _markings(
    picture: NDArray[np.float32], ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator
) -> None:
    side = len(ground)
    marked = np.zeros_like(ground)
    thick = max(round(side / 160), 1)
    lean = rng.uniform(-0.25, 0.25)
    for x in np.arange(-0.5, 1.5, rng.uniform(0.13, 0.18)):
        start, end = (round(x * side), side), (round((x + lean) * side), round(horizon))
        cv2.line(marked, start, end, LOT, thick)
    rows, columns = np.nonzero(ground == ROAD)
    if len(rows):
        for column in np.unique(columns)[:: max(side // 12, 1)]:
            own = rows[columns == column]
            y = round(float(own.mean()))
            cv2.line(marked, (int(column), y), (int(column) + side // 24, y), ROAD, thick)
    picture[(marked == ground) & (marked > 0)] = _LINE


def _buildings(
    picture: NDArray[np.float32], ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator
) -> list[Landmark]:
    side, left, result = len(ground), 0.0, list[Landmark]()
    while left < side:
        width, top = rng.uniform(0.16, 0.42) * side, rng.uniform(0.0, 0.45) * horizon
        wall = np.array(rng.uniform(95, 190, 3) * 0.4 + rng.uniform(95, 190) * 0.6, np.float32)
        rows, columns = slice(round(top), round(horizon)), slice(round(left), round(left + width))
        picture[rows, columns] = wall
        pitch = max(round(rng.uniform(0.04, 0.06) * side), 4)
        for y in range(rows.start + pitch // 2, rows.stop - pitch // 2, pitch):
            for x in range(columns.start + pitch // 2, min(columns.stop, side) - pitch // 2, pitch):
                picture[y : y + pitch // 2, x : x + pitch // 2] = wall * rng.uniform(0.45, 0.75)
        result.append(("building", left + width / 2, horizon))
        left += width + rng.uniform(0.0, 0.05) * side
    return result


def _texture(picture: NDArray[np.float32], ground: NDArray[np.uint8], rng: np.random.Generator) -> None:
    """Coarse blotches and fine grain: flat ground would give an encoder nothing to hold on to."""
    side = len(ground)
    coarse, small = (rng.standard_normal((n, n), np.float32) for n in (9, 112))
    blotches = cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC)
    fine = cv2.resize(small, (side, side), interpolation=cv2.INTER_LINEAR)
    grain = np.full(ground.shape, 2.0, np.float32)
    for surface, amount in _GRAIN.items():
        grain[ground == surface] = amount
    picture += (fine * grain + 5.0 * blotches)[..., None]


def _plants(
    picture: NDArray[np.float32], ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator
) -> list[Landmark]:
    side, result = len(ground), list[Landmark]()
    for name, surface, most in (("tree", GRASS, 4), ("lamp post", SIDEWALK, 2)):
        rows, columns = np.nonzero(ground == surface)
        if len(rows) == 0:
            continue
        chosen = rng.integers(len(rows), size=int(rng.integers(1, most + 1)))
        result += [(name, float(columns[k]), float(rows[k])) for k in chosen]
    for name, column, row in sorted(result, key=lambda mark: mark[2]):
        tall = side * (0.1 + 0.16 * (row - horizon) / (side - horizon))
        foot, top = (round(column), round(row)), (round(column), round(row - tall))
        if name == "lamp post":
            cv2.line(picture, foot, top, (70.0, 72.0, 74.0), max(round(tall / 24), 1))
            cv2.ellipse(picture, top, (max(round(tall / 10), 1), 1), 0, 0, 360, (232.0, 226.0, 200.0), -1)
        else:
            cv2.line(picture, foot, top, (84.0, 64.0, 46.0), max(round(tall / 12), 1))
            for _ in range(9):
                x, y = rng.normal(top[0], tall / 7), rng.normal(top[1], tall / 8)
                leaf = tuple(float(c * rng.uniform(0.8, 1.15)) for c in (62, 96, 48))
                cv2.circle(picture, (round(x), round(y)), max(round(tall / 6), 1), leaf, -1)
    return result


COLOURS = {
    "white": (236, 236, 232), "black": (26, 26, 30), "grey": (150, 152, 156), "red": (196, 34, 34),
    "blue": (36, 72, 190), "green": (32, 122, 58), "yellow": (228, 196, 40), "orange": (226, 120, 28),
    "brown": (110, 70, 38),
}  # fmt: skip
"""RGB of every colour that captions name."""

VARIANTS = 4  # shades of one colour
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
    alpha: NDArray[np.float32]  # float32 ``(h, w, 1)``, 0..1, how much it covers what lies behind


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
    shadow = round((0.5 if label == "person" else 0.49) * width), max(round(0.07 * height), 1)
    cv2.ellipse(alpha, (width // 2, round(0.93 * height)), shadow, 0, 0, 360, _SHADOW_ALPHA, -1)
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
    alphas = np.ascontiguousarray(small[..., 3:], np.float32)
    return Sprite(np.ascontiguousarray(small[..., :3] / np.maximum(alphas, 1e-3)).clip(0, 255), alphas)
