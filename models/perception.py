"""What is on each side of a cluster: one shared function of this side, the other side and the cluster's mask.

The network answers, for every cell of a crop, whether the centre of an object lies there that is on this side
of the pair and not at that place on the other, what it is, and where its edges are. Before and after go
through the same function with their parts exchanged,

    seen_before = f(before, after, mask),   seen_after = f(after, before, mask),

so exchanging the two frames exchanges what is seen: "appeared" becomes "disappeared" by construction.
Several objects in one cluster are several centres (Zhou et al. 2019, "Objects as points"); each positive cell
predicts the distances to the four edges (Tian et al. 2019, FCOS), trained by generalised IoU (Rezatofighi et
al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    adaptive_avg_pool2d,
    binary_cross_entropy_with_logits,
    cross_entropy,
    interpolate,
)

from models.encoder import PyramidEncoder

OBJECTS = ("person", "car", "vehicle", "bus", "truck", "bicycle", "cyclist", "motorcycle", "bottle", "object")
"""What a side may hold; "object" is a thing of no other class."""

STRIDE = 8
"""Pixels of a crop per cell of the answer."""

MET = 0.12
"""Least share of an object's box that a cluster's mask covers for the cluster to be about it."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What is seen in N crops on one side, G cells in each direction.

    Attributes:
        centre: logits float32 ``(N, G, G)``, an object's centre lies in the cell.
        label: logits float32 ``(N, len(OBJECTS), G, G)``.
        edges: float32 ``(N, 4, G, G)``, distances from the cell's middle to left, top, right and bottom edge,
            as shares of the crop's side, positive.
        feature: float32 ``(N, F, G, G)``, this side alone, for telling whether two objects are one.
    """

    centre: Tensor
    label: Tensor
    edges: Tensor
    feature: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What is known of B pairs, M objects each, padded.

    Attributes:
        side: int64 ``(B, M)``, 0 before, 1 after, -1 padding.
        label: int64 ``(B, M)``, index in `OBJECTS`.
        box: float32 ``(B, M, 4)``, ``x, y, width, height`` in 0..1 of the frame.
        sure: bool ``(B, M)``; nothing is learnt where an object is not sure.
        identity: int64 ``(B, M)``, equal numbers are one object, -1 where that is not known.
        weight: float32 ``(B,)``, how much it counts that a cluster holds none of the objects; below 1 where
            a teacher said so.
        told: int64 ``(B, T, 4)``, the facts of each sentence (see `models.speaker.FACTS`), -1 where they are
            not known.
    """

    side: Tensor
    label: Tensor
    box: Tensor
    sure: Tensor
    identity: Tensor
    weight: Tensor
    told: Tensor

    def to(self, device: torch.device) -> Truth:
        """The same on a device."""
        parts = (self.side, self.label, self.box, self.sure, self.identity, self.weight, self.told)
        return Truth(*(part.to(device) for part in parts))


