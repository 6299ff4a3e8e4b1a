"""The state of decoding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """N rows, each one sentence in decoding about one cluster of a pair, or about a pair.

    Attributes:
        pair, cluster: int64 ``(N,)``, the pair of the batch and its cluster that a row describes,
            -1 for the entire pair.
        log_prior: float32 ``(B, K)``, log P(z = k | X) of every cluster; -inf for padding; zeros ``(B, 1)``
            where rows describe entire pairs.
        pictures: visual features, ``(N, ...)`` each; the same at every step.
        memory: recurrent state, ``(N, ...)`` each; changed by every step.
    """

    pair: Tensor
    cluster: Tensor
    log_prior: Tensor
    pictures: tuple[Tensor, ...]
    memory: tuple[Tensor, ...]

    @classmethod
    def of_pairs(cls, pictures: tuple[Tensor, ...], memory: tuple[Tensor, ...]) -> State:
        """One row for each of B pairs, of tensors ``(B, ...)``."""
        count, device = len(memory[0]), memory[0].device
        return cls(
            torch.arange(count, device=device),
            torch.full((count,), -1, device=device),
            torch.zeros(count, 1, device=device),
            pictures,
            memory,
        )

    def __len__(self) -> int:
        return len(self.pair)

    def select(self, rows: Tensor) -> State:
        """The given rows, in the given order, repeated where given twice; `rows` is int64 ``(M,)``."""
        return replace(
            self,
            pair=self.pair[rows],
            cluster=self.cluster[rows],
            pictures=tuple(x.index_select(0, rows) for x in self.pictures),
            memory=tuple(x.index_select(0, rows) for x in self.memory),
        )

    def reorder(self, rows: Tensor) -> State:
        """Like `select`, for N rows that each take the memory of a row of the same pair and cluster."""
        return replace(self, memory=tuple(x.index_select(0, rows) for x in self.memory))

    def remember(self, *memory: Tensor) -> State:
        """The same rows after a step."""
        return replace(self, memory=memory)
