"""Things: from what the network answers in every cell to a few objects on each side of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from models.perception import Seen, cell_centres

FLOOR = 0.05
"""Centres less sure than this are not looked at."""
OVERLAP = 0.5
"""Two things of one side that share this much (intersection over union) are one."""
FLAT = 1e-4
"""Product of two deviations (of -1..1) below which nothing can be correlated."""
GHOST = 0.5
"""A thing less sure than this share of what is at its place on the other side only mirrors that."""
MOST_OF_A_CROP = 10
MOST_OF_A_PAIR = 20
"""Things of one side, the surest ones; an untrained network sees hundreds."""
CONTAINED = 0.8
"""So are two of which one holds this share of the other."""
PART, SMALLER = 0.5, 4.0
"""... or this share of one of its own class that has so many times less area: a bottle's neck."""


@dataclass(frozen=True, slots=True, eq=False)
class Things:
    """T things seen on one side of the B pairs of a batch, the surest of each pair first.

    Attributes:
        pair, cluster: int64 ``(T,)``, which pair, and which of the N crops.
        box: float32 ``(T, 4)``, ``x, y, width, height`` in 0..1 of the frame, cut at its edge.
        score: float32 ``(T,)``, how sure it is that an object is there on this side only, 0..1.
        label: float32 ``(T, classes)``, probabilities.
        feature: float32 ``(T, F)``, this side's embedding, mean over the changed part of the box.
        colour: float32 ``(T, 6)``, mean and deviation of red, green and blue there, -1..1.
    """

    pair: Tensor
    cluster: Tensor
    box: Tensor
    score: Tensor
    label: Tensor
    feature: Tensor
    colour: Tensor

    def __len__(self) -> int:
        return len(self.pair)

    def select(self, rows: Tensor) -> Things:
        """The given rows, int64 ``(M,)``, in the given order."""
        parts = (self.pair, self.cluster, self.box, self.score, self.label, self.feature, self.colour)
        return Things(*(part[rows] for part in parts))


def find_things(seen: Seen, colours: Tensor, pair: Tensor, windows: Tensor, masks: Tensor) -> Things:
    """Peaks of the centre map with their boxes, those of overlapping crops merged.

    Args:
        seen: what is seen on one side of N crops.
        colours: float32 ``(N, 3, G, G)``, that side's pictures, -1..1.
        pair: int64 ``(N,)``, which pair each crop is of.
        windows: float32 ``(N, 4)``.
        masks: float32 ``(N, G, G)``, the clusters' masks in the crops.
    """
    p = seen.centre.sigmoid()
    peak = (max_pool2d(p.unsqueeze(1), 3, stride=1, padding=1)[:, 0] == p) & (p >= FLOOR)
    best, cell = (p * peak).flatten(1).topk(MOST_OF_A_CROP, dim=1)
    n, rank = (best > 0).nonzero(as_tuple=True)
    row, column = cell[n, rank] // p.shape[-1], cell[n, rank] % p.shape[-1]
    x, y = cell_centres(windows, p.shape[-1])
    edges = seen.edges.permute(0, 2, 3, 1)[n, row, column]
    window = windows[n]
    at = torch.stack([x[n, 0, column], y[n, row, 0]], dim=1)
    low = (at - edges[:, :2] * window[:, 2:]).clamp(0, 1)
    high = (at + edges[:, 2:] * window[:, 2:]).clamp(0, 1)
    box = torch.cat([low, high - low], dim=1)
    label = seen.label.permute(0, 2, 3, 1)[n, row, column].softmax(1)
    feature, colour = pool(box, seen.feature[n], colours[n], windows[n], masks[n])
    things = Things(pair[n], n, box, p[n, row, column], label, feature, colour)
    return merged(things.select((box[:, 2:] > 0).all(1).nonzero()[:, 0]))


