"""From frame pairs to changes, a batch at a time: events of the whole scene, or clusters that differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline import settings
from pipeline.changes.clusters import Cluster, dbscan, find_clusters
from pipeline.changes.difference import ChangeOptions, Difference, Shift, difference
from pipeline.kernels.difference import grey_moments
from pipeline.pairs import FramePair

Rank = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From salience features float32 ``(K, 4)`` to scores ``(K,)``, the higher the more salient."""


class SceneEvent(StrEnum):
    """Changes of the entire scene."""

    NONE = "none"
    LIGHT = "light_changed"
    VIEW = "view_changed"
    OBSTRUCTED = "obstructed"


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


def scene_event(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> SceneEvent:
    """Classify the change of the scene from two luma planes uint8 ``(h, w)``, which may differ in size.

    Structure is compared block by block through gradient orientations with double angles, which
    brightness, contrast and even inverted contrast (infrared at night) leave as they are. OBSTRUCTED is where
    it collapses (covered, blacked-out or blurred lens), LIGHT where it stays and brightness changes, VIEW
    where it is another one, NONE where at most a part of the blocks changed, as a big object does.
    """
    scaled = [cv2.resize(plane, (160, 96), interpolation=cv2.INTER_AREA) for plane in (before, after)]
    planes = [
        np.asarray(cv2.GaussianBlur(plane.astype(np.float32), (3, 3), 0.8), np.float32) for plane in scaled
    ]
    fields = [_orientations(plane) for plane in planes]
    energies = [np.sqrt(_blocks((field**2).sum(-1)).mean(-1)) for field in fields]
    structured = np.maximum(*energies) >= settings.SCENE_STRUCTURE_LEVELS
    brightness = [_blocks(plane).mean(-1) for plane in planes]
    if not structured.any():
        differs = float(np.median(np.abs(brightness[1] - brightness[0]))) >= settings.SCENE_BRIGHTER_LEVELS
        return SceneEvent.LIGHT if differs else SceneEvent.NONE
    same = structured & (_orientation_correlation(*fields) >= settings.SCENE_SAME_CORRELATION)
    unchanged = float(same.sum() / structured.sum())
    if unchanged < settings.SCENE_FEW_SHARE:
        sharpness = energies[1][structured].mean() / max(energies[0][structured].mean(), 1e-6)
        if sharpness < settings.SCENE_COLLAPSE_SHARE:
            return SceneEvent.OBSTRUCTED
        # A car on bare ground brings and takes all structure there is; another view shows other structure.
        other = np.minimum(*energies) >= settings.SCENE_STRUCTURE_LEVELS
        if other.mean() < settings.SCENE_OTHER_SHARE:
            return SceneEvent.NONE
        darker = float(np.abs(np.subtract(*(np.sort(each) for each in brightness))).mean())
        is_same = darker >= settings.SCENE_BRIGHTER_LEVELS  # may be a day and a night
        is_same = is_same and _alignment(*fields) >= settings.SCENE_ALIGNED_DEVIATIONS
        return SceneEvent.LIGHT if is_same else SceneEvent.VIEW
    blocks = [_blocks(plane)[same] for plane in planes]
    contrast = blocks[1].std() / max(blocks[0].std(), 1e-6)
    sharpness = np.median(energies[1][same] / np.maximum(energies[0][same], 1e-6))
    if sharpness < settings.SCENE_BLURRED_SHARE * contrast:
        return SceneEvent.OBSTRUCTED
    brighter = np.median(np.abs(brightness[1] - brightness[0])[same]) >= settings.SCENE_BRIGHTER_LEVELS
    is_same = unchanged >= settings.SCENE_MOST_SHARE
    return SceneEvent.LIGHT if brighter and is_same else SceneEvent.NONE


def _orientations(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gradients ``(h, w, 2)`` with their angle doubled, so that opposite directions are the same."""
    gx = cv2.Sobel(plane, cv2.CV_32F, 1, 0, scale=0.125)
    gy = cv2.Sobel(plane, cv2.CV_32F, 0, 1, scale=0.125)
    size = np.sqrt(gx * gx + gy * gy) + 1e-6
    return np.stack([(gx * gx - gy * gy) / size, 2 * gx * gy / size], axis=-1).astype(np.float32)


def _alignment(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Agreement of two orientation fields as they lie, compared with every other shift.

    In standard deviations over all shifts, without the nine blocks that agree most: text in the picture stays
    where another view comes. A day and a night share few blocks, yet a little of their edges everywhere.
    """
    one, other = (_normalize(field) for field in (a, b))
    surface = np.fft.ifft2(np.conj(np.fft.fft2(one)) * np.fft.fft2(other)).real
    reach = range(-2, 3)  # a camera on a mast may sway
    y, x = max(((y, x) for y in reach for x in reach), key=lambda shift: surface[shift])
    agreeing = np.real(np.conj(one) * np.roll(other, (-y, -x), (0, 1))).astype(np.float32)
    rest = np.sort(_blocks(agreeing).sum(-1))[:-9].sum()
    return float((rest - surface.mean()) / max(float(surface.std()), 1e-6))


def _normalize(field: NDArray[np.float32]) -> NDArray[np.complex64]:
    """An orientation field as complex numbers, by the strength of the edges around."""
    size = np.sqrt((field**2).sum(-1))
    around = cv2.GaussianBlur(size, (0, 0), 6) + 2.0
    complex_field = (field[..., 0] + 1j * field[..., 1]) / (around + size)
    return np.asarray(complex_field - complex_field.mean(), np.complex64)


def _blocks(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Elements of every block, ``(blocks, elements)``."""
    (height, width), side = plane.shape, 16
    parts = plane.reshape(height // side, side, width // side, side)
    return parts.transpose(0, 2, 1, 3).reshape(-1, side * side)


def _orientation_correlation(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Correlation of two orientation fields in every block, ``(blocks,)``, -1..1."""
    one, other = (np.concatenate([_centre(f[..., 0]), _centre(f[..., 1])], axis=1) for f in (a, b))
    sizes = np.sqrt((one**2).sum(1) * (other**2).sum(1)) + 1e-6
    return np.asarray((one * other).sum(1) / sizes, np.float32)


def _centre(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    blocks = _blocks(plane)
    centred: NDArray[np.float32] = blocks - blocks.mean(1, keepdims=True)
    return centred
