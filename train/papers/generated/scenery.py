"""Fixed cameras of the generated benchmark: what is always in the picture, and where things can stand."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.sources import Image

SURFACES = ("", "road", "parking lot", "sidewalk", "grass")
"""Names of the numbers in `Scenery.ground`; 0 is no ground."""
ROAD, LOT, SIDEWALK, GRASS = range(1, 5)

_GROUND_COLOURS = {ROAD: (98, 98, 102), LOT: (116, 114, 112), SIDEWALK: (168, 162, 152), GRASS: (96, 122, 72)}
_GRAIN = {ROAD: 5.0, LOT: 6.0, SIDEWALK: 5.0, GRASS: 9.0}
_LINE = (208, 206, 198)
_TEMPLATES = ("street", "lot", "avenue")


@dataclass(frozen=True, slots=True)
class Landmark:
    """Something that sentences can refer to: its noun, and its place ``(x, y)`` in pixels of the canvas."""

    name: str
    x: float
    y: float


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


def scenery(seed: int, number: int, side: int) -> Scenery:
    """A camera's view; the same seed, number and side (of the frame, in pixels) give the same."""
    rng = np.random.default_rng([seed, 0xCA3E, number])
    margin = max(round(0.035 * side), 3)
    whole = side + 2 * margin
    horizon = rng.uniform(0.16, 0.26) * whole
    ground = np.zeros((whole, whole), np.uint8)
    picture = np.empty((whole, whole, 3), np.float32)
    picture[:] = np.array((150, 168, 190), np.float32) + rng.uniform(-25, 25)
    {"street": _street, "lot": _lot, "avenue": _avenue}[_TEMPLATES[number % len(_TEMPLATES)]](
        ground, horizon, rng
    )
    for surface, colour in _GROUND_COLOURS.items():
        picture[ground == surface] = np.array(colour, np.float32) + rng.uniform(-12, 12)
    _markings(picture, ground, horizon, rng)
    landmarks = _buildings(picture, ground, horizon, rng)
    _texture(picture, ground, rng)
    landmarks += _plants(picture, ground, horizon, rng)
    light = rng.uniform(0.78, 1.08) * rng.uniform(0.95, 1.05, 3)
    lit = cv2.GaussianBlur(np.clip(picture * light, 0, 255).round().astype(np.uint8), (3, 3), 0)
    return Scenery(f"view{number:03d}", np.asarray(lit, np.uint8), ground, tuple(landmarks), horizon, margin)


def _band(ground: NDArray[np.uint8], surface: int, top: float, slope: float) -> None:
    side = len(ground)
    corners = np.array([(0, top - slope), (side, top + slope), (side, side), (0, side)])
    cv2.fillPoly(ground, [corners.round().astype(np.int32)], surface)


def _street(ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator) -> None:
    """Bands one below the other: grass or sidewalk, road, sidewalk, parking lot or grass."""
    depth = len(ground) - horizon
    slope = rng.uniform(-0.05, 0.05) * depth
    far, near = (GRASS, LOT) if rng.random() < 0.5 else (SIDEWALK, GRASS)  # noqa: PLR2004
    edges = (0.0, rng.uniform(0.1, 0.16), rng.uniform(0.42, 0.5), rng.uniform(0.6, 0.68))
    for surface, edge in zip((far, ROAD, SIDEWALK, near), edges, strict=True):
        _band(ground, surface, horizon + edge * depth, slope if edge else 0.0)


def _lot(ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator) -> None:
    depth = len(ground) - horizon
    slope = rng.uniform(-0.06, 0.06) * depth
    edges = (0.0, rng.uniform(0.06, 0.1), rng.uniform(0.24, 0.3), rng.uniform(0.8, 0.88))
    for surface, edge in zip((GRASS, ROAD, LOT, SIDEWALK), edges, strict=True):
        _band(ground, surface, horizon + edge * depth, slope if edge else 0.0)


