"""Points followed from before forwards and from after backwards.

Two stills cannot tell one walker from two. The frames in between can: points on the clusters are followed
with pyramidal Lucas-Kanade (Bouguet 2001, "Pyramidal implementation of the affine Lucas Kanade feature
tracker"), and each step must lead back to where it came from (forward-backward error of Kalal, Mikolajczyk
and Matas 2010, "Forward-backward error: automatic detection of tracking failures"). A point that is lost
while its object is still to be seen (it turned, or took more than its own length in one step) is followed
further as part of a region, see `Presence`; such a track says until when, and never links before to after.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.clusters import Cluster
from pipeline.pairs import FramePair, small_plane
from pipeline.sources import Luma
from pipeline.tracks.presence import Presence

Tracks = NDArray[np.float32]
"""float32 ``(P, 6)``: x_start, y_start, s_start, x_end, y_end, s_end."""

MAX_POINTS = 256
"""Points seeded on each side at most."""

_LEAST = 8  # points a cluster may have, however many clusters there are
_QUALITY = 0.01  # of the best corner of the cluster: what is weaker cannot be found again
_APART = 3.0  # pixels between two points
_WINDOW = 11  # pixels: about a distant person
_LEVELS = 3  # halvings: a step of 30 pixels is found
_STOP = (cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, 8, 0.05)
_ASTRAY = 1.5  # pixels between a point and where the way back leads: more, and it is lost
_MARGIN = 4  # pixels around a cluster that its corners are judged with


def point_tracks(pair: FramePair, clusters: Sequence[Cluster]) -> Tracks:
    """Follow points of the clusters from before forwards and from after backwards, until they are lost.

    A track with ``s_start = 0`` and ``s_end`` = the pair's gap links a place on before with one on after. One
    that starts later was first seen at ``s_start``, one that ends earlier was last seen at ``s_end``. Points
    of the background beside an object are among them; they do not move. Deterministic; a pair whose frames
    are swapped in time gives the mirrored tracks.

    Args:
        pair: with the planes of the frames between; without them (two stills) nothing can be followed.
        clusters: of the pair; points are seeded on their masks, evenly.

    Returns:
        float32 ``(P, 6)``, P <= 2 x `MAX_POINTS`: x and y in 0..1 of the frame and seconds after the before
        frame where the track starts, then where it ends. Those seeded on before come first.
    """
    if not pair.between or not clusters:
        return np.zeros((0, 6), np.float32)
    planes = [small_plane(pair.before.luma), *(b.plane for b in pair.between), small_plane(pair.after.luma)]
    moments = [*(b.time for b in pair.between), pair.after.time]
    seconds = np.array([0.0, *((moment - pair.before.time).total_seconds() for moment in moments)])
    forwards = _tracks(planes, _seeds(planes[0], clusters), seconds)
    backwards = _tracks(planes[::-1], _seeds(planes[-1], clusters), seconds[::-1])
    tracks = np.concatenate([forwards, backwards[:, [3, 4, 5, 0, 1, 2]]])
    height, width = planes[0].shape
    return np.asarray(tracks / (width, height, 1, width, height, 1), np.float32)


def _seeds(plane: Luma, clusters: Sequence[Cluster]) -> NDArray[np.float32]:
    """Corners on the clusters' masks, float32 ``(n, 2)`` in pixels, as many on each cluster at most."""
    share = max(_LEAST, MAX_POINTS // len(clusters))
    height, width = plane.shape
    free = np.ones((height, width), np.uint8)
    found = [np.zeros((0, 2), np.float32)]
    for cluster in clusters:
        mask = cv2.resize(cluster.mask.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST)
        mask = np.asarray(cv2.dilate(mask, np.ones((3, 3), np.uint8)), np.uint8) & free
        left, top, wide, high = cv2.boundingRect(mask)
        if wide == 0:
            continue
        x, y = max(left - _MARGIN, 0), max(top - _MARGIN, 0)
        part = np.s_[y : top + high + _MARGIN, x : left + wide + _MARGIN]
        corners = cv2.goodFeaturesToTrack(
            np.ascontiguousarray(plane[part]), share, _QUALITY, _APART, mask=np.ascontiguousarray(mask[part])
        )
        if corners is not None:
            found.append(np.asarray(corners, np.float32)[:, 0] + np.array([x, y], np.float32))
        free &= 1 - mask
    return np.concatenate(found)[:MAX_POINTS]


def _tracks(
    planes: Sequence[Luma], seeds: NDArray[np.float32], seconds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Tracks from `seeds` on the first plane to where they were last seen, float64 ``(n, 6)`` in pixels."""
    places, course, last = _followed(planes, seeds)
    lost = np.flatnonzero(last < len(planes) - 1)
    height, width = planes[0].shape
    ahead = places[lost] + course[lost]
    lost = lost[((ahead >= 0) & (ahead < (width, height))).all(axis=1)]  # the others left the picture
    if lost.size:
        places[lost], last[lost] = Presence(planes).last_seen(places[lost], last[lost])
    start = np.full((len(seeds), 1), seconds[0])
    return np.concatenate([seeds, start, places, seconds[last, None]], axis=1)


def _followed(
    planes: Sequence[Luma], seeds: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.intp]]:
    """Last place of every point ``(n, 2)``, its last step ``(n, 2)``, and the plane it lies on ``(n,)``."""
    places, course = seeds.copy(), np.zeros_like(seeds)
    last = np.zeros(len(seeds), np.intp)
    alive = np.arange(len(seeds))
    for step in range(1, len(planes)):
        if not alive.size:
            break
        ahead, kept = _step(planes[step - 1], planes[step], places[alive])
        alive, ahead = alive[kept], ahead[kept]
        course[alive] = ahead - places[alive]
        places[alive] = ahead
        last[alive] = step
    return places, course, last


def _step(
    plane: Luma, onto: Luma, places: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Where points ``(n, 2)`` lie on the next plane, and which of them lead back to where they came from."""
    ahead, found = _flow(plane, onto, places)
    back, returned = _flow(onto, plane, ahead)
    height, width = onto.shape
    near = np.abs(back - places).max(axis=1) < _ASTRAY
    inside = ((ahead >= 0) & (ahead < (width, height))).all(axis=1)
    return ahead, found & returned & near & inside


def _flow(
    plane: Luma, onto: Luma, places: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    points = np.ascontiguousarray(places)[:, None]
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        plane,
        onto,
        points,
        np.empty_like(points),
        winSize=(_WINDOW, _WINDOW),
        maxLevel=_LEVELS,
        criteria=_STOP,
    )
    return np.asarray(moved, np.float32)[:, 0], np.asarray(found)[:, 0] == 1
