"""The colour of a vehicle in a picture, where it is sure.

A camera's white is rarely white and a car is never one colour: it has black tyres and glass, stands on its
own shadow, and mirrors the sky. So only what changed inside its box is looked at, without its lowest part,
the scene's own cast is taken off, and a colour is named only if most of what is left agrees on it; nothing is
said of what lies between two colours. The thresholds were chosen by eye on vehicles of road cameras. On the
labelled ones of the visible benchmark half get a name, and 96 of 100 names are right.

People's clothes are left alone: they have two colours as often as one, and the measure that serves for paint
was wrong about half of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from models.captioner import Sentence
from models.phrases import PAINTED, coloured

Image = NDArray[np.uint8]
Box = tuple[float, float, float, float]

LEAST_PIXELS = 100
"""With fewer changed pixels a vehicle is too small to have a colour in compressed video."""

_SCENE = (96, 72)  # pixels in which the scene's cast is measured
_LEAST = 0.05  # share of the frame that shows it
_NEUTRAL = 30.0  # chroma above which a pixel says nothing about the cast

_BODY = (0.08, 0.05, 0.92, 0.78)  # of the box: without edges, tyres and shadow

_VIVID_CHROMA, _VIVID_SATURATION = 16.0, 0.3
_HUES = {"red": (345, 38), "orange": (41, 80), "yellow": (86, 112), "green": (118, 185), "blue": (235, 308)}
"""Lab hue angles in degrees, from and to; between them no colour is sure."""
_ALIKE, _APART = 0.3, 0.12  # share of vivid pixels of one hue that names it; share of others that forbids it
_BROWN = (50.0, 40.0)  # lightness and chroma below which orange is brown

_PALE = 0.1  # largest share of vivid pixels of what is white, grey or black
_TINT = 0.1  # its largest mean chroma, as a share of its mean lightness
_DARK = 25.0  # lightness below which a tint cannot be told
_MIDDLE = 52.0  # lightness of a road by day, on which the shades below count
_SHADES = {"white": (80, 150, 0.42), "grey": (48, 78, 0.7), "black": (-50, 38, 0.7)}
"""Lightness from and to, and the least share of pixels between them."""
_BURNT = 94.0  # lightness beyond which a picture is overexposed and shows white, whatever the scene
_STRONG_CAST = 4.5  # chroma of a scene under sodium lamps or headlights, in which colours cannot be told


@dataclass(frozen=True, slots=True)
class Cast:
    """What is grey in a scene, and how light it is, in CIE Lab.

    Attributes:
        a, b: of its neutral pixels.
        middle: median of L, 1..100.
    """

    a: float
    b: float
    middle: float


def scene_cast(image: Image, changed: NDArray[np.bool_]) -> Cast:
    """The cast of a scene: of what has little colour in it and did not change.

    Args:
        image: a whole frame, RGB uint8 ``(h, w, 3)``.
        changed: bool of any size, what changed in it: a truck that fills half of the frame is no scene.
    """
    small = cv2.resize(image, _SCENE, interpolation=cv2.INTER_AREA)
    still = cv2.resize(changed.astype(np.float32), _SCENE, interpolation=cv2.INTER_AREA).ravel() == 0
    pixels = _lab(np.asarray(small, np.uint8)).reshape(-1, 3)
    pixels = pixels[still] if still.mean() > _LEAST else pixels
    lightness, a, b = pixels.T
    neutral = (lightness > 15) & (lightness < 92) & (np.hypot(a, b) < _NEUTRAL)  # noqa: PLR2004
    some = neutral if neutral.mean() > _LEAST else np.ones_like(neutral)
    return Cast(float(np.median(a[some])), float(np.median(b[some])), max(float(np.median(lightness)), 1.0))


def colour_name(image: Image, box: Box, mask: NDArray[np.bool_], cast: Cast) -> str | None:
    """The colour of a vehicle, one of `models.wording.COLOURS`; None where it is not sure.

    Args:
        image: RGB uint8 ``(h, w, 3)``, the frame in which it is.
        box: of the vehicle, ``(x, y, width, height)`` in 0..1.
        mask: bool of any size, what changed in the frame.
        cast: of this frame.
    """
    pixels = _body(image, box, mask)
    if len(pixels) < LEAST_PIXELS or np.hypot(cast.a, cast.b) > _STRONG_CAST:
        return None
    lightness = pixels[:, 0]
    share = np.minimum(lightness / cast.middle, 1)  # coloured light tints what is dark less
    a, b = pixels[:, 1] - share * cast.a, pixels[:, 2] - share * cast.b
    chroma = np.hypot(a, b)
    vivid = (chroma > _VIVID_CHROMA) & (chroma > _VIVID_SATURATION * lightness)
    if vivid.mean() > _ALIKE:
        return _hue_name(lightness[vivid], a[vivid], b[vivid], float(vivid.mean()))
    tint = float(np.hypot(a.mean(), b.mean()) / max(lightness.mean(), _DARK))
    if vivid.mean() < _PALE and tint < _TINT:
        return _shade_name(np.where(lightness > _BURNT, 100, lightness - (cast.middle - _MIDDLE)))
    return None


def with_colours(
    sentences: Sequence[Sentence], before: Image, after: Image, changed: NDArray[np.bool_]
) -> list[Sentence]:
    """Sentences that say the colour of a single vehicle where it is sure of it.

    What was and is there must not have two colours; a sentence without a box for each side says none.

    Args:
        sentences: about one pair.
        before: RGB uint8 ``(h, w, 3)``, its earlier frame.
        after: RGB uint8 ``(h, w, 3)``, its later frame.
        changed: bool of any size, what changed.
    """
    casts: dict[int, Cast] = {}

    def name(side: int, box: Box) -> str | None:
        image = (before, after)[side]
        if side not in casts:
            casts[side] = scene_cast(image, changed)
        return colour_name(image, box, changed, casts[side])

    said = []
    for sentence in sentences:
        if sentence.count == 1 and sentence.object in PAINTED:
            boxes = enumerate((sentence.before, sentence.after))
            names = {name(side, box) for side, box in boxes if box is not None} - {None}
            if len(names) == 1:
                sentence = replace(sentence, text=coloured(sentence.text, str(names.pop())))  # noqa: PLW2901
        said.append(sentence)
    return said


def _shade_name(level: NDArray[np.float32]) -> str | None:
    for name, (low, high, least) in _SHADES.items():
        if np.mean((level >= low) & (level < high)) >= least:
            return name
    return None


def _hue_name(
    lightness: NDArray[np.float32], a: NDArray[np.float32], b: NDArray[np.float32], share: float
) -> str | None:
    hues = np.degrees(np.arctan2(b, a)) % 360
    for name, (start, end) in _HUES.items():
        inside = (hues >= start) & (hues <= end) if start < end else (hues >= start) | (hues <= end)
        if share * inside.mean() > _ALIKE and share * (1 - inside.mean()) < _APART:
            dull = np.median(lightness[inside]), np.median(np.hypot(a, b)[inside])
            return "brown" if name == "orange" and dull[0] < _BROWN[0] and dull[1] < _BROWN[1] else name
    return None


def _body(image: Image, box: Box, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Lab values ``(N, 3)`` of what changed in the part of a box where the paint is."""
    height, width = image.shape[:2]
    x, y, across, down = box
    x0, x1 = (round(min(max(x + share * across, 0), 1) * width) for share in (_BODY[0], _BODY[2]))
    y0, y1 = (round(min(max(y + share * down, 0), 1) * height) for share in (_BODY[1], _BODY[3]))
    if x1 <= x0 or y1 <= y0:
        return np.zeros((0, 3), np.float32)
    rows = (np.arange(y0, y1) + 0.5) * mask.shape[0] / height
    columns = (np.arange(x0, x1) + 0.5) * mask.shape[1] / width
    changed = mask[np.ix_(rows.astype(int), columns.astype(int))]
    return _lab(image[y0:y1, x0:x1])[changed]


def _lab(image: Image) -> NDArray[np.float32]:
    """CIE Lab, float32 of the same shape: L 0..100, a and b about -100..100."""
    return np.asarray(cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2Lab), np.float32)
