"""Several small networks that learnt the same by other chances, heard as one."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Committee(nn.ModuleList):
    """The mean of its members' log odds (Lakshminarayanan et al. 2017, "deep ensembles", over logits)."""

    def forward(self, *given: object) -> Tensor:
        """What the members say of the same on average: a tensor of the shape of each one's."""
        return torch.stack([member(*given) for member in self]).mean(0)


def committee(members: Iterable[nn.Module]) -> nn.Module:
    """Some members as one; one alone is itself."""
    several = list(members)
    return several[0] if len(several) == 1 else Committee(several)
