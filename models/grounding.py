"""How well things, links and prior agree with what is known: the parts of the grounded captioner's loss."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from models.perception import Truth
from models.telling import Tale
from models.things import Things, overlaps

IS_IT = 0.4
"""Least overlap (intersection over union) of a thing with the true object that it is."""


def matched(things: Things, truth: Truth, side: int) -> Tensor:
    """Which true object each thing is: int64 ``(T,)``, -1 for none."""
    if not len(things) or not truth.box.shape[1]:
        return torch.full((len(things),), -1, dtype=torch.int64, device=things.pair.device)
    boxes = truth.box[things.pair]  # (T, M, 4)
    shared, _, union = overlaps(things.box, boxes.flatten(0, 1))
    overlap = (shared / union.clamp(min=1e-9)).view(len(things), *boxes.shape[:2])
    own = overlap[torch.arange(len(things)), torch.arange(len(things))]
    own = own.masked_fill(truth.side[things.pair] != side, 0.0)
    best, which = own.max(1)
    return torch.where(best >= IS_IT, which, -1)


def identities(things: Things, found: Tensor, truth: Truth) -> Tensor:
    """The identity of each thing, int64 ``(T,)``; -1 where it is no true object or not known."""
    if not truth.identity.shape[1]:
        return found
    known = truth.identity[things.pair, found.clamp(min=0)]
    return torch.where(found >= 0, known, -1)


def link_loss(logits: Tensor, before: Things, after: Things, same: tuple[Tensor, Tensor]) -> Tensor:
    """Binary cross-entropy over pairs of things whose identities are known.

    Args:
        logits: float32 ``(S, T)``.
        before: S things.
        after: T things.
        same: identities ``(S,)`` and ``(T,)``, -1 where not known.
    """
    first, second = same
    known = (first[:, None] >= 0) & (second[None] >= 0) & (before.pair[:, None] == after.pair[None])
    if not known.any():
        return logits.sum() * 0
    target = (first[:, None] == second[None]).float()
    return binary_cross_entropy_with_logits(logits[known], target[known])


def prior_loss(
    log_prior: Tensor, rows: Sequence[Tale | None], row_pair: Tensor, truth: Truth, pairs: int
) -> Tensor:
    """-log of the prior's mass on rows that tell something true, or on the row of nothing.

    Args:
        log_prior: float32 ``(R,)``, normalised over each pair's rows.
        rows: what each row tells; None for nothing.
        row_pair: int64 ``(R,)``.
        truth: of the pairs.
        pairs: number of pairs.
    """
    boxes = truth.box.tolist()
    sides, sure = truth.side.tolist(), truth.sure.tolist()
    right = torch.zeros(len(rows), dtype=torch.bool, device=log_prior.device)
    told = [any(s >= 0 for s in each) for each in sides]
    for r, tale in enumerate(rows):
        b = int(row_pair[r])
        if tale is None:
            right[r] = not told[b]
            continue
        for where, side in ((tale.before, 0), (tale.after, 1)):
            for box, s, known in zip(boxes[b], sides[b], sure[b], strict=True):
                if where and s == side and known and _iou(where, box) >= IS_IT:
                    right[r] = True
    kept = log_prior.masked_fill(~right, -1e4)
    totals = [
        torch.logsumexp(kept[row_pair == b], 0) for b in range(pairs) if bool(right[row_pair == b].any())
    ]
    return -torch.stack(totals).mean() if totals else log_prior.sum() * 0


def _iou(a: Sequence[float], b: Sequence[float]) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    return shared / max(a[2] * a[3] + b[2] * b[3] - shared, 1e-9)
