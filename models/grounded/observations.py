"""Observations: detections of a picture with what tells one from another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.detections import Detections

FEATURES = 192
"""Numbers of `Detections.feature`."""

_HUES, _LIGHTS = 8, 8
_PART = _HUES + 1 + _LIGHTS
COLOUR_BINS = 2 * _PART
"""Numbers of `colour_histograms`."""

_EMBEDDED = 48
_GRID = (16, 8)  # rows and columns of the points at which a box is sampled
_VIVID = 0.25  # chroma 0..1 from which a hue counts in full


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """N detections, any leading dimensions in common: several pictures' may be stacked.

    Attributes:
        box: float32 ``(..., N, 4)``, ``x, y, width, height`` in 0..1 of the frame.
        score: float32 ``(..., N)``, 0..1.
        label: float32 ``(..., N, len(OBJECTS))``, 0..1.
        feature: float32 ``(..., N, FEATURES)``.
        colours: float32 ``(..., N, COLOUR_BINS)``.
    """

    box: Tensor
    score: Tensor
    label: Tensor
    feature: Tensor
    colours: Tensor

    def select(self, rows: Tensor) -> Observations:
        """The given ones of N, int64 or bool ``(M,)``, in the given order."""
        return Observations(
            self.box[rows], self.score[rows], self.label[rows], self.feature[rows], self.colours[rows]
        )


def observe(picture: Tensor, found: Detections) -> Observations:
    """Detections of a picture, uint8 RGB ``(3, h, w)``, with their colours."""
    colours = colour_histograms(picture, found.box)
    return Observations(found.box, found.score, found.label, found.feature, colours)


def colour_histograms(picture: Tensor, box: Tensor) -> Tensor:
    """Colours of the upper and the lower half of boxes, the middle weighing more than the rim.

    Args:
        picture: uint8 RGB ``(3, h, w)``.
        box: float32 ``(N, 4)`` in 0..1 of the picture.

    Returns:
        float32 ``(N, COLOUR_BINS)``, each half's square roots of shares: 8 hues and grey, which sum to 1, and
        8 steps of lightness, which sum to 1; so that a product of two is their Bhattacharyya coefficient.
    """
    rows, columns = ((torch.arange(n, device=box.device) + 0.5) / n for n in _GRID)
    height, width = picture.shape[1:]
    y = ((box[:, 1:2] + box[:, 3:] * rows) * height).long().clamp(0, height - 1)
    x = ((box[:, :1] + box[:, 2:3] * columns) * width).long().clamp(0, width - 1)
    red, green, blue = picture[:, y[:, :, None], x[:, None, :]].float() / 255
    high, low = (extreme(extreme(red, green), blue) for extreme in (torch.maximum, torch.minimum))
    hue = torch.atan2(math.sqrt(3) * (green - blue), 2 * red - green - blue) / (2 * math.pi) % 1
    vivid = ((high - low) / _VIVID).clamp(max=1)
    bins = torch.arange(_HUES, device=box.device)
    apart = (hue[..., None] * _HUES - bins + _HUES / 2) % _HUES - _HUES / 2
    hues = (1 - apart.abs()).clamp(min=0) * vivid[..., None]
    steps = (high + low)[..., None] / 2 * (_LIGHTS - 1) - torch.arange(_LIGHTS, device=box.device)
    shares = torch.cat([hues, 1 - vivid[..., None], (1 - steps.abs()).clamp(min=0)], dim=-1)
    weight = (-4 * (columns - 0.5) ** 2).exp() * (-2 * (rows[:, None] - 0.5) ** 2).exp()
    weighted = (shares * weight[..., None]).reshape(len(box), 2, _GRID[0] * _GRID[1] // 2, _PART)
    found: Tensor = (weighted.sum(2) / weight[: _GRID[0] // 2].sum()).clamp(min=0).sqrt().flatten(1)
    return found


def colour_likeness(one: Tensor, two: Tensor) -> tuple[Tensor, ...]:
    """Bhattacharyya coefficients ``(S, T)`` of hues and of lightness, of the upper and of the lower half."""
    parts = ((0, _HUES + 1), (_HUES + 1, _PART), (_PART, _PART + _HUES + 1), (_PART + _HUES + 1, COLOUR_BINS))
    return tuple(one[:, a:b] @ two[:, a:b].mT for a, b in parts)


class FeatureEmbedding(nn.Module):
    """Unit vectors that are alike for one object, from the detector's own features."""

    def __init__(self) -> None:
        """Build with random weights."""
        super().__init__()
        self.drop = nn.Dropout(0.2)  # lest it learns the training cameras' objects by heart
        self.embed = nn.Linear(FEATURES, _EMBEDDED)

    def forward(self, feature: Tensor) -> Tensor:
        """Unit vectors float32 ``(..., 48)`` of features ``(..., FEATURES)``."""
        return normalize(self.embed(self.drop(feature)), dim=-1)
