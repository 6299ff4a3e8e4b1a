"""Exact DBSCAN on a raster in torch: all masks of a batch at once, the GPU's way.

Neighbours are counted as in the numba version. Components are those of a graph of runs: every run of core
pixels is joined, per row within eps, to the first and to the last run of that row that touch it. That is
enough: of two touching runs one is the first or last of the other, or a run of the same row within eps stands
between them. Labels then sink to the least of their component by hooking and pointer jumping.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_CHUNK = 1 << 22  # pairs of border pixel and disc offset looked at together: bounds memory


def label_tensor(
    masks: NDArray[np.bool_], half: NDArray[np.int64], min_samples: int, device: str
) -> NDArray[np.int32]:
    """Labels int32 ``(n, h, w)`` of masks, bool of that shape, equal to those of the numba version."""
    if masks.size == 0:
        return np.full(masks.shape, -1, np.int32)
    active = torch.from_numpy(masks).to(device)
    points = active.nonzero()
    core = torch.zeros_like(active)
    dense = _counts(active, points, half) >= min_samples
    core[tuple(points[dense].T)] = True
    labels = _label_components(core, half)
    _join_borders(labels, points[~dense], half)
    return np.asarray(labels.to(torch.int32).cpu().numpy(), np.int32)


def _counts(active: Tensor, points: Tensor, half: NDArray[np.int64]) -> Tensor:
    """Active pixels in the disc around every point ``(p, 3)``, int64 ``(p,)``."""
    _, height, width = active.shape
    sums = torch.nn.functional.pad(active.cumsum(2), (1, 0))
    plane, y, x = points.T
    total = torch.zeros_like(x)
    for dy in range(1 - len(half), len(half)):
        row = y + dy
        reach = int(half[abs(dy)])
        inside = (row >= 0) & (row < height)
        row = row.clamp(0, height - 1)
        count = (
            sums[plane, row, (x + reach + 1).clamp(max=width)] - sums[plane, row, (x - reach).clamp(min=0)]
        )
        total += count * inside
    return total


def _label_components(core: Tensor, half: NDArray[np.int64]) -> Tensor:
    """Labels of core pixels, int64 ``(n, h, w)``, -1 elsewhere; each mask counts from 0 in raster order."""
    count, height, width = core.shape
    padded = torch.nn.functional.pad(core, (1, 1)).to(torch.int8)
    edges = padded[:, :, 1:] - padded[:, :, :-1]
    plane, row, first = (edges == 1).nonzero().T
    last = (edges == -1).nonzero()[:, 2] - 1
    labels = torch.full(core.shape, -1, dtype=torch.int64, device=core.device)
    if first.numel() == 0:
        return labels
    root = _components(first.numel(), *_run_edges(plane * height + row, first, last, half, (height, width)))
    is_root = root == torch.arange(root.numel(), device=root.device)
    number = is_root.cumsum(0) - 1
    before = torch.bincount(plane[is_root], minlength=count).cumsum(0).roll(1)
    before[0] = 0
    run = (edges[:, :, :-1] == 1).flatten().cumsum(0).view(core.shape) - 1
    of_run = number[root] - before[plane]
    labels[core] = of_run[run[core]]
    return labels


def _run_edges(
    line: Tensor, first: Tensor, last: Tensor, half: NDArray[np.int64], size: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Edges between runs, as two index vectors; a line is a row of the batch, size the height and width."""
    height, width = size
    row = line % height
    span = width + 2 * int(half[0]) + 2  # keys of one row never reach into the next
    firsts, lasts = line * span + first, line * span + last
    here = torch.arange(first.numel(), device=first.device)
    ones, others = [], []
    for dy in range(1 - len(half), len(half)):
        reach = int(half[abs(dy)])
        inside = (row + dy >= 0) & (row + dy < height)
        low = torch.searchsorted(lasts, firsts + dy * span - reach)
        high = torch.searchsorted(firsts, lasts + dy * span + reach, right=True) - 1
        touches = inside & (low <= high)
        for end in (low, high):
            joins = touches & (end != here)
            ones.append(here[joins])
            others.append(end[joins])
    return torch.cat(ones), torch.cat(others)


def _components(nodes: int, ones: Tensor, others: Tensor) -> Tensor:
    """Least node of every node's component, int64 ``(nodes,)``."""
    root = torch.arange(nodes, device=ones.device)
    while ones.numel():
        a, b = root[ones], root[others]
        apart = a != b
        if not apart.any():
            break
        ones, others, a, b = ones[apart], others[apart], a[apart], b[apart]
        root = root.scatter_reduce(0, torch.maximum(a, b), torch.minimum(a, b), "amin")
        while True:
            jumped = root[root]
            if torch.equal(jumped, root):
                break
            root = jumped
    return root


def _join_borders(labels: Tensor, border: Tensor, half: NDArray[np.int64]) -> None:
    """Give border pixels ``(p, 3)`` the label of their nearest core pixel, in place."""
    if border.numel() == 0:
        return
    _, height, width = labels.shape
    offsets = torch.from_numpy(_disc(half)).to(labels.device)
    step = max(1, _CHUNK // len(offsets))
    nearest_labels = []
    for start in range(0, len(border), step):
        plane, y, x = (column[:, None] for column in border[start : start + step].T)
        rows, columns = y + offsets[:, 0], x + offsets[:, 1]
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        candidates = labels[plane, rows.clamp(0, height - 1), columns.clamp(0, width - 1)]
        candidates = torch.where(inside, candidates, -1)
        nearest = (candidates >= 0).to(torch.int8).argmax(1, keepdim=True)
        nearest_labels.append(candidates.gather(1, nearest)[:, 0])
    labels[tuple(border.T)] = torch.cat(nearest_labels)


def _disc(half: NDArray[np.int64]) -> NDArray[np.int64]:
    """Offsets ``(dy, dx)`` of the disc, nearest first; ties as the numba version breaks them."""
    offsets = [
        (dy, dx)
        for dy in range(1 - len(half), len(half))
        for dx in range(-int(half[abs(dy)]), int(half[abs(dy)]) + 1)
    ]
    offsets.sort(key=lambda o: (o[0] ** 2 + o[1] ** 2, abs(o[0]), o[0], o[1]))
    return np.array(offsets, np.int64)
