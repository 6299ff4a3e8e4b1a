"""Which thing on the before side is which thing on the after side: moved, or another one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.things import Things, overlaps

MEASURES = 9
"""What `Linker.measures` gives for each two things."""

LIKELY = 0.1
"""Least probability of a link: that one thing went and another one like it came at once is rarer in life
than in composed pairs, so little evidence is enough."""

TRACKED = 0.1
LEAST_THROUGH = 2
"""Share and number of a thing's points that must arrive in another one for the two to be one."""
LEAST_TRACKS = 4
"""Fewer points on a thing than these prove nothing."""
APART_S = 1.0
"""Seconds between the last sight of one thing and the first of another from which they are two."""
_INSTANT = 1e-3


class Linker(nn.Module):
    """P(two things are one object), from how they look and where they are.

    Every measure is the same when the two things are exchanged, so a pair read backwards has the same links.
    """

    def __init__(self, hidden: int = 16) -> None:
        """Build with random weights."""
        super().__init__()
        self.net = nn.Sequential(nn.Linear(MEASURES, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, before: Things, after: Things) -> Tensor:
        """Logits float32 ``(S, T)`` of all S things before with all T after, of whatever pairs."""
        logits: Tensor = self.net(self.measures(before, after))[..., 0]
        return logits

    @staticmethod
    def measures(before: Things, after: Things) -> Tensor:
        """What tells whether two things are one: float32 ``(S, T, MEASURES)``, about -3..3."""
        a, b = before.box, after.box
        shared, least, union = overlaps(a, b)
        log_a, log_b = _log_sizes(a), _log_sizes(b)
        size = 0.5 * (log_a[:, None].exp() + log_b[None].exp())
        apart = _centres(a)[:, None] - _centres(b)[None]
        likeness = torch.nn.functional.cosine_similarity(before.feature[:, None], after.feature[None], dim=2)
        colour = (before.colour[:, None] - after.colour[None]).abs()
        label = (before.label[:, None] * after.label[None]).sum(2)
        return torch.stack(
            [
                2 * likeness,
                colour[..., :3].mean(2),
                colour[..., 3:].mean(2),
                2 * label,
                3 * (log_a[:, None] - log_b[None]).abs().amax(2),
                (apart / size).norm(dim=2).clamp(max=8) / 2,
                apart.norm(dim=2) * 4,
                2 * shared / union.clamp(min=1e-9),
                shared / least.clamp(min=1e-9),
            ],
            dim=2,
        )


def _log_sizes(box: Tensor) -> Tensor:
    return box[:, 2:].clamp(min=1e-3).log()


def _centres(box: Tensor) -> Tensor:
    return box[:, :2] + box[:, 2:] / 2


def linked(
    probability: Tensor, before: Things, after: Things, least: float = LIKELY
) -> list[tuple[int, int]]:
    """Links between the things of one batch, each thing at most once, the surest links first.

    Args:
        probability: float32 ``(S, T)``.
        before: S things.
        after: T things; only things of one pair are linked.
        least: least probability of a link.
    """
    allowed = (probability >= least) & (before.pair[:, None] == after.pair[None])
    i, j = allowed.nonzero(as_tuple=True)
    order = sorted(zip((-probability[i, j]).tolist(), i.tolist(), j.tolist(), strict=True))
    links: list[tuple[int, int]] = []
    used: tuple[set[int], set[int]] = (set(), set())
    for _, first, second in order:
        if first not in used[0] and second not in used[1]:
            used[0].add(first)
            used[1].add(second)
            links.append((first, second))
    return links


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
    if tracks is None or not tracks.shape[1]:
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
