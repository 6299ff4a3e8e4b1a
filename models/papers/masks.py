"""Cluster masks at the resolution of the encoder's map.

Jhamtani 2018, section 4: "we use pyramid reduce downsampling on a smoothed version of cluster mask", from
224 to 14. One level of the pyramid is a Gaussian of sigma 2 * 2 / 6 and a halving, as scikit-image's
`pyramid_reduce` has it; four levels lead from 224 to 14. All of it is linear and separable, so it is one
matrix for the rows and one for the columns.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool1d

FULL, LEVELS = 224, 4
"""The paper's mask size, and halvings down to 14."""

LEVEL_SIGMA = 2 * 2 / 6
TRUNCATE = 4.0
"""The Gaussian ends at this many sigma, as in scikit-image."""


def project_masks(masks: Tensor, smoothing: float) -> Tensor:
    """From masks ``(..., height, width)``, 0..1, to float32 ``(..., 14, 14)``; smoothing 0 is none."""
    rows = _reduction(masks.shape[-2], smoothing).to(masks.device)
    columns = _reduction(masks.shape[-1], smoothing).to(masks.device)
    return rows @ masks.float() @ columns.T


@lru_cache(maxsize=16)
def _reduction(size: int, smoothing: float) -> Tensor:
    """Float32 ``(14, size)``: what each cell takes from each row or column of the mask."""
    with torch.inference_mode(mode=False), torch.no_grad():
        matrix = adaptive_avg_pool1d(torch.eye(size, dtype=torch.float64).unsqueeze(0), FULL)[0].T
        matrix = _gaussian(FULL, smoothing) @ matrix
        for _ in range(LEVELS):
            matrix = _gaussian(len(matrix), LEVEL_SIGMA) @ matrix
            matrix = (matrix[0::2] + matrix[1::2]) / 2
        return matrix.float()


def _gaussian(size: int, sigma: float) -> Tensor:
    """Float64 ``(size, size)``: smooths a line, mirrored at its ends (d c b a | a b c d | d c b a)."""
    if sigma == 0:
        return torch.eye(size, dtype=torch.float64)
    radius = int(TRUNCATE * sigma + 0.5)
    offsets = torch.arange(-radius, radius + 1)
    kernel = torch.exp(-0.5 * (offsets / sigma).double() ** 2)
    source = (torch.arange(size).unsqueeze(1) + offsets) % (2 * size)
    source = torch.where(source >= size, 2 * size - 1 - source, source)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    return matrix.scatter_add_(1, source, (kernel / kernel.sum()).expand(size, -1))
