"""Several small networks that were trained from other seeds, with one answer."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Ensemble(nn.ModuleList):
    """The mean of its members' log odds (Lakshminarayanan et al. 2017, "deep ensembles", over logits)."""

    def forward(self, *given: object) -> Tensor:
        """Mean of the members' outputs."""
        return torch.stack([member(*given) for member in self]).mean(0)


def ensemble(members: Iterable[nn.Module]) -> nn.Module:
    """Some members as one; one alone is itself."""
    several = list(members)
    return several[0] if len(several) == 1 else Ensemble(several)
