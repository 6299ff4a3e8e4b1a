"""The same one, or another: which object before is which object after, where nobody saw the time between.

For stills, and for pairs whose frames in between are not known. Every two ends get log odds from how alike
they look, where they are, what they are and how long lies between. Every end has one partner or none: with
odds w the probability of a set of links is in proportion to the product of theirs, and belief propagation on
that (Williams and Lau 2014, "Approximate evaluation of marginal association probabilities with belief
propagation") gives each link's probability.

Departure: both sides send their messages at once, so that a pair read backwards has the same links.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.box_tensors import middles, overlaps, shared_area
from models.detections import Detections
from models.families import OBJECTS
from models.family_tensors import FAMILY

FEATURES = 192
"""Numbers of `Detections.feature`."""

_HUES, _LIGHTS = 8, 8
_PART = _HUES + 1 + _LIGHTS
LOOKS = 2 * _PART
"""Numbers of `looks`."""

MEASURES = 30
"""What `Linker.measures` gives for each two ends."""

_EMBEDDED = 48  # numbers of the embedding that is compared
_GRID = (16, 8)  # rows and columns of the points at which a box is looked at
_VIVID = 0.25  # chroma 0..1 from which a hue counts in full
_MOST = 8.0  # log odds: float32 sums of them stay exact enough
_ROUNDS = 30
_SETTLED, _SEEN = 0.5, 0.3  # overlap with one of its family that stands there; score from which it counts


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """The N objects of one side, any leading dimensions in common: several pictures' may be stacked.

    Attributes:
        box: float32 ``(..., N, 4)``, ``x, y, width, height`` in 0..1 of the frame.
        score: float32 ``(..., N)``, 0..1.
        label: float32 ``(..., N, len(OBJECTS))``, 0..1.
        feature: float32 ``(..., N, FEATURES)``.
        looks: float32 ``(..., N, LOOKS)``.
    """

    box: Tensor
    score: Tensor
    label: Tensor
    feature: Tensor
    looks: Tensor

    def select(self, rows: Tensor) -> Ends:
        """The given ones of N, int64 or bool ``(M,)``, in the given order."""
        return Ends(self.box[rows], self.score[rows], self.label[rows], self.feature[rows], self.looks[rows])


def ends(picture: Tensor, seen: Detections) -> Ends:
    """What was seen in a picture, uint8 RGB ``(3, h, w)``, as ends of links."""
    return Ends(seen.box, seen.score, seen.label, seen.feature, looks(picture, seen.box))


def looks(picture: Tensor, box: Tensor) -> Tensor:
    """Colours of the upper and the lower half of boxes, its middle before its rim.

    Args:
        picture: uint8 RGB ``(3, h, w)``.
        box: float32 ``(N, 4)`` in 0..1 of the picture.

    Returns:
        float32 ``(N, LOOKS)``, each half's square roots of shares: 8 hues and grey, which sum to 1, and 8
        steps of lightness, which sum to 1; so that a product of two is their Bhattacharyya coefficient.
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


