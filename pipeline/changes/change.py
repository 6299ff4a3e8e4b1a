"""From frame pairs to changes, a batch at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment import Shift
from pipeline.changes.difference import ChangeOptions, Difference, difference
from pipeline.changes.scene import SceneEvent, scene_event
from pipeline.clusters import Cluster, dbscan, find_clusters
from pipeline.kernels.difference import grey_moments
from pipeline.pairs import FramePair

Rank = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From salience features float32 ``(K, 4)`` to scores ``(K,)``, the higher the more salient."""

_BOX_AREA = itemgetter(np.s_[:, 2])
_COMPARED = (SceneEvent.NONE, SceneEvent.LIGHT)  # of an unchanged scene: frames can be compared


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The differences between the frames of one pair."""

    pair: FramePair
    shift: tuple[int, int]  # ``(dx, dy)`` in analysis pixels: `before` moved by it lies on `after`
    clusters: tuple[Cluster, ...]  # most salient first
    salience: NDArray[np.float32]  # float32 ``(K,)``, one score per cluster, descending
    event: SceneEvent  # of the entire scene; there are clusters only if it is NONE or LIGHT

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Bool ``(height, width)``, where any cluster is; ``(1, 1)`` without clusters."""
        masks = [cluster.mask for cluster in self.clusters] or [np.zeros((1, 1), bool)]
        return np.asarray(np.logical_or.reduce(masks))


def find_changes(
    pairs: Sequence[FramePair],
    options: ChangeOptions | None = None,
    rank: Rank | None = None,
    device: str | None = None,
) -> list[Change]:
    """Changes of frame pairs, which may be of different cameras and sizes; a batch equals its singles.

    What a pair's masks touch is in no cluster. `rank` gives clusters their salience, None by the area of the
    box, the paper's heuristic. On a GPU's torch device the batch is clustered there, on None and ``"cpu"``
    with numba. ValueError where a picture is not RGB uint8 ``(h, w, 3)``.
    """
    options = options or ChangeOptions()
    nothing = np.zeros(0, np.float32)
    events = [
        scene_event(pair.before.luma, pair.after.luma) if pair.beyond_upper else SceneEvent.NONE
        for pair in pairs
    ]
    compared = [pair for pair, event in zip(pairs, events, strict=True) if event in _COMPARED]
    differences = [difference(p.before.image, p.after.image, options, p.masks) for p in compared]
    results = iter(_cluster(differences, options, rank, device))
    changes = []
    for pair, event in zip(pairs, events, strict=True):
        shift, clusters, salience = next(results) if event in _COMPARED else ((0, 0), (), nothing)
        changes.append(Change(pair, shift, clusters, salience, event))
    return changes


def image_changes(
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    options: ChangeOptions | None = None,
    rank: Rank | None = None,
) -> tuple[Shift, tuple[Cluster, ...], NDArray[np.float32]]:
    """Changes between two plain images: `find_changes` without frames and scene events.

    Returns the alignment shift ``(dx, dy)``, the clusters, most salient first, and their salience.
    Raises `ValueError`.
    """
    options = options or ChangeOptions()
    return _cluster([difference(before, after, options)], options, rank, None)[0]


def salience_features(cluster: Cluster) -> NDArray[np.float32]:
    """The alignment prior's features of a cluster (Jhamtani 2018, section 4).

    float32 ``(4,)``: height, width and area of the tight box and the share of active pixels, all in 0..1 of
    the frame.
    """
    _, _, width, height = cluster.box
    return np.array([height, width, height * width, cluster.active_pixels / cluster.mask.size], np.float32)


def _cluster(
    differences: Sequence[Difference], options: ChangeOptions, rank: Rank | None, device: str | None
) -> list[tuple[Shift, tuple[Cluster, ...], NDArray[np.float32]]]:
    if not differences:
        return []
    if device in {None, "cpu"}:
        labels = [dbscan(d.mask, options.eps, options.min_samples) for d in differences]
    else:
        stack = np.stack([d.mask for d in differences])
        labels = list(dbscan(stack, options.eps, options.min_samples, device))
    results = []
    for each, plane in zip(differences, labels, strict=True):
        clusters = find_clusters(plane, _select_labels(each, plane, options))
        ordered, salience = _rank(clusters, rank or _BOX_AREA)
        results.append((each.shift, ordered, salience))
    return results


def _select_labels(difference: Difference, labels: NDArray[np.int32], options: ChangeOptions) -> list[int]:
    """Labels of the largest clusters that have `min_area` and are no mere change of light."""
    moments = grey_moments(difference.before, difference.after, labels, int(labels.max()) + 1)
    active = moments[:, 0]
    keep = active >= options.min_area * labels.size
    if options.light_correlation is not None:
        keep &= _correlations(moments) <= options.light_correlation
    order = np.argsort(-active, kind="stable")
    return [int(label) for label in order if keep[label]][: options.max_clusters]


def _rank(clusters: tuple[Cluster, ...], rank: Rank) -> tuple[tuple[Cluster, ...], NDArray[np.float32]]:
    features = np.array([salience_features(c) for c in clusters], np.float32).reshape(-1, 4)
    scores = np.asarray(rank(features), np.float32) if clusters else np.zeros(0, np.float32)
    if scores.shape != (len(clusters),):
        raise ValueError(f"rank gave scores of shape {scores.shape} for {len(clusters)} clusters")
    order = np.argsort(-scores, kind="stable")
    return tuple(clusters[i] for i in order), scores[order]


def _correlations(moments: NDArray[np.int64]) -> NDArray[np.float64]:
    """Correlation of before's with after's grey values per label, ``(K,)``; 0 where one of them is flat."""
    n, sx, sy, sxx, syy, sxy = moments.T.astype(np.float64)
    variances = (n * sxx - sx * sx) * (n * syy - sy * sy)
    covariance = n * sxy - sx * sy
    flat = np.zeros(len(moments), np.float64)
    correlations: NDArray[np.float64] = np.divide(
        covariance, np.sqrt(variances), out=flat, where=variances > 0
    )
    return correlations