def _avenue(ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator) -> None:
    """A road that runs away from the camera, sidewalks beside it, a parking lot or grass at the sides."""
    side = len(ground)
    middle, reach = rng.uniform(0.35, 0.65) * side, rng.uniform(0.26, 0.36) * side
    _band(ground, GRASS, horizon, 0.0)
    lot = LOT if rng.random() < 0.5 else GRASS  # noqa: PLR2004
    left = rng.random() < 0.5  # noqa: PLR2004
    half = np.array([(0, horizon), (middle, horizon), (middle, side), (0, side)])
    half = half if left else half * (-1, 1) + (side, 0)
    cv2.fillPoly(ground, [half.round().astype(np.int32)], lot)
    for surface, wide in ((SIDEWALK, 1.45), (ROAD, 1.0)):
        near, far = reach * wide, 0.4 * reach * wide
        corners = [
            (middle - far, horizon),
            (middle + far, horizon),
            (middle + near, side),
            (middle - near, side),
        ]
        cv2.fillPoly(ground, [np.array(corners).round().astype(np.int32)], surface)


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
    side, left, result = len(ground), 0.0, []
    while left < side:
        width, top = rng.uniform(0.16, 0.42) * side, rng.uniform(0.0, 0.45) * horizon
        wall = np.array(rng.uniform(95, 190, 3) * 0.4 + rng.uniform(95, 190) * 0.6, np.float32)
        rows, columns = slice(round(top), round(horizon)), slice(round(left), round(left + width))
        picture[rows, columns] = wall
        pitch = max(round(rng.uniform(0.04, 0.06) * side), 4)
        for y in range(rows.start + pitch // 2, rows.stop - pitch // 2, pitch):
            for x in range(columns.start + pitch // 2, min(columns.stop, side) - pitch // 2, pitch):
                picture[y : y + pitch // 2, x : x + pitch // 2] = wall * rng.uniform(0.45, 0.75)
        result.append(Landmark("building", left + width / 2, horizon))
        left += width + rng.uniform(0.0, 0.05) * side
    return result


def _texture(picture: NDArray[np.float32], ground: NDArray[np.uint8], rng: np.random.Generator) -> None:
    """Coarse blotches and fine grain: flat ground would give an encoder nothing to hold on to."""
    side = len(ground)
    blotches = cv2.resize(
        rng.standard_normal((9, 9), np.float32), (side, side), interpolation=cv2.INTER_CUBIC
    )
    fine = cv2.resize(
        rng.standard_normal((112, 112), np.float32), (side, side), interpolation=cv2.INTER_LINEAR
    )
    grain = np.full(ground.shape, 2.0, np.float32)
    for surface, amount in _GRAIN.items():
        grain[ground == surface] = amount
    picture += (fine * grain + 5.0 * blotches)[..., None]


def _plants(
    picture: NDArray[np.float32], ground: NDArray[np.uint8], horizon: float, rng: np.random.Generator
) -> list[Landmark]:
    side, result = len(ground), []
    for name, surface, most in (("tree", GRASS, 4), ("lamp post", SIDEWALK, 2)):
        rows, columns = np.nonzero(ground == surface)
        if len(rows) == 0:
            continue
        chosen = rng.integers(len(rows), size=int(rng.integers(1, most + 1)))
        result += [Landmark(name, float(columns[k]), float(rows[k])) for k in chosen]
    for mark in sorted(result, key=lambda m: m.y):
        tall = side * (0.1 + 0.16 * (mark.y - horizon) / (side - horizon))
        foot, top = (round(mark.x), round(mark.y)), (round(mark.x), round(mark.y - tall))
        if mark.name == "lamp post":
            cv2.line(picture, foot, top, (70.0, 72.0, 74.0), max(round(tall / 24), 1))
            cv2.ellipse(picture, top, (max(round(tall / 10), 1), 1), 0, 0, 360, (232.0, 226.0, 200.0), -1)
        else:
            cv2.line(picture, foot, top, (84.0, 64.0, 46.0), max(round(tall / 12), 1))
            for _ in range(9):
                x, y = rng.normal(top[0], tall / 7), rng.normal(top[1], tall / 8)
                leaf = tuple(float(c * rng.uniform(0.8, 1.15)) for c in (62, 96, 48))
                cv2.circle(picture, (round(x), round(y)), max(round(tall / 6), 1), leaf, -1)
    return result
