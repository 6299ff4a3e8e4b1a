"""Drawing a staged pair: both frames, the boxes of what changes, and how the camera differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from pipeline.sources import Image
from train.papers.generated.scenery import Scenery
from train.papers.generated.sprites import sprite
from train.papers.generated.stage import Prop, Stage

LabelMap = NDArray[np.uint8]
Matrix = NDArray[np.float64]
CameraKind = Literal["still", "light", "view", "shift"]
"""Camera motion or light between the frames; still: noise only."""

_COVERED = 0.25
_GRAIN = 2.0
_TURN, _SHADE = 2.0, 0.6


@dataclass(frozen=True, slots=True)
class Viewpoint:
    kind: CameraKind  # what differs
    # ``(dx, dy)`` in pixels, what lies at p before lies at p + shift after; of view it is rounded
    shift: tuple[int, int] = (0, 0)
    turn: float = 0.0  # degrees that the view turned
    zoom: float = 1.0  # by which it grew
    # changes of the light on the after frame, applied in their order
    light: tuple[Callable[[Image], Image], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Rendered:
    before: Image  # before, after: RGB uint8 ``(side, side, 3)``
    after: Image
    # before_boxes, after_boxes: per change the tight box of every thing on that frame
    before_boxes: tuple[tuple[Box, ...], ...]
    after_boxes: tuple[tuple[Box, ...], ...]
    camera: Viewpoint  # how the after frame was taken


def draw_camera(kind: CameraKind, side: int, rng: np.random.Generator, *, hard: bool) -> Viewpoint:
    """The camera's variation, `hard` as strong as in a distractor, else as with a real change."""
    if kind == "still":
        return Viewpoint(kind)
    if kind == "light":
        gain, gamma, tint = (0.35, 0.25, 0.12) if hard else (0.15, 0.1, 0.05)
        light: list[Callable[[Image], Image]] = [
            partial(_with_gain, gain=1 + rng.uniform(-gain, gain), gamma=1 + rng.uniform(-gamma, gamma)),
            partial(_with_tint, tint=1 + rng.uniform(-tint, tint, 3)),
        ]
        if hard and rng.random() < _SHADE:
            strength = rng.uniform(0.45, 0.75) if rng.random() < 0.7 else rng.uniform(1.3, 1.7)  # noqa: PLR2004
            softness, seed = rng.uniform(0.8, 5.0), int(rng.integers(2**31))
            light.append(partial(_with_patch, strength=strength, softness=softness, seed=seed))
        return Viewpoint(kind, light=tuple(light))
    most = max(round(0.018 * side), 1)
    if kind == "shift":
        dx, dy = (int(v) for v in rng.integers(-most, most + 1, 2))
        return Viewpoint(kind, (dx or most, dy))
    share = 1.0 if hard else 0.4
    dx, dy = (int(v) for v in rng.integers(-most, most + 1, 2))
    return Viewpoint(
        kind,
        (dx, dy),
        share * rng.uniform(0.5, _TURN) * rng.choice((-1, 1)),
        1 + share * rng.uniform(0, 0.04),
    )


def render(stage: Stage, camera: Viewpoint, rng: np.random.Generator) -> Rendered:
    scenery = stage.scenery
    shared = scenery.picture.astype(np.float32)
    _paint(shared, sorted(stage.still, key=lambda t: t.box[3]), None)
    frames, numbered = [], []
    for things in ([t for c in stage.changes for t in c.before], [t for c in stage.changes for t in c.after]):
        canvas, numbers = shared.copy(), np.zeros(shared.shape[:2], np.uint8)
        _paint(canvas, things, numbers)
        frames.append(canvas)
        numbered.append(numbers)
    _draw_distractors(frames[1], stage, rng)
    way = _way(scenery, camera)
    before = _cut(frames[0].round().astype(np.uint8), None, scenery)
    after = _cut(frames[1].round().astype(np.uint8), way, scenery)
    for change in camera.light:
        after = change(after)
    own_before, own_after = _cut(numbered[0], None, scenery), _cut(numbered[1], way, scenery)
    counts = [(len(c.before), len(c.after)) for c in stage.changes]
    return Rendered(
        _noisy(before, rng),
        _noisy(after, rng),
        _boxes(own_before, [c[0] for c in counts]),
        _boxes(own_after, [c[1] for c in counts]),
        camera,
    )


def _paint(canvas: NDArray[np.float32], things: Sequence[Prop], numbers: LabelMap | None) -> None:
    """Draw things on a canvas and, numbered from 1, on the labels."""
    for number, thing in enumerate(things, 1):
        drawn = sprite(thing.label, thing.colour, (thing.width, thing.height), thing.flip, thing.variant)
        rows, columns = (
            slice(thing.top, thing.top + thing.height),
            slice(thing.left, thing.left + thing.width),
        )
        part = canvas[rows, columns]
        part += drawn.alpha * (drawn.colour - part)
        if numbers is not None:
            numbers[rows, columns][drawn.alpha[..., 0] >= _COVERED] = number


