"""The appearance of an object where it is certain: the colour of a vehicle, the clothes of a person.

A camera's white is rarely white and a car is never one colour: it has black tyres and glass, stands on its
own shadow, and mirrors the sky. So only what changed inside its box is looked at, without its lowest part,
the scene's own cast is taken off, and a colour is named only if most of what is left agrees on it; nothing is
said of what lies between two colours. Of people the chest is looked at, and of those in dark or light clothes
the legs as well: in the narrow middle of a tall box there is hardly any background.

The thresholds were chosen on training cameras. Of 77 names of vehicles 71 are those that a network gives
(vehicle-attributes-recognition-barrier-0039, where it is surer than .9), and of the other six it is wrong
about at least two. Of 87 names of what people wear four are wrong or half wrong, read by eye once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from models.families import PEOPLE, VEHICLES
from models.language.catalogue import in_english
from models.language.templates import render
from models.sentences import Sentence
from pipeline.sources import Image

_Floats = NDArray[np.float32]

LEAST_PIXELS = 100  # with fewer changed ones a vehicle has no colour in compressed video
_SCENE = (96, 72)  # pixels in which the scene's cast is measured
_LEAST = 0.05  # share of the frame that shows it
_NEUTRAL = 30.0  # chroma above which a pixel says nothing about the cast

_BODY = (0.08, 0.05, 0.92, 0.78)  # of the box: without edges, tyres and shadow

_VIVID_CHROMA, _VIVID_SATURATION = 16.0, 0.3
_HUES = {"red": (345, 38), "orange": (41, 80), "yellow": (86, 112), "green": (118, 185), "blue": (235, 308)}
"""Lab hue angles in degrees, from and to; between them no colour is sure."""
_BLUE_CHROMA = 25.0  # least median chroma of blue paint: silver under a clear sky has less
_ALIKE, _APART = 0.3, 0.12  # share of vivid pixels of one hue that names it; share of others that forbids it
_BROWN = (50.0, 40.0)  # lightness and chroma below which orange is brown

_PALE = 0.1  # largest share of vivid pixels of what is white, grey or black
_TINT = 0.1  # its largest mean chroma, as a share of its mean lightness
_DARK = 25.0  # lightness below which a tint is unreliable
_MIDDLE = 52.0  # lightness of a road by day, on which the shades below count
_SHADES = {"white": (80, 150, 0.42), "grey": (48, 78, 0.7), "black": (-50, 38, 0.7)}
"""Lightness from and to, and the least share of pixels between them."""
_WHITE = 85.0  # lightness that a quarter of white paint reaches in any scene; silver in shade does not
_BURNT = 94.0  # lightness beyond which a picture is overexposed and shows white, whatever the scene
_UPRIGHT = 1.5  # least height of a person's box, in its width: who sits or is cut has no chest here
_CHEST, _LEGS = (0.3, 0.2, 0.7, 0.48), (0.32, 0.54, 0.68, 0.84)  # of a person's box
_LEAST_CLOTH = 60  # pixels
_WORN = 0.6  # least share of vivid pixels of one hue on the chest
_BRIGHTNESS = {"dark": (-50, 32, 0.8, -50, 40), "light": (72, 150, 0.75, 50, 150)}
"""Lightness of the chest from and to, the least share of its pixels between; the legs' median from and to."""
_STRONG_CAST = 4.5  # chroma of a scene under sodium lamps or headlights, in which colours are unreliable


@dataclass(frozen=True, slots=True)
class Cast:
    """The grey of a scene and its lightness, in CIE Lab."""

    a: float  # both of its neutral pixels
    b: float
    middle: float  # median of L, 1..100


def scene_cast(image: Image, changed: NDArray[np.bool_]) -> Cast:
    """The cast of a scene RGB uint8 ``(h, w, 3)``: of what has little colour in it and did not change.

    `changed` is bool of any size: a truck that fills half of the frame is no scene.
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
    """The colour of a vehicle, one of `models.language.templates.COLOURS`; None where it is not sure.

    The image is the frame RGB uint8 ``(h, w, 3)``, of which the box is in 0..1 and the mask, bool of any
    size, says what changed.
    """
    pixels = _pixels(image, box, mask, _BODY)
    if len(pixels) < LEAST_PIXELS or np.hypot(cast.a, cast.b) > _STRONG_CAST:
        return None
    lightness, a, b = _without_cast(pixels, cast)
    vivid = _vivid(lightness, a, b)
    if vivid.mean() > _ALIKE:
        return _hue_name(lightness[vivid], a[vivid], b[vivid], float(vivid.mean()), _ALIKE)
    tint = float(np.hypot(a.mean(), b.mean()) / max(lightness.mean(), _DARK))
    if vivid.mean() < _PALE and tint < _TINT:
        name = _shade_name(np.where(lightness > _BURNT, 100, lightness - (cast.middle - _MIDDLE)))
        return None if name == "white" and np.percentile(lightness, 75) < _WHITE else name
    return None


def clothes_name(image: Image, box: Box, mask: NDArray[np.bool_], cast: Cast) -> str | None:
    """A person's clothes, one of `models.language.templates.CLOTHES`, or None; `box` is all of the person."""
    height, width = image.shape[:2]
    cut = box[1] <= 0 or box[1] + box[3] >= 1
    if cut or box[3] * height < _UPRIGHT * box[2] * width or np.hypot(cast.a, cast.b) > _STRONG_CAST:
        return None
    chest, legs = _pixels(image, box, mask, _CHEST), _pixels(image, box, mask, _LEGS)
    if min(len(chest), len(legs)) < _LEAST_CLOTH:
        return None
    lightness, a, b = _without_cast(chest, cast)
    vivid = _vivid(lightness, a, b)
    if vivid.mean() > _WORN:
        return _hue_name(lightness[vivid], a[vivid], b[vivid], float(vivid.mean()), _WORN)
    if vivid.mean() > _PALE:
        return None
    level = lightness - (cast.middle - _MIDDLE)
    below = float(np.median(legs[:, 0])) - (cast.middle - _MIDDLE)
    for name, (low, high, least, legs_low, legs_high) in _BRIGHTNESS.items():
        if np.mean((level >= low) & (level < high)) >= least and legs_low <= below < legs_high:
            return name
    return None


