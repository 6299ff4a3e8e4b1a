"""From labels to clusters: masks and tight boxes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from pipeline.kernels.raster import label_bounds


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
    bounds = label_bounds(np.ascontiguousarray(labels), int(labels.max(initial=-1)) + 1)
    clusters = []
    for label in range(len(bounds)) if wanted is None else wanted:
        if not 0 <= label < len(bounds) or bounds[label, 4] == 0:
            raise ValueError(f"label {label} does not occur among the {len(bounds)} labels of the raster")
        left, top, right, bottom, active = (int(v) for v in bounds[label])
        mask = np.zeros((height, width), np.bool_)
        rows, columns = slice(top, bottom + 1), slice(left, right + 1)
        mask[rows, columns] = labels[rows, columns] == label
        box = (left / width, top / height, (right - left + 1) / width, (bottom - top + 1) / height)
        clusters.append(Cluster(mask, box, active))
    return tuple(clusters)
