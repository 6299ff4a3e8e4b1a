"""Assignment: rows and columns matched so that the scores of the matches are the most in sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def assigned(score: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Rows and columns of ``(N, M)`` scores, matched one to one; only scores above 0 match."""
    rows, columns = linear_sum_assignment(-np.maximum(score, 0.0))
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if score[i, j] > 0]
