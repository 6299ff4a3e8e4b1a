"""What the points followed through the frames in between prove: which thing is which, and when it came."""

from __future__ import annotations

import torch
from torch import Tensor

from models.telling import Tale
from models.things import Things

TRACKED = 0.1
LEAST_THROUGH = 2
"""Share and number of a thing's points that must arrive in another one for the two to be one."""
LEAST_TRACKS = 4
"""Fewer points on a thing than these prove nothing."""
APART_S = 1.0
"""Seconds between the last sight of one thing and the first of another from which they are two."""
_INSTANT = 1e-3
_EARLY = 0.1  # quantile of the points' times: what comes is seen piece by piece


def followed(probability: Tensor, before: Things, after: Things, tracks: Tensor | None) -> Tensor:
    """What the frames in between say, where they say something: a track is worth more than any appearance.

    Args:
        probability: float32 ``(S, T)``, by appearance.
        before: S things.
        after: T things.
        tracks: float32 ``(B, P, 6)``: x, y, seconds at the start and at the end, NaN for padding (see
            `pipeline.tracks`); None where there are no frames in between.

    Returns:
        float32 ``(S, T)``: near 1 where tracks that leave one thing arrive in the other; near 0 where one was
        gone long before the other came, or both were there at once; unchanged where the tracks do not tell.
    """
    if tracks is None or not tracks.shape[1] or not probability.numel():
        return probability
    start, end = tracks[..., 2], tracks[..., 5]
    last = end.nan_to_num(nan=0.0).amax(1, keepdim=True) - _INSTANT
    starts = _inside(tracks[before.pair][..., :2], before.box) & (start <= 0)[before.pair]  # (S, P)
    ends = _inside(tracks[after.pair][..., 3:5], after.box) & (end >= last)[after.pair]  # (T, P)
    same = before.pair[:, None] == after.pair[None]
    through = (starts.float() @ ends.float().T) * same
    # Of all points seeded on either, not of those alone that run through: a few of the background always do.
    left, arrived = starts.sum(1).float()[:, None], ends.sum(1).float()[None]
    share = through / torch.minimum(left, arrived).clamp(min=1)
    proved = same & (share >= TRACKED) & (through >= LEAST_THROUGH)
    gone = end[before.pair].masked_fill(~starts, torch.nan).nanquantile(0.9, dim=1)
    came = start[after.pair].masked_fill(~ends, torch.nan).nanquantile(0.1, dim=1)
    enough = same & (left >= LEAST_TRACKS) & (arrived >= LEAST_TRACKS)
    apart = enough & ((gone[:, None] - came[None]).abs() > APART_S)
    return torch.where(proved, 0.98, torch.where(apart, 0.02, probability))


def _inside(points: Tensor, box: Tensor) -> Tensor:
    """Which points ``(S, P, 2)`` lie in each box ``(S, 4)``: bool ``(S, P)``; NaN lies nowhere."""
    low, high = box[:, None, :2], box[:, None, :2] + box[:, None, 2:]
    return ((points >= low) & (points <= high)).all(2)


def moment_s(tale: Tale, tracks: Tensor | None) -> float | None:
    """When it happened, by the points that were followed: when first seen, or when last seen."""
    if tracks is None or tale.type not in ("appeared", "disappeared"):
        return None
    own = tracks[tale.pair]
    start, end = own[:, 2], own[:, 5]
    last = end.nan_to_num(nan=0.0).amax() - _INSTANT
    came = tale.type == "appeared"
    # Points of the background are there from the first frame to the last and tell nothing.
    at, passing = (
        (own[:, 3:5], (end >= last) & (start > 0)) if came else (own[:, :2], (start <= 0) & (end < last))
    )
    x, y, width, height = tale.box
    low, size = at.new_tensor([x, y]), at.new_tensor([width, height])
    inside = ((at >= low) & (at <= low + size)).all(1) & passing
    if not bool(inside.any()):
        return None
    return float(start[inside].quantile(_EARLY) if came else end[inside].quantile(1 - _EARLY))
