"""Ranks of a retrieval: how far in front the right candidate is."""

from __future__ import annotations

from torch import Tensor


def ranks(scores: Tensor, targets: Tensor) -> Tensor:
    """The place of each query's right candidate, 1 the best, int64 ``(Q,)``.

    Candidates of an equal score stand before it: a system that gives all the same score is no good.

    Args:
        scores: float ``(Q, C)``, higher is better.
        targets: int64 ``(Q,)``, the right candidate of each query.

    Raises:
        ValueError: the shapes do not fit, or a score is NaN.
    """
    if scores.dim() != 2 or targets.shape != scores.shape[:1]:  # noqa: PLR2004 - queries and candidates
        raise ValueError(f"scores (Q, C) and targets (Q,), not {tuple(scores.shape)}, {tuple(targets.shape)}")
    if bool(scores.isnan().any()):
        raise ValueError("a score is NaN; such a candidate has no rank")
    right = scores.gather(1, targets.unsqueeze(1))
    return (scores >= right).sum(1)
