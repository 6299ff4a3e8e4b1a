"""Left and taken objects: what a person put down or took away, also where the detector has no name for it.

A background holds what each pixel showed while nothing moved there and no track covered it. Where a person
was within reach, and the region that is uncovered afterwards looks different and stays so, something was put
down or taken: whichever time the region contrasts with its surroundings.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, area, share_inside
from models.families import THINGS
from pipeline import settings
from pipeline.tracking.ends import are_one
from pipeline.tracking.memory import correlation
from pipeline.tracking.tracks import Event, Floats, Track, cover
from pipeline.tracking.turns import within_reach


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """Pixels ``(h, w)`` that differ from the background, with a rim and their box in pixels and shares."""

    pixels: NDArray[np.bool_]
    around: tuple[slice, slice]
    size: tuple[int, int]
    box: Box


class LeftObjects:
    """The background of one camera, in grey levels; NaN where it was never seen."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._background = self._last = self._covered_s = np.empty((0, 0))
        self._new_id = new_id

    def update(self, tracks: Sequence[Track], time_s: float, grey: NDArray[np.uint8]) -> Iterator[Event]:
        """What was put down or taken away, once its place has been uncovered for `HALT_S`.

        The frame is grey uint8 ``(h, w)``, 320 wide.
        """
        now = cv2.GaussianBlur(grey, (3, 3), 0).astype(np.float64)
        there = (t for t in tracks if t.unseen_s <= settings.STILL_THERE_S and not t.departed)
        covered = cover(there, grey.shape, settings.RIM_SIZES)
        if self._background.shape != now.shape:
            self._background = np.where(covered, np.nan, now)
            self._covered_s = np.where(covered, time_s, -np.inf)
            self._last = now
            return
        moves = (np.abs(now - self._last) > settings.LEFT_MOVES_LEVELS).astype(np.uint8)
        covered |= cv2.dilate(moves, np.ones((5, 5), np.uint8)) > 0
        self._covered_s[covered], self._last = time_s, now
        settled = time_s - self._covered_s >= settings.HALT_S
        changed = settled & (np.abs(now - self._background) > settings.LEFT_DIFFERS_LEVELS)
        if changed.mean() > settings.LEFT_SCENE_SHARE:
            self._background[settled], changed[:] = now[settled], False
        same = settled & ~changed
        np.copyto(self._background, now, where=same & np.isnan(self._background))
        learnt = 0.1 * (now - self._background)
        np.add(self._background, learnt, out=self._background, where=same)
        for region in _regions(changed, settled):
            if any(track.unseen_s == 0 and _reaches(track.last.box, region.box) for track in tracks):
                continue  # it may be a shadow, or taken along
            yield from self._decide(region, tracks, time_s, now)
            self._background[region.around] = now[region.around]

    def _decide(
        self, region: _Region, tracks: Sequence[Track], time_s: float, now: Floats
    ) -> Iterator[Event]:
        kind = _compare(region, self._background[region.around], now[region.around])
        near = [track for track in tracks if kind and _reached(track, region.box, time_s)]
        people = [track for track in near if track.family == "person"]
        if len(people) + sum(track.object in THINGS for track in near) < len(near):
            return  # a vehicle or an animal was there
        came = [not _reaches(track.first.box, region.box) for track in people]
        # What is missing where somebody was from the beginning may have been a part of him.
        if not any(came) or (kind == "removed" and not all(came)) or _is_named(near, region.box):
            return
        placed = kind == "placed"
        yield Event(
            kind, self._new_id(), "object", 1.0, time_s - settings.HALT_S, settings.LEAST_TURN_CONFIDENCE,
            time_s - settings.PAIR_S, time_s, None if placed else region.box, region.box if placed else None,
            rests=placed, other=_only_one(people),
        )  # fmt: skip


def _only_one(people: Sequence[Track]) -> str:
    """The first track of the one person whom all of them follow; empty where they follow several."""
    first, *others = sorted(people, key=lambda track: track.first.time_s)
    known = [first]
    for track in others:
        if not any(are_one(track, each) for each in known):
            return ""
        known.append(track)
    return first.id


def _regions(changed: NDArray[np.bool_], settled: NDArray[np.bool_]) -> Iterator[_Region]:
    """Connected regions of changed pixels, with nothing moving in or beside them."""
    if not changed.any():
        return
    height, width = changed.shape
    closed = cv2.morphologyEx(changed.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    _, labels, stats, _ = cv2.connectedComponentsWithStats(closed)
    rim = 4  # pixels
    for label, (x, y, w, h, _) in enumerate(stats.tolist()):
        around = np.s_[max(y - rim, 0) : y + h + rim, max(x - rim, 0) : x + w + rim]
        if label and settled[around].all():
            yield _Region(labels == label, around, (w, h), (x / width, y / height, w / width, h / height))


def _compare(region: _Region, before: Floats, now: Floats) -> str:
    """Placed or removed; empty where only the light changed, or too little of the picture."""
    pixels = region.pixels[region.around]
    small = pixels.sum() < settings.LEFT_PIXELS or min(region.size) < settings.LEFT_SIDE_PIXELS
    if small or np.isnan(before).any() or np.abs(now - before)[pixels].mean() < settings.LEFT_REGION_LEVELS:
        return ""
    contrasts = _contrast(before, pixels), _contrast(now, pixels)
    is_faint = abs(np.subtract(*contrasts)) < settings.LEFT_CONTRAST_LEVELS
    if is_faint or correlation(before[pixels], now[pixels]) > settings.LEFT_CORRELATION:
        return ""
    return "placed" if contrasts[1] > contrasts[0] else "removed"


def _reached(track: Track, box: Box, time_s: float) -> bool:
    """True where a place was lately within reach of a track."""
    lately = (each for each in reversed(track.observations) if each.time_s >= time_s - settings.REACHED_S)
    return any(_reaches(each.box, box) for each in lately)


def _reaches(one: Box, box: Box) -> bool:
    """True where a smaller place lies within reach of one who stands there."""
    return within_reach(one, box) and area(box) <= settings.LEFT_LARGEST_SHARE * area(one)


def _is_named(tracks: Sequence[Track], box: Box) -> bool:
    """True where the detector sees a thing there and names it: its own track tells of it."""
    things = (t for t in tracks if t.object in THINGS and t.unseen_s == 0)
    return any(share_inside(box, t.last.box) > settings.LEFT_NAMED_SHARE for t in things)


def _contrast(image: Floats, pixels: NDArray[np.bool_]) -> float:
    """Grey levels between the middle of a region and of what surrounds it."""
    rim = ~cv2.dilate(pixels.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    return abs(float(np.median(image[pixels]) - np.median(image[rim])))
