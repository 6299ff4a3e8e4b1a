"""Assignment: rows and columns joined so that the scores of the joined are the most in sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def assigned(score: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Rows and columns joined so that the scores of the joined are the most in sum; only scores above 0 join.

    Kuhn's method with shortest augmenting paths (Jonker and Volgenant 1987), exact.

    Args:
        score: float64 ``(N, M)``.
    """
    if score.shape[0] > score.shape[1]:
        return sorted((row, column) for column, row in assigned(score.T))
    cost = -np.maximum(score, 0.0)
    n, m = cost.shape
    u, v = np.zeros(n + 1), np.zeros(m + 1)
    owner, way = np.zeros(m + 1, int), np.zeros(m + 1, int)
    for row in range(1, n + 1):
        owner[0], column = row, 0
        least, done = np.full(m + 1, np.inf), np.zeros(m + 1, bool)
        while True:
            done[column] = True
            i = owner[column]
            reduced = cost[i - 1] - u[i] - v[1:]
            better = ~done[1:] & (reduced < least[1:])
            least[1:][better], way[1:][better] = reduced[better], column
            following = int(np.where(done, np.inf, least).argmin())
            step = least[following]
            u[owner[done]] += step
            v[done] -= step
            least[~done] -= step
            column = following
            if owner[column] == 0:
                break
        while column:
            owner[column], column = owner[way[column]], way[column]
    pairs = [(int(owner[j]) - 1, j - 1) for j in range(1, m + 1) if owner[j]]
    return sorted((i, j) for i, j in pairs if score[i, j] > 0)