class Linker(nn.Module):
    """Log odds that two ends are one object.

    Every measure is the same when the two ends are exchanged, so a pair read backwards has the same links.
    """

    def __init__(self, hidden: int = 32) -> None:
        """Build with random weights; `hidden` is the width of the hidden layers."""
        super().__init__()
        self.drop = nn.Dropout(0.2)  # lest it learns the training cameras' objects by heart
        self.embed = nn.Linear(FEATURES, _EMBEDDED)
        self.net = nn.Sequential(
            nn.Linear(MEASURES, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def embedding(self, feature: Tensor) -> Tensor:
        """Unit vectors ``(..., 48)`` of features ``(..., FEATURES)``: alike for one object."""
        return normalize(self.embed(self.drop(feature)), dim=-1)

    def forward(self, before: Ends, after: Ends, gap_s: Tensor) -> Tensor:
        """Log odds float32 ``(..., S, T)`` of S ends before and T after.

        Args:
            before: with any leading dimensions.
            after: with the same ones.
            gap_s: seconds between the pictures, float32 ``(...)``, NaN where that is not known.
        """
        logits: Tensor = self.net(self.measures(before, after, gap_s))[..., 0]
        return logits.clamp(-_MOST, _MOST)

    def measures(self, before: Ends, after: Ends, gap_s: Tensor) -> Tensor:
        """What tells whether two ends are one: float32 ``(..., S, T, MEASURES)``, about -3..3."""
        likeness = self.embedding(before.feature) @ self.embedding(after.feature).mT
        measured = [4 * likeness - 2, *_colours(before.looks, after.looks), *_kinds(before, after)]
        measured += _places(before.box, after.box)
        low, high = (extreme(before.score[..., :, None], after.score[..., None, :]) for extreme in _EXTREMES)
        measured += [2 * low, 2 * high]
        measured += _rivals(before, after)
        known = ~gap_s.isnan()
        log_gap = torch.where(known, gap_s, 1.0).clamp(min=0.05).log()
        for value in (known.float(), log_gap / 3, (log_gap - math.log(60)).clamp(min=0) / 3):
            measured.append(value[..., None, None].expand_as(likeness))
        # How fast it would have gone, in own sizes a second.
        speed = measured[_APART].clamp(min=0.01).log() - log_gap[..., None, None]
        measured.append(torch.where(known[..., None, None], speed, 0.0) / 3)
        return torch.stack(measured, dim=-1)


_EXTREMES = (torch.minimum, torch.maximum)
_APART = 14  # position of the distance in own sizes, halved, among the measures


def _colours(one: Tensor, two: Tensor) -> list[Tensor]:
    """How alike hues and lightness are, -2..2, each half by itself."""
    parts = ((0, _HUES + 1), (_HUES + 1, _PART), (_PART, _PART + _HUES + 1), (_PART + _HUES + 1, LOOKS))
    return [4 * (one[..., a:b] @ two[..., a:b].mT) - 2 for a, b in parts]


def _kinds(before: Ends, after: Ends) -> list[Tensor]:
    """How well names and families agree, and of which family they are."""
    one, two = (e.label / e.label.sum(-1, keepdim=True).clamp(min=1e-6) for e in (before, after))
    family = torch.nn.functional.one_hot(FAMILY, len(OBJECTS)).to(one)
    first, second = one @ family, two @ family
    agree = [2 * (a.sqrt() @ b.sqrt().mT) for a, b in ((one, two), (first, second))]
    asked = [OBJECTS.index(name) for name in ("person", "car", "motorcycle")]
    mean = (first[..., :, None, :] + second[..., None, :, :]) / 2
    return [*agree, *(2 * mean[..., column] for column in asked)]


def _places(one: Tensor, two: Tensor) -> list[Tensor]:
    """Ratios of sizes, distances and overlaps."""
    log_one, log_two = (box[..., 2:].clamp(min=2e-3).log() for box in (one, two))
    ratio = 3 * (log_one[..., :, None, :] - log_two[..., None, :, :]).abs().clamp(max=2)
    mean = (log_one[..., :, None, :] + log_two[..., None, :, :]) / 2
    middle_one, middle_two = middles(one), middles(two)
    offset = middle_one[..., :, None, :] - middle_two[..., None, :, :]
    apart = offset.norm(dim=-1)
    sizes = (offset / mean.exp()).norm(dim=-1)
    shared = shared_area(one, two)
    areas = one[..., 2:].prod(-1)[..., :, None], two[..., 2:].prod(-1)[..., None, :]
    union = (areas[0] + areas[1] - shared).clamp(min=1e-9)
    least = torch.minimum(*areas).clamp(min=1e-9)
    distances = [sizes.clamp(max=8) / 2, sizes.log1p() * 2, 4 * apart, (8 * sizes).clamp(max=4) / 2]
    return [
        ratio[..., 0], ratio[..., 1], ratio.sum(-1) / 2, mean.sum(-1) / 2 + 3,
        *distances, 3 * shared / union, shared / least,
    ]  # fmt: skip


def _rivals(before: Ends, after: Ends) -> list[Tensor]:
    """How many of their families went and came, and whether another one stands where they are.

    Where one alone went and one alone came they are the same far more often than in a crowd.
    """
    alike = _family(before)[..., :, None] == _family(after)[..., None, :]
    shared = overlaps(before.box, after.box) * alike
    gone, come = (shared.amax(-1) < _SETTLED, shared.amax(-2) < _SETTLED) if shared.numel() else (
        before.score > 1, after.score > 1
    )  # fmt: skip
    free = gone & (before.score >= _SEEN), come & (after.score >= _SEEN)
    counts = [
        ((own[..., :, None] == own[..., None, :]) & there[..., None, :]).sum(-1).float().log1p()
        for own, there in zip((_family(before), _family(after)), free, strict=True)
    ]
    one, two = counts[0][..., :, None].expand_as(shared), counts[1][..., None, :].expand_as(shared)
    others = _others(shared), _others(shared.mT).mT
    return [extreme(a, b) for a, b in ((one, two), others) for extreme in _EXTREMES]


def _others(shared: Tensor) -> Tensor:
    """Of each entry the largest of its row but itself."""
    if shared.shape[-1] < 2:  # noqa: PLR2004 - no other one
        return torch.zeros_like(shared)
    best, where = shared.topk(2, dim=-1)
    own = torch.arange(shared.shape[-1], device=shared.device) == where[..., :1]
    return torch.where(own, best[..., 1:], best[..., :1])


def _family(side: Ends) -> Tensor:
    return FAMILY.to(side.label.device)[side.label.argmax(-1)]


def links(logits: Tensor) -> Tensor:
    """Probability ``(..., S, T)`` that two ends with these log odds are one, considering all their rivals.

    What is left to 1 of an end's row or column is the probability that it has no partner.
    """
    weight = logits.exp()
    forth, back = torch.ones_like(weight), torch.ones_like(weight)
    for _ in range(_ROUNDS):
        sent, got = weight * back, weight * forth
        forth, back = (
            (forth + 1 / (1 + (sent.sum(-1, keepdim=True) - sent).clamp(min=0))) / 2,
            (back + 1 / (1 + (got.sum(-2, keepdim=True) - got).clamp(min=0))) / 2,
        )
    odds = weight * forth * back
    return odds / (1 + odds)
