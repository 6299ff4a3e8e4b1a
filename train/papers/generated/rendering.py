"""Drawing a staged pair: both frames, the boxes of what changes, and how the camera differs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from pipeline.sources import Image
from train.papers.generated.scenery import Scenery, sprite
from train.papers.generated.stage import Prop, Stage

LabelMap = NDArray[np.uint8]
Matrix = NDArray[np.float64]
CameraKind = Literal["still", "light", "view", "shift"]  # motion or light; still: noise
_COVERED = 0.25
_GRAIN = 2.0
_TURN, _SHADE = 2.0, 0.6


@dataclass(frozen=True, slots=True)
class Viewpoint:
    kind: CameraKind  # what differs
    shift: tuple[int, int] = (0, 0)  # ``(dx, dy)`` in pixels: p before is p + shift after; of view rounded
    turn: float = 0.0  # degrees that the view turned
    zoom: float = 1.0  # by which it grew
    light: tuple[Callable[[Image], Image], ...] = ()  # applied to the after frame in their order


Boxes = tuple[tuple[Box, ...], ...]  # per change the tight box of every thing on a frame


def draw_camera(kind: CameraKind, side: int, rng: np.random.Generator, *, hard: bool) -> Viewpoint:
    """The camera's variation, `hard` as strong as in a distractor, else as with a real change."""
    if kind == "still":
        return Viewpoint(kind)
    if kind == "light":
        gain, gamma, tint = (0.35, 0.25, 0.12) if hard else (0.15, 0.1, 0.05)
        gain, gamma = 1 + rng.uniform(-gain, gain), 1 + rng.uniform(-gamma, gamma)
        light: list[Callable[[Image], Image]] = [partial(_with_gain, gain=gain, gamma=gamma)]
        light.append(partial(_with_tint, tint=1 + rng.uniform(-tint, tint, 3)))
        if hard and rng.random() < _SHADE:
            strength = rng.uniform(0.45, 0.75) if rng.random() < 0.7 else rng.uniform(1.3, 1.7)  # noqa: PLR2004
            softness, seed = rng.uniform(0.8, 5.0), int(rng.integers(2**31))
            light.append(partial(_with_patch, strength=strength, softness=softness, seed=seed))
        return Viewpoint(kind, light=tuple(light))
    most = max(round(0.018 * side), 1)
    dx, dy = (int(v) for v in rng.integers(-most, most + 1, 2))
    if kind == "shift":
        return Viewpoint(kind, (dx or most, dy))
    share = 1.0 if hard else 0.4
    turn = share * rng.uniform(0.5, _TURN) * rng.choice((-1, 1))
    return Viewpoint(kind, (dx, dy), turn, 1 + share * rng.uniform(0, 0.04))


def render(
    stage: Stage, camera: Viewpoint, rng: np.random.Generator
) -> tuple[tuple[Image, Image], tuple[Boxes, Boxes]]:
    """Both frames, RGB uint8 ``(side, side, 3)``, and their boxes."""
    scenery = stage.scenery
    shared = scenery.picture.astype(np.float32)
    _paint(shared, sorted(stage.still, key=lambda t: t.box[3]), None)
    frames, boxes = [], []
    for side, way in (("before", None), ("after", _way(scenery, camera))):
        things: list[tuple[Prop, ...]] = [getattr(change, side) for change in stage.changes]
        canvas, numbers = shared.copy(), np.zeros(shared.shape[:2], np.uint8)
        _paint(canvas, [thing for own in things for thing in own], numbers)
        if way is not None:
            _draw_distractors(canvas, stage, rng)
        frames.append(_cut(canvas.round().astype(np.uint8), way, scenery))
        boxes.append(_boxes(_cut(numbers, way, scenery), [len(own) for own in things]))
    before, after = frames
    for change in camera.light:
        after = change(after)
    return (_noisy(before, rng), _noisy(after, rng)), (boxes[0], boxes[1])


def _paint(canvas: NDArray[np.float32], things: Sequence[Prop], numbers: LabelMap | None) -> None:
    for number, thing in enumerate(things, 1):
        drawn = sprite(thing.label, thing.colour, (thing.width, thing.height), thing.flip, thing.variant)
        left, top, right, bottom = map(int, thing.box)
        rows, columns = slice(top, bottom), slice(left, right)
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


def _boxes(numbers: LabelMap, counts: Sequence[int]) -> Boxes:
    every = iter(range(1, sum(counts) + 1))
    return tuple(tuple(_box(numbers == next(every)) for _ in range(count)) for count in counts)


def _box(mask: NDArray[np.bool_]) -> Box:
    side = len(mask)
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
