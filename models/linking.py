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
