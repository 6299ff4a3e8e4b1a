"""Exact DBSCAN of the active pixels of a raster, without neighbour lists (Ester et al. 1996).

A pixel is core when the disc of radius eps around it holds at least `min_samples` active pixels, itself
included (as scikit-learn counts): a disc is a run per row, so the count is one difference of prefix sums per
row. Clusters are the connected components of core pixels under "distance <= eps": two horizontal runs of core
pixels, dy rows apart, are connected exactly when the gap between them is at most the disc's half width at dy.
An active pixel that is not core joins the cluster of the nearest core pixel within eps, else it is noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from pipeline.kernels.raster import label_pixels


def dbscan(
    mask: NDArray[np.bool_], eps: float, min_samples: int, device: str | None = None
) -> NDArray[np.int32]:
    """Label the clusters of active pixels, exactly as DBSCAN on their coordinates would.

    The partition of core pixels and the noise equal scikit-learn's; labels count 0, 1, 2, ... in the raster
    order of each cluster's first core pixel. A border pixel joins its nearest core pixel's cluster (of
    equally near ones that of the nearest row, the upper before the lower, the left before the right).

    The mask is bool ``(h, w)``, or ``(n, h, w)`` for n masks at once; labels are int32 of its shape, -1 for
    inactive pixels and noise. A distance of exactly `eps` pixels counts. A torch device runs the tensor
    version, None numba. Anything else raises `ValueError`.
    """
    if mask.dtype != np.bool_ or mask.ndim not in {2, 3}:
        raise ValueError(f"a mask is bool (h, w) or (n, h, w), not {mask.dtype} {mask.shape}")
    if not (math.isfinite(eps) and eps >= 0) or min_samples < 1:
        raise ValueError(f"eps is {eps} and min_samples {min_samples}; they must be >= 0 and >= 1")
    stack = np.ascontiguousarray(mask if mask.ndim == 3 else mask[None])  # noqa: PLR2004 - axes
    half = half_widths(eps, max(stack.shape[1:]))
    if half[0] == 0:
        labels = _label_singletons(stack, min_samples)
    elif device is None:
        labels = np.empty(stack.shape, np.int32)
        for plane, out in zip(stack, labels, strict=True):
            words = _words(plane)
            label_pixels(words.view(np.uint8), words, half, min_samples, out)
    else:
        from pipeline.changes.clusters_torch import label_tensor  # noqa: PLC0415 - torch only where it is asked for

        labels = label_tensor(stack, half, min_samples, device)
    return labels.reshape(mask.shape)


def _label_singletons(masks: NDArray[np.bool_], min_samples: int) -> NDArray[np.int32]:
    """Labels where not even neighbouring pixels are within eps: runs of pixels would join what is apart."""
    if min_samples > 1:
        return np.full(masks.shape, -1, np.int32)
    numbers = masks.reshape(len(masks), masks[:1].size).cumsum(axis=1, dtype=np.int32).reshape(masks.shape)
    return np.where(masks, numbers - 1, np.int32(-1))


def half_widths(eps: float, longest: int) -> NDArray[np.int64]:
    """Half width of the disc of radius eps pixels, 0, 1, 2, ... rows from its centre, up to `longest`."""
    rows = np.arange(min(int(eps), longest) + 1, dtype=np.int64)
    widths = np.floor(np.sqrt(np.maximum(eps * eps - rows * rows, 0.0))).astype(np.int64)
    widths += (widths + 1) ** 2 + rows * rows <= eps * eps  # a root that rounding cut short
    widths -= widths**2 + rows * rows > eps * eps  # or made too long
    cut: NDArray[np.int64] = np.minimum(widths, longest)
    return cut


def _words(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A mask, its rows padded to whole words of eight pixels, so that empty ones are skipped at once."""
    height, width = mask.shape
    words = np.zeros((height, (width + 7) // 8), np.uint64)
    words.view(np.bool_)[:, :width] = mask
    return words


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """One cluster of active pixels."""

    mask: NDArray[np.bool_]  # bool ``(height, width)`` at analysis size, where the after frame is
    box: Box  # tight box of the mask, ``(x, y, width, height)`` in 0..1
    active_pixels: int  # number of True in `mask`


def find_clusters(labels: NDArray[np.int32], wanted: Sequence[int] | None = None) -> tuple[Cluster, ...]:
    """Clusters of a raster of labels, int32 ``(h, w)``: -1 for none, else 0, 1, 2, ... without gaps.

    There is one for each wanted label (None: all), in their order; ValueError where one does not occur.
    """
    height, width = labels.shape
    clusters = []
    for label in range(int(labels.max(initial=-1)) + 1) if wanted is None else wanted:
        mask = labels == label
        left, top, across, down = cv2.boundingRect(mask.view(np.uint8))
        if not across:
            raise ValueError(f"label {label} does not occur in the raster")
        box = (left / width, top / height, across / width, down / height)
        clusters.append(Cluster(mask, box, int(np.count_nonzero(mask))))
    return tuple(clusters)