def _draw_distractors(canvas: NDArray[np.float32], stage: Stage, rng: np.random.Generator) -> None:
    for x, y, radius in stage.ignored:
        blot = np.zeros(canvas.shape[:2], np.uint8)
        axes = (max(round(radius), 1), max(round(radius * rng.uniform(0.4, 0.9)), 1))
        cv2.ellipse(blot, (round(x), round(y)), axes, rng.uniform(0, 180), 0, 360, 1, -1)
        inside = blot > 0
        mean = float(canvas[inside].mean())
        canvas[inside] += rng.uniform(55, 90) * (-1 if mean > 110 else 1)  # noqa: PLR2004
        np.clip(canvas, 0, 255, out=canvas)


def _way(scenery: Scenery, camera: Viewpoint) -> Matrix:
    """From the canvas to the after frame, float64 ``(2, 3)``."""
    middle = scenery.margin + scenery.side / 2
    matrix = np.asarray(cv2.getRotationMatrix2D((middle, middle), camera.turn, camera.zoom), np.float64)
    matrix[:, 2] += np.array(camera.shift) - scenery.margin
    return matrix


def _cut(canvas: Image, way: Matrix | None, scenery: Scenery) -> Image:
    """The frame of a canvas; None is the before frame's way."""
    margin, side = scenery.margin, scenery.side
    if way is None:
        return np.ascontiguousarray(canvas[margin : margin + side, margin : margin + side])
    flags = cv2.INTER_LINEAR if canvas.ndim == 3 else cv2.INTER_NEAREST  # noqa: PLR2004
    cut = cv2.warpAffine(canvas, way, (side, side), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(cut, np.uint8)


def _boxes(numbers: LabelMap, counts: Sequence[int]) -> tuple[tuple[Box, ...], ...]:
    side, first, result = len(numbers), 1, []
    for count in counts:
        result.append(tuple(_box(numbers == n, side) for n in range(first, first + count)))
        first += count
    return tuple(result)


def _box(mask: NDArray[np.bool_], side: int) -> Box:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    left, top, right, bottom = (int(v) for v in (columns[0], rows[0], columns[-1], rows[-1]))
    return left / side, top / side, (right + 1 - left) / side, (bottom + 1 - top) / side


@lru_cache(maxsize=4)
def _grain(side: int) -> Image:
    """Noise on a tile larger than the frame, lifted by 8; frames take different parts of it."""
    rng = np.random.default_rng(side)
    grains = rng.standard_normal((side + 64, side + 64, 3), np.float32) * _GRAIN
    return np.asarray(np.clip(grains + 8, 0, 16).round(), np.uint8)


def _noisy(image: Image, rng: np.random.Generator) -> Image:
    y, x = (int(v) for v in rng.integers(0, 64, 2))
    side = len(image)
    lifted = cv2.add(image, np.ascontiguousarray(_grain(side)[y : y + side, x : x + side]))
    return np.asarray(cv2.subtract(lifted, np.full_like(image, 8)), np.uint8)


def _with_gain(image: Image, gain: float, gamma: float) -> Image:
    """255 * gain * (v / 255) ** gamma."""
    table = np.clip(255 * gain * (np.arange(256) / 255) ** gamma, 0, 255).round()
    return np.asarray(cv2.LUT(image, table.astype(np.uint8)), np.uint8)


def _with_tint(image: Image, tint: NDArray[np.float64]) -> Image:
    return np.asarray(np.clip(image * np.asarray(tint, np.float32), 0, 255).round(), np.uint8)


def _with_patch(image: Image, strength: float, softness: float, seed: int) -> Image:
    """A polygon of shade (strength < 1) or light (> 1) over a part of the frame; softness is in pixels."""
    rng = np.random.default_rng(seed)
    height, width = image.shape[:2]
    angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 9))))
    reach = rng.uniform(0.4, 1.0, len(angles)) * rng.uniform(0.12, 0.5) * height
    tilt, flat = rng.uniform(0, np.pi), rng.uniform(0.2, 1.0)
    along, across = np.cos(angles) * reach, np.sin(angles) * reach * flat
    x = rng.uniform(0, width) + along * np.cos(tilt) - across * np.sin(tilt)
    y = rng.uniform(0.2, 1) * height + along * np.sin(tilt) + across * np.cos(tilt)
    covered = np.zeros((height, width), np.float32)
    cv2.fillPoly(covered, [np.stack([x, y], axis=1).round().astype(np.int32)], 1.0)
    soft = cv2.GaussianBlur(covered, (0, 0), max(softness, 0.5))[..., None]
    return np.asarray(np.clip(image * (1 + (strength - 1) * soft), 0, 255).round(), np.uint8)
