"""What a captioner remembers while it writes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """N rows, each one sentence in the making about one cluster of one pair, or about a pair as a whole.

    Attributes:
        pair, cluster: int64 ``(N,)``, which pair of the batch and which of its clusters a row tells,
            -1 where it tells the whole pair.
        log_prior: float32 ``(B, K)``, log P(z = k | X) of every cluster; -inf for padding; zeros ``(B, 1)``
            where rows tell whole pairs.
        pictures: what the row sees, ``(N, ...)`` each; the same at every step.
        memory: what the row has said so far, ``(N, ...)`` each; changed by every step.
    """

    pair: Tensor
    cluster: Tensor
    log_prior: Tensor
    pictures: tuple[Tensor, ...]
    memory: tuple[Tensor, ...]

    @classmethod
    def of_pairs(cls, pictures: tuple[Tensor, ...], memory: tuple[Tensor, ...]) -> State:
        """One row for each of B whole pairs, of what it sees and remembers, ``(B, ...)`` each."""
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
        """As `select`, for N rows that each take the memory of a row of the same pair and cluster."""
        return replace(self, memory=tuple(x.index_select(0, rows) for x in self.memory))

    def remember(self, *memory: Tensor) -> State:
        """The same rows after a step."""
        return replace(self, memory=memory)