def look_name(image: Image, label: str, box: Box, mask: NDArray[np.bool_], cast: Cast) -> str | None:
    if label in VEHICLES:
        return colour_name(image, box, mask, cast)
    return clothes_name(image, box, mask, cast) if label == "person" else None


def with_colours(
    sentences: Sequence[Sentence], before: Image, after: Image, changed: NDArray[np.bool_]
) -> list[Sentence]:
    """Sentences that say how a single vehicle or person looks where it is sure of it.

    What was and is there must not look differently; a sentence without a box for each side says nothing.
    The frames are RGB uint8 ``(h, w, 3)``, `changed` is bool of any size.
    """
    images, said = (before, after), list[Sentence]()
    cast = cache(lambda side: scene_cast(images[side], changed))
    for sentence in sentences:
        statement, label = sentence.statement, sentence.object
        if statement and not statement.other and sentence.count == 1 and label in VEHICLES | PEOPLE:
            boxes = enumerate((sentence.before, sentence.after))
            names = {look_name(images[k], label, box, changed, cast(k)) for k, box in boxes if box} - {None}
            if len(names) == 1:
                statement = replace(statement, colour=str(names.pop()))
                text, english = render(statement), in_english(render, statement)
                sentence = replace(sentence, text=text, english=english, statement=statement)  # noqa: PLW2901
        said.append(sentence)
    return said


def _shade_name(level: _Floats) -> str | None:
    for name, (low, high, least) in _SHADES.items():
        if np.mean((level >= low) & (level < high)) >= least:
            return name
    return None


def _hue_name(lightness: _Floats, a: _Floats, b: _Floats, share: float, alike: float) -> str | None:
    """The colour of vivid pixels, which are `share` of all, where at least `alike` of all have it."""
    hues, chroma = np.degrees(np.arctan2(b, a)) % 360, np.hypot(a, b)
    for name, (start, end) in _HUES.items():
        inside = (hues >= start) & (hues <= end) if start < end else (hues >= start) | (hues <= end)
        if share * inside.mean() > alike and share * (1 - inside.mean()) < _APART:
            strong = float(np.median(chroma[inside]))
            if name == "blue" and strong < _BLUE_CHROMA:
                return None
            dull = np.median(lightness[inside]) < _BROWN[0] and strong < _BROWN[1]
            return "brown" if name == "orange" and dull else name
    return None


def _without_cast(pixels: _Floats, cast: Cast) -> tuple[_Floats, _Floats, _Floats]:
    """Lightness, a and b of Lab pixels ``(N, 3)``; coloured light tints what is dark less."""
    lightness = pixels[:, 0]
    share = np.minimum(lightness / cast.middle, 1)
    return lightness, pixels[:, 1] - share * cast.a, pixels[:, 2] - share * cast.b


def _vivid(lightness: _Floats, a: _Floats, b: _Floats) -> NDArray[np.bool_]:
    chroma = np.hypot(a, b)
    return np.asarray((chroma > _VIVID_CHROMA) & (chroma > _VIVID_SATURATION * lightness))


def _pixels(image: Image, box: Box, mask: NDArray[np.bool_], part: Box) -> _Floats:
    """Lab values ``(N, 3)`` of what changed in a part of a box: left, top, right and bottom in 0..1 of it."""
    height, width = image.shape[:2]
    x, y, across, down = box
    x0, x1 = (round(min(max(x + share * across, 0), 1) * width) for share in (part[0], part[2]))
    y0, y1 = (round(min(max(y + share * down, 0), 1) * height) for share in (part[1], part[3]))
    if x1 <= x0 or y1 <= y0:
        return np.zeros((0, 3), np.float32)
    rows = (np.arange(y0, y1) + 0.5) * mask.shape[0] / height
    columns = (np.arange(x0, x1) + 0.5) * mask.shape[1] / width
    changed = mask[np.ix_(rows.astype(int), columns.astype(int))]
    return _lab(image[y0:y1, x0:x1])[changed]


def _lab(image: Image) -> _Floats:
    """CIE Lab, float32 of the same shape: L 0..100, a and b about -100..100."""
    return np.asarray(cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2Lab), np.float32)
