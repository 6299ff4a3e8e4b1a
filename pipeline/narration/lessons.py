"""What people's corrections taught of a camera: its sentences are weighed anew by what the two pictures show.

A checkpoint that was adapted with feedback carries weights by the camera's name (`train.grounded.feedback`).
A sentence that would be told then gets other log odds,

    logit(confidence) + w . signs,

and is held back where that makes it too unsure. What would not be told stays untold, and a camera without
weights is told as before, to the byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from models.families import PEOPLE, VEHICLES, family_of
from models.sentences import PlacedSentence, Sentence
from pipeline.sources import Image

if TYPE_CHECKING:
    from torch import Tensor

RECORD = "lessons"
"""Under this name a checkpoint's record holds the weights, by camera."""

SIGNS = (
    "bias",
    "appeared",
    "disappeared",
    "moved",
    "person",
    "vehicle",
    "on two wheels",
    "share of its box that differs",
    "share of its lower half that differs",
    "correlation of the two pictures there",
    "difference of the two pictures there",
    "likeness of the colours there",
    "log of its area",
    "log of its height",
    "touches the frame's edge",
    "share of the frame that differs",
)
"""What is known of a sentence from its words and the two pictures, in this order; about -2..2 each."""

_TYPES = {"appeared": 0, "more": 0, "disappeared": 1, "fewer": 1, "moved": 2, "replaced": 2}
_GRID = 12
_EDGE = 0.01
_FLAT = 16.0  # variance in which nothing is alike or otherwise
_LIMIT = 1e-4


def signs(
    told: PlacedSentence, before: Image, after: Image, changed: NDArray[np.bool_]
) -> NDArray[np.float64] | None:
    """What is known of a sentence, float64 ``(len(SIGNS),)``; None where it tells of no place.

    Args:
        told: the sentence.
        before: RGB uint8 ``(h, w, 3)`` of any size.
        after: likewise.
        changed: bool ``(rows, columns)``, where pixels differ.
    """
    boxes = [box for box in (told.before, told.after) if box is not None]
    boxes = boxes or ([told.box] if told.box is not None else [])
    if not boxes or told.type not in _TYPES:
        return None
    words = [float(_TYPES[told.type] == n) for n in range(3)]
    words += [float(_kind(told.object) == n) for n in range(3)]
    places = np.mean([_place(box, before, after, changed) for box in boxes], axis=0)
    return np.array([1.0, *words, *places, 20 * min(float(changed.mean()), 0.1) - 1])


def weighed(
    sentences: Sequence[Sentence],
    pictures: tuple[Image, Image],
    changed: NDArray[np.bool_],
    weights: Sequence[float],
    least: float,
) -> list[Sentence]:
    """Sentences with the confidence that a camera's corrections give them.

    The weights are of `SIGNS`; what is less sure than `least` is not told, and stays as it is.
    """
    result = []
    for sentence in sentences:
        known = signs(sentence, *pictures, changed) if sentence.confidence >= least else None
        if known is not None:
            odds = log_odds(sentence.confidence) + float(known @ np.asarray(weights))
            sentence = replace(sentence, confidence=1 / (1 + math.exp(-odds)))  # noqa: PLW2901
        result.append(sentence)
    return result


def lesson(record: Mapping[str, Any], camera: str) -> Sequence[float] | None:
    """The weights of a camera in a checkpoint's record, None where it has none that fit."""
    found = record.get(RECORD, {}).get(camera)
    return found if isinstance(found, list) and len(found) == len(SIGNS) else None


def log_odds(confidence: float) -> float:
    """Of a probability, drawn in a little from 0 and 1."""
    p = min(max(confidence, _LIMIT), 1 - _LIMIT)
    return math.log(p / (1 - p))


def _kind(name: str) -> int:
    if name in ("cyclist", "motorcyclist") or family_of(name) == "two-wheeler":
        return 2
    return 0 if name in PEOPLE else 1 if name in VEHICLES else -1


def _place(box: Box, before: Image, after: Image, changed: NDArray[np.bool_]) -> list[float]:
    """What the pictures show in a box."""
    mask = _samples(changed, box).astype(np.float64)
    one, two = (_samples(image, box).astype(np.float64) for image in (before, after))
    grey = [side.mean(-1) for side in (one, two)]
    x, y, width, height = box
    colours = [_colours(image, box) for image in (before, after)]
    return [
        2 * float(mask.mean()) - 1,
        2 * float(mask[_GRID // 2 :].mean()) - 1,
        2 * _correlation(*grey),
        min(float(np.abs(grey[0] - grey[1]).mean()) / 32, 3.0),
        float((colours[0] * colours[1]).sum()) / 2 - 1,
        math.log(max(width * height, 1e-6)) / 2 + 2.5,
        math.log(max(height, 1e-3)) + 2,
        float(x < _EDGE or y < _EDGE or x + width > 1 - _EDGE or y + height > 1 - _EDGE),
    ]


def _colours(image: Image, box: Box) -> Tensor:
    import torch  # noqa: PLC0415 - seconds; what the signs are can be known without

    from models.grounded.linker import looks  # noqa: PLC0415

    return looks(torch.from_numpy(image).permute(2, 0, 1), torch.tensor([box]))


def _samples(plane: NDArray[Any], box: Box) -> NDArray[Any]:
    """A picture at a grid of points of a box, ``(G, G, ...)``."""
    along = (np.arange(_GRID) + 0.5) / _GRID
    rows = np.clip(((box[1] + box[3] * along) * plane.shape[0]).astype(int), 0, plane.shape[0] - 1)
    columns = np.clip(((box[0] + box[2] * along) * plane.shape[1]).astype(int), 0, plane.shape[1] - 1)
    return np.asarray(plane[rows[:, None], columns[None]])


def _correlation(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Of grey values; 0 where one of them is flat."""
    a, b = one - one.mean(), two - two.mean()
    spread = float((a**2).mean() * (b**2).mean())
    return float((a * b).mean()) / math.sqrt(spread) if spread > _FLAT else 0.0