class _Block(nn.Module):
    """A residual block: depthwise 5x5, norm, pointwise expansion and back."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.GroupNorm(1, width)
        self.pointwise = nn.Sequential(
            nn.Conv2d(width, 2 * width, 1), nn.ReLU(), nn.Dropout(dropout), nn.Conv2d(2 * width, width, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.pointwise(self.norm(self.depthwise(x)))
        return out


class Perception(nn.Module):
    """See the head of this file."""

    def __init__(
        self,
        channels: tuple[int, ...],
        *,
        width: int = 96,
        embedded: int = 64,
        blocks: int = 3,
        dropout: float = 0.1,
        other_side: bool = True,
        use_mask: bool = True,
    ) -> None:
        """Build with random weights.

        Args:
            channels: of the encoder's maps, the finest (stride 8) first.
            width: channels of the trunk.
            embedded: channels of each side's embedding.
            blocks: residual blocks of the trunk.
            dropout: in the blocks, and of whole channels of the embeddings.
            other_side: whether this side is compared with the other one.
            use_mask: whether the cluster's mask is seen and pooled over.
        """
        super().__init__()
        self.other_side, self.use_mask = other_side, use_mask
        self.embed = nn.ModuleList(nn.Conv2d(each, embedded, 1) for each in channels)
        self.embed_norm = nn.GroupNorm(4, embedded)
        self.drop = nn.Dropout2d(dropout)
        self.pooled = nn.Linear(3 * embedded, width)
        self.mix = nn.Conv2d(3 * embedded + 1, width, 1)
        self.blocks = nn.Sequential(*(_Block(width, dropout) for _ in range(blocks)))
        self.answer = nn.Conv2d(width, 1 + 4 + len(OBJECTS), 1)
        nn.init.constant_(self.answer.bias[:1], -4.0)  # type: ignore[index]  # few cells hold a centre

    def side(self, maps: tuple[Tensor, ...]) -> Tensor:
        """Embed one side's maps ``(N, C, h, w)``, finest first: ``(N, F, G, G)``."""
        size = maps[0].shape[-2:]
        total = self.embed[0](maps[0])
        for level, embed in zip(maps[1:], self.embed[1:], strict=True):
            total = total + interpolate(embed(level), size=size, mode="bilinear", align_corners=False)
        embedded: Tensor = self.drop(self.embed_norm(total).relu())
        return embedded

    def forward(
        self, before: tuple[Tensor, ...], after: tuple[Tensor, ...], masks: Tensor
    ) -> tuple[Seen, Seen]:
        """What is seen on both sides.

        Args:
            before: the encoder's maps of N crops, each level float ``(N, C, h, w)``.
            after: the same of the other frame.
            masks: float32 ``(N, G, G)``, share 0..1 of each cell that belongs to the cluster.
        """
        a, b = self.side(before), self.side(after)
        return self.look(a, b, masks), self.look(b, a, masks)

    def look(self, this: Tensor, other: Tensor, masks: Tensor) -> Seen:
        """The shared function f of the head of this file."""
        if not self.other_side:
            other = torch.zeros_like(other)
        mask = (masks if self.use_mask else torch.ones_like(masks)).unsqueeze(1)
        both = torch.cat([this, other, (this - other).abs()], dim=1)
        whole = (both * mask).sum((2, 3)) / mask.sum((2, 3)).clamp(min=1e-3)
        x = self.mix(torch.cat([both, mask], dim=1)) + self.pooled(whole)[..., None, None]
        answer = self.answer(self.blocks(x.relu()))
        edges = (answer[:, 1:5].clamp(-6, 2)).exp() * 0.25
        return Seen(answer[:, 0], answer[:, 5:], edges, this)


def crop_levels(encoder: PyramidEncoder, crops: Tensor) -> tuple[Tensor, ...]:
    """What is perceived of crops: the encoder's maps and, last, the colours themselves.

    Args:
        encoder: gives maps at strides 8, 16 and 32.
        crops: uint8 ``(N, 2, 3, S, S)``, before and after.

    Returns:
        Each level float32 ``(N, 2, C, h, w)``, the finest first; the colours have the finest's size, -1..1.
    """
    images = crops.flatten(0, 1)
    levels = encoder.pyramid(images)
    colours = adaptive_avg_pool2d((images.float() - 127) / 128, (levels[0].shape[-2], levels[0].shape[-1]))
    return tuple(level.view(len(crops), 2, *level.shape[1:]) for level in (*levels, colours))


def cell_centres(windows: Tensor, grid: int) -> tuple[Tensor, Tensor]:
    """Where the middles of the cells lie in the frame: x ``(N, 1, G)`` and y ``(N, G, 1)``, in 0..1."""
    along = (torch.arange(grid, device=windows.device) + 0.5) / grid
    x = windows[:, 0, None] + along * windows[:, 2, None]
    y = windows[:, 1, None] + along * windows[:, 3, None]
    return x[:, None, :], y[:, :, None]