def pool(
    box: Tensor, feature: Tensor, colours: Tensor, windows: Tensor, masks: Tensor
) -> tuple[Tensor, Tensor]:
    """What is inside of boxes, one box per crop, the cluster's cells counting most.

    Args:
        box: float32 ``(T, 4)`` in 0..1 of the frame.
        feature: float32 ``(T, F, G, G)``.
        colours: float32 ``(T, 3, G, G)``.
        windows: float32 ``(T, 4)``.
        masks: float32 ``(T, G, G)``.

    Returns:
        Mean feature ``(T, F)``, and mean and deviation of the colours ``(T, 6)``.
    """
    grid = masks.shape[-1]
    x, y = cell_centres(windows, grid)
    cell = windows[:, 2:] / grid / 2  # a box smaller than a cell still holds one
    centre, half = box[:, :2] + box[:, 2:] / 2, torch.maximum(box[:, 2:] / 2, cell)
    across = (x - centre[:, 0, None, None]).abs() <= half[:, 0, None, None]
    down = (y - centre[:, 1, None, None]).abs() <= half[:, 1, None, None]
    weight = (across & down) * (masks + 0.05)
    weight = weight / weight.sum((1, 2), keepdim=True).clamp(min=1e-6)
    mean = torch.einsum("tchw,thw->tc", colours, weight)
    square = torch.einsum("tchw,thw->tc", colours**2, weight)
    deviation = (square - mean**2).clamp(min=0).sqrt()
    return torch.einsum("tfhw,thw->tf", feature, weight), torch.cat([mean, deviation], dim=1)


def merged(things: Things) -> Things:
    """Each pair's things by falling score, without those that a surer one of the same place tells."""
    order = sorted(range(len(things)), key=lambda t: (int(things.pair[t]), -float(things.score[t])))
    shared, least, union = overlaps(things.box, things.box)
    kind, area = things.label.argmax(1), things.box[:, 2:].prod(1)
    part = (kind[:, None] == kind[None]) & (torch.maximum(area[:, None], area[None]) >= SMALLER * least)
    same = (shared > OVERLAP * union) | (shared > CONTAINED * least) | (part & (shared > PART * least))
    same &= things.pair[:, None] == things.pair[None, :]
    repeated, pair = same.tolist(), things.pair.tolist()
    kept: dict[int, list[int]] = {}
    for t in order:
        own = kept.setdefault(pair[t], [])
        if len(own) < MOST_OF_A_PAIR and not any(repeated[t][other] for other in own):
            own.append(t)
    rows = [t for own in kept.values() for t in own]
    return things.select(torch.tensor(rows, dtype=torch.int64, device=things.pair.device))


def without_ghosts(before: Things, after: Things) -> tuple[Things, Things]:
    """Things of both sides without those that only mirror a much surer one of the other side.

    Whether an object is here or there is one question: where both sides answer yes at one place, and one of
    them much more surely, the other saw the same differing pixels.
    """
    shared, _, union = overlaps(before.box, after.box)
    same = (shared > OVERLAP * union) & (before.pair[:, None] == after.pair[None])
    weaker = same & (before.score[:, None] < GHOST * after.score[None])
    stronger = same & (after.score[None] < GHOST * before.score[:, None])
    kept = (~weaker.any(1)).nonzero()[:, 0], (~stronger.any(0)).nonzero()[:, 0]
    return before.select(kept[0]), after.select(kept[1])


def likeness(colours: Tensor, masks: Tensor) -> Tensor:
    """Correlation of before's with after's grey values on each cluster.

    Args:
        colours: float32 ``(N, 2, 3, G, G)``.
        masks: float32 ``(N, G, G)``.

    Returns:
        float32 ``(N,)`` in -1..1; 0 where one side is flat.
    """
    grey = colours.mean(2).flatten(2)
    weight = (masks / masks.sum((1, 2), keepdim=True).clamp(min=1e-6)).flatten(1)[:, None]
    centred = grey - (grey * weight).sum(2, keepdim=True)
    both = (centred[:, 0] * centred[:, 1] * weight[:, 0]).sum(1)
    spread = (centred**2 * weight).sum(2).prod(1).sqrt()
    return torch.where(spread > FLAT, both / spread.clamp(min=FLAT), 0.0)


def overlaps(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Shared area, the smaller one's area, and the union's, of all boxes ``(S, 4)`` with all ``(T, 4)``."""
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, :2] + a[:, None, 2:], b[None, :, :2] + b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    area_a, area_b = (a[:, 2] * a[:, 3])[:, None], (b[:, 2] * b[:, 3])[None, :]
    return shared, torch.minimum(area_a, area_b), area_a + area_b - shared


def of_pair(things: Things, pair: int) -> Sequence[int]:
    """Rows of one pair's things."""
    return [int(t) for t in (things.pair == pair).nonzero()[:, 0]]