def crop_masks(masks: Tensor, windows: Tensor, grid: int, samples: int = 3) -> Tensor:
    """Share of each cell of a crop that belongs to its cluster.

    Args:
        masks: bool ``(N, height, width)``, whole frames.
        windows: float32 ``(N, 4)``, ``x, y, width, height`` in 0..1.
        grid: cells in each direction.
        samples: points per cell and direction.

    Returns:
        float32 ``(N, grid, grid)``, 0 beyond the frame.
    """
    x, y = cell_centres(windows, grid * samples)
    height, width = masks.shape[1:]
    column, row = (x * width).floor().long(), (y * height).floor().long()
    inside = ((column >= 0) & (column < width)) & ((row >= 0) & (row < height))
    flat = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
    points = masks.flatten(1).gather(1, flat.flatten(1)).view(flat.shape) & inside
    return points.float().view(len(masks), grid, samples, grid, samples).mean((2, 4))


@dataclass(frozen=True, slots=True, eq=False)
class _Targets:
    """What one side of N crops should answer."""

    heat: Tensor  # (N, G, G) in 0..1, 1 in the cell of a centre
    weight: Tensor  # (N, G, G), 0 where nothing is learnt
    positive: Tensor  # (P, 4): crop, object, row, column
    edges: Tensor  # (P, 4)
    label: Tensor  # (P,)


def _targets(truth: Truth, side: int, pair: Tensor, windows: Tensor, masks: Tensor) -> _Targets:
    grid = masks.shape[-1]
    x, y = cell_centres(windows, grid)
    box, there = truth.box[pair], truth.side[pair] == side
    left, top = box[..., 0], box[..., 1]
    right, bottom = left + box[..., 2], top + box[..., 3]
    cx, cy = (left + right) / 2, (top + bottom) / 2
    px, py = x[:, None], y[:, None]  # (N, 1, 1, G), (N, 1, G, 1)

    def edge(value: Tensor) -> Tensor:
        return value[..., None, None]

    within = (px >= edge(left)) & (px <= edge(right)) & (py >= edge(top)) & (py <= edge(bottom))
    cells = windows[:, None, 2:] / grid  # (N, 1, 2): size of a cell in the frame
    size = (box[..., 2:] / cells).clamp(min=1e-3)  # object's size in cells
    covered = (within * masks[:, None]).sum((2, 3)) / (size[..., 0] * size[..., 1]).clamp(min=1)
    known = truth.sure[pair]
    met = there & known & (covered >= MET)
    dx, dy = (px - edge(cx)) / edge(cells[..., 0]), (py - edge(cy)) / edge(cells[..., 1])
    spread = (0.12 * size).clamp(min=0.45)
    bump = torch.exp(-0.5 * ((dx / edge(spread[..., 0])) ** 2 + (dy / edge(spread[..., 1])) ** 2))
    index = torch.arange(grid, device=windows.device)
    at_column = ((cx - windows[:, None, 0]) / cells[..., 0]).floor()
    at_row = ((cy - windows[:, None, 1]) / cells[..., 1]).floor()
    near = (index[None, None, None, :] == edge(at_column)) & (index[None, None, :, None] == edge(at_row))
    heat = torch.where(edge(met), torch.where(near, 1.0, bump), 0.0).amax(1) if box.shape[1] else masks * 0
    centre_in = (near & edge(met)).flatten(2).any(2)
    middle = (dx.abs() <= edge((0.2 * size[..., 0]).clamp(min=0.5))) & (
        dy.abs() <= edge((0.2 * size[..., 1]).clamp(min=0.5))
    )
    ignored = within & edge(there & ~met)  # another cluster's object, or nobody knows
    ignored |= within & edge(met & ~centre_in)  # its centre lies beyond the crop
    about = (there & (covered > 0)).any(1) | ((truth.side[pair] == 1 - side) & (covered > 0)).any(1)
    weight = torch.where(about, 1.0, truth.weight[pair])[:, None, None] * torch.ones_like(masks)
    free = ~ignored.any(1) | (heat >= 0.99)  # noqa: PLR2004 - the cell of a centre
    weight = weight * free
    # A cell belongs to the smallest object whose middle it lies in.
    area = edge(box[..., 2] * box[..., 3]).expand(middle.shape)
    owner = torch.where(middle & edge(met), area, torch.inf)
    least, which = owner.min(1) if box.shape[1] else (masks + torch.inf, masks.long())
    n, row, column = least.isfinite().nonzero(as_tuple=True)
    m = which[n, row, column]
    positive = torch.stack([n, m, row, column], dim=1)
    at_x, at_y = x[n, 0, column], y[n, row, 0]
    window = windows[n]
    edges = torch.stack(
        [
            (at_x - left[n, m]) / window[:, 2],
            (at_y - top[n, m]) / window[:, 3],
            (right[n, m] - at_x) / window[:, 2],
            (bottom[n, m] - at_y) / window[:, 3],
        ],
        dim=1,
    ).clamp(min=1e-3)
    return _Targets(heat, weight, positive, edges, truth.label[pair][n, m])


def perception_loss(
    seen: tuple[Seen, Seen], truth: Truth, pair: Tensor, windows: Tensor, masks: Tensor
) -> Tensor:
    """How far both sides' answers are from the truth, a scalar.

    Args:
        seen: before and after, N crops.
        truth: of the B pairs.
        pair: int64 ``(N,)``, which pair a crop is of.
        windows: float32 ``(N, 4)``.
        masks: float32 ``(N, G, G)``.
    """
    total = windows.new_zeros(())
    for side, answer in enumerate(seen):
        target = _targets(truth, side, pair, windows, masks)
        total = total + _centre_loss(answer.centre, target) / max(len(pair), 1)
        n, _, row, column = target.positive.unbind(1)
        if not len(n):
            continue
        label = answer.label.permute(0, 2, 3, 1)[n, row, column]
        edges = answer.edges.permute(0, 2, 3, 1)[n, row, column]
        share = 1 / max(len(pair), 1) ** 0.5 / len(n) ** 0.5
        total = total + share * cross_entropy(label, target.label, reduction="sum", label_smoothing=0.02)
        total = total + share * 2 * (1 - _generalised_iou(edges, target.edges)).sum()
    return total / 2


def _centre_loss(logits: Tensor, target: _Targets) -> Tensor:
    """Penalty-reduced focal loss (Law and Deng 2018; Zhou et al. 2019, equation 1)."""
    p = logits.sigmoid()
    hit = target.heat >= 0.99  # noqa: PLR2004 - the cell of a centre
    nearly = (1 - target.heat) ** 4
    zeros, ones = torch.zeros_like(logits), torch.ones_like(logits)
    positive = (1 - p) ** 2 * binary_cross_entropy_with_logits(logits, ones, reduction="none")
    negative = nearly * p**2 * binary_cross_entropy_with_logits(logits, zeros, reduction="none")
    return (torch.where(hit, positive, negative) * target.weight).sum()


def _generalised_iou(predicted: Tensor, true: Tensor) -> Tensor:
    """Of boxes given as distances from one point to their edges, ``(P, 4)`` each; ``(P,)`` in -1..1."""
    area = (predicted[:, 0] + predicted[:, 2]) * (predicted[:, 1] + predicted[:, 3])
    area_true = (true[:, 0] + true[:, 2]) * (true[:, 1] + true[:, 3])
    least, most = torch.minimum(predicted, true), torch.maximum(predicted, true)
    shared = (least[:, 0] + least[:, 2]) * (least[:, 1] + least[:, 3])
    hull = (most[:, 0] + most[:, 2]) * (most[:, 1] + most[:, 3])
    union = area + area_true - shared
    return shared / union.clamp(min=1e-9) - (hull - union) / hull.clamp(min=1e-9)
