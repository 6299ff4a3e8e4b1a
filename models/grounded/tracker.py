"""Tracking: every object followed through the sampled frames of a camera, about two a second.

A small tracker of our own. From ByteTrack (Zhang et al. 2022, "ByteTrack: multi-object tracking by
associating every detection box"): sure detections find their tracks first, unsure ones only continue what is
left. From OC-SORT (Cao et al. 2023, "Observation-centric SORT"): velocity comes from what was observed, not
from a filter that was left alone, and a track that is found again is filled in between. Departures, because
twice a second a walker goes more than his own width from frame to frame: likeness is a logistic score of
distance in own sizes, overlap, change of size and colours, fitted on training cameras (`LIKENESS`); and a
new track is led back through the unsure detections of earlier frames, so that what had been overlooked is
not new. Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from models.boxes import Box, box_of, overlaps
from models.detections import Detections
from models.families import first_of
from models.family_tensors import FAMILY
from models.grounded.assignment import assigned
from models.grounded.tracks import Sight, Track, alike

Floats = NDArray[np.float64]

LIKENESS = (
    (2.5, -1.4, 1.8, -1.4, -1.6, 7.0),
    (2.5, -2.4, 3.4, -1.7, -1.8, 3.5),
    (0.5, -2.4, 3.4, -1.7, -1.8, 3.5),
)
"""Bias and weights of `_likeness`: of a track seen once, whose velocity is not known, of one that goes, of
one that rests. Slopes are fitted to tracks of eight frames a second, looked at twice a second."""

UNSURE = 1.0
"""So much more likeness an unsure detection needs."""

OUTSIDE = 4.0
"""So much less likeness what has a track that must have left the frame by now."""

HIGH, LOW = 0.3, 0.15
"""Scores from which a detection finds its track first and may begin one; from which it may continue one."""

_LOST_S, _REST_LOST_S = 4.0, 10.0  # for so long what moves and is lost is looked for, and what rested
_REST = 0.4  # own sizes within which an object rests
_MEMORY_S = 90.0  # sights older than this are forgotten, but for those since it rests
_STEP_S = 0.5
_RESTS_S = 2.0
_FAMILIES = FAMILY.numpy()
_PERSON, _WHEELS = first_of("person"), first_of("two-wheeler")
_WEAK_FRAMES = 24  # of which unsure detections are kept, to lead new tracks back
_PACE = 0.6  # share of a new step in the velocity
_PAUSE_S = 12.0  # without a look: what is one after that rested
_COVERED = 0.5  # share of a place that another object must hide
_SAME_S = 1e-3  # seconds within which two moments are one
_SAME = 0.7  # intersection over union of two names for one object
_THERE = 0.3  # intersection over union of what is at one place
_PART = 0.8  # share of a box within another of its family from which it is a part of that


@dataclass(slots=True, eq=False)
class _FrameDetections:
    """Detections of one frame as arrays."""

    seconds: float
    box: Floats
    score: Floats
    label: Floats
    family: NDArray[np.int64]
    looks: Floats | None
    used: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.used = np.zeros(len(self.box), bool)


class Tracker:
    """Follows the objects of one camera, frame by frame in the order of time.

    Args:
        aspect: width of the frame over its height.
    """

    def __init__(self, aspect: float) -> None:
        self.aspect = aspect
        self.tracks: list[Track] = []
        self.seconds: float | None = None
        self._count = 0
        self._weak: deque[_FrameDetections] = deque(maxlen=_WEAK_FRAMES)

    def step(self, seconds: float, detections: Detections, looks: Tensor | None = None) -> None:
        """Take the next frame.

        Args:
            seconds: when; later than all before.
            detections: what is seen in it, `LOW` or surer.
            looks: of each detection, see `models.grounded.linker.looks`; None where they are not known.

        Raises:
            ValueError: the frame is not later than the last one.
        """
        if self.seconds is not None and seconds <= self.seconds:
            raise ValueError(f"frames must come in order: {seconds} s after {self.seconds} s")
        seen = _arrays(seconds, detections, looks)
        live = [track for track in self.tracks if not track.ended]
        score = _likeness(live, seen, self.aspect)
        high = seen.score >= HIGH
        left = self._join(live, score, seen, high)
        rows = [live.index(track) for track in left]
        left = self._join(left, score[rows] - UNSURE, seen, ~high)
        self._begin(seen, high)
        for track in left:
            self._miss(track, seen)
        self._weak.append(seen)
        self.seconds = seconds
        self._forget()

    def unclaimed(self, box: Box, frames: Sequence[float]) -> float:
        """Best score of what was detected at a place in some frames and belongs to no track, 0..1."""
        place, best = np.array([box]), 0.0
        for seen in self._weak:
            if len(seen.box) and any(abs(seen.seconds - t) < _SAME_S for t in frames):
                there = (overlaps(place, seen.box)[0] > _THERE) & ~seen.used
                best = max(best, float(seen.score[there].max(initial=0.0)))
        return best

    def _join(
        self, live: Sequence[Track], score: Floats, seen: _FrameDetections, which: NDArray[np.bool_]
    ) -> list[Track]:
        """Give tracks their detections; those without one."""
        columns = np.flatnonzero(which & ~seen.used)
        found = dict(assigned(score[:, columns])) if len(live) and len(columns) else {}
        for row, track in enumerate(live):
            if row in found:
                column = columns[found[row]]
                seen.used[column] = True
                self._add(track, seen, int(column), float(score[row, column]))
        return [track for row, track in enumerate(live) if row not in found]

    def _add(self, track: Track, seen: _FrameDetections, k: int, score: float) -> None:
        box, last = box_of(seen.box[k]), track.last
        gap = seen.seconds - last.seconds
        rests = _moved(track.at(last.since), box, self.aspect) < _REST
        since = last.since if rests else seen.seconds
        track.sights.append(Sight(seen.seconds, box, float(seen.score[k]), _sigmoid(score), since))
        step = [
            (a + c / 2 - b - d / 2) / gap
            for a, b, c, d in zip(box[:2], last.box[:2], box[2:], last.box[2:], strict=True)
        ]
        second = len(track.sights) == 1 + 1
        pace = 1.0 if second else _PACE
        x, y = ((1 - pace) * old + pace * new for old, new in zip(track.velocity, step, strict=True))
        track.velocity = x, y
        track.label += seen.label[k]
        track.looks = _mixed(track.looks, seen.looks, k)
        track.missed = track.hidden = 0
        if second:
            self._lead_back(track)

    def _begin(self, seen: _FrameDetections, high: NDArray[np.bool_]) -> None:
        """Tracks for sure detections that are left, but for parts and doubles of what is followed."""
        for k in np.flatnonzero(high & ~seen.used):
            others = seen.used & (seen.family == seen.family[k])
            if _within(seen.box[k], seen.box[others]) > _PART:
                continue
            seen.used[k] = True
            self._count += 1
            sight = Sight(seen.seconds, box_of(seen.box[k]), float(seen.score[k]), 1.0, seen.seconds)
            track = Track(self._count, [sight], seen.label[k].copy(), looks=_mixed(None, seen.looks, int(k)))
            self.tracks.append(track)
            self._lead_back(track)

    def _lead_back(self, track: Track) -> None:
        """Where it was overlooked in earlier frames: unsure detections that nobody claimed."""
        missing = 0
        for seen in reversed(self._weak):
            if seen.seconds >= track.first.seconds:
                continue
            back = Track(0, [track.first], track.label, track.velocity, track.looks)
            score = _likeness([back], seen, self.aspect)[0] - UNSURE
            score[seen.used] = -np.inf
            best = int(score.argmax()) if len(score) else -1
            if best >= 0 and score[best] > 0:
                seen.used[best] = True
                box = box_of(seen.box[best])
                self._put_first(
                    track,
                    Sight(seen.seconds, box, float(seen.score[best]), _sigmoid(score[best]), seen.seconds),
                )
                missing = 0
            elif (missing := missing + 1) > 1:
                return

    def _put_first(self, track: Track, sight: Sight) -> None:
        """A sight before all others: it rests since then, if it rested."""
        first = track.first
        if _moved(sight, first.box, self.aspect) < _REST:
            track.sights = [
                replace(s, since=sight.seconds) if s.since <= first.seconds else s for s in track.sights
            ]
        track.sights.insert(0, sight)

    def _miss(self, track: Track, seen: _FrameDetections) -> None:
        """Count a frame in which a track was not seen; end it where it is looked for no more."""
        place = np.array(track.expected(seen.seconds))
        if _within(place, seen.box[seen.used]) > _COVERED:
            track.hidden += 1
        else:
            track.missed += 1
        rested = track.last.seconds - track.last.since >= _RESTS_S
        away = seen.seconds - track.last.seconds
        patience = _REST_LOST_S if rested or track.hidden else _LOST_S
        track.ended = away > patience and track.missed + track.hidden > patience / _STEP_S / 2

    def _forget(self) -> None:
        """Leave out what is too old to be asked for."""
        assert self.seconds is not None  # noqa: S101 - set before
        oldest = self.seconds - _MEMORY_S
        self.tracks = [t for t in self.tracks if not t.ended or t.last.seconds >= oldest]
        for track in self.tracks:
            if track.sights[0].seconds < oldest - _MEMORY_S:
                kept = [s for s in track.sights[1:] if s.seconds >= oldest]
                track.sights = [track.sights[0], *kept] if kept else track.sights[-2:]


def _likeness(tracks: Sequence[Track], seen: _FrameDetections, aspect: float) -> Floats:
    """Log-odds that detections show tracks, float64 ``(N, M)``; -inf between families."""
    if not tracks or not len(seen.box):
        return np.zeros((len(tracks), len(seen.box)))
    last = np.array([t.last.box for t in tracks])
    ahead = np.array([t.expected(seen.seconds) for t in tracks])
    gap = np.array([abs(seen.seconds - t.last.seconds) for t in tracks])
    reach = np.where(gap > _PAUSE_S, 1.0, np.maximum(gap / _STEP_S, 0.5) ** 0.75)[:, None]
    size = np.sqrt(np.sqrt(last[:, 2:].prod(1)[:, None] * seen.box[:, 2:].prod(1)) * aspect)
    change = np.abs(np.log(last[:, None, 2:] / seen.box[None, :, 2:]))
    terms = (
        _far(ahead, seen.box, aspect) / size / reach,
        overlaps(ahead, seen.box),
        change[..., 1],
        change[..., 0],
        _alike(tracks, seen),
    )
    weights = np.array([LIKENESS[_pace(t)] for t in tracks])
    score = weights[:, :1] + sum(w[:, None] * term for w, term in zip(weights.T[1:], terms, strict=True))
    middle = ahead[:, :2] + ahead[:, 2:] / 2
    outside = np.asarray(((middle < 0) | (middle > 1)).any(axis=1), np.float64)
    score = score - OUTSIDE * outside[:, None]
    family = np.array([t.family for t in tracks])
    return np.asarray(np.where(family[:, None] == seen.family, score, -np.inf))


def _alike(tracks: Sequence[Track], seen: _FrameDetections) -> Floats:
    """`alike` of all tracks and detections ``(N, M)``; 0 where looks are not known."""
    if seen.looks is None:
        return np.zeros((len(tracks), len(seen.box)))
    nothing = np.zeros(len(seen.box))
    rows = [nothing if t.looks is None else alike(seen.looks, t.looks) for t in tracks]
    return np.stack(rows)


def _mixed(old: Floats | None, looks: Floats | None, k: int) -> Floats | None:
    """Looks of a track that has one sight more."""
    if looks is None:
        return old
    now: Floats = looks[k]
    return now if old is None else (1 - _PACE) * old + _PACE * now


def _pace(track: Track) -> int:
    """0 where nobody knows how fast it goes, 1 where it goes, 2 where it rests."""
    return 0 if len(track.sights) == 1 else 1 + (track.last.seconds - track.last.since >= _RESTS_S)


def _arrays(seconds: float, found: Detections, looks: Tensor | None) -> _FrameDetections:
    """What is surer than `LOW`; of two names for one place the surer one, but a rider has his bicycle."""
    box, score, label = (x.cpu().numpy().astype(np.float64) for x in (found.box, found.score, found.label))
    family = _FAMILIES[label.argmax(1)] if len(box) else np.zeros(0, np.int64)
    keep: list[int] = []
    share = overlaps(box, box)
    for k in np.argsort(-score, kind="stable"):
        rivals = [j for j in keep if share[k, j] > _SAME and {family[k], family[j]} != {_PERSON, _WHEELS}]
        if score[k] >= LOW and not rivals:
            keep.append(int(k))
    colours = None if looks is None else looks.cpu().numpy().astype(np.float64)[keep]
    return _FrameDetections(seconds, box[keep], score[keep], label[keep], family[keep], colours)


def _sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def _far(a: Floats, b: Floats, aspect: float) -> Floats:
    """Distance of middles ``(N, M)`` in heights of the frame."""
    step = a[:, None, :2] + a[:, None, 2:] / 2 - b[None, :, :2] - b[None, :, 2:] / 2
    return np.asarray(np.hypot(step[..., 0] * aspect, step[..., 1]))


def _moved(sight: Sight | None, box: Box, aspect: float) -> float:
    """Own sizes between two places."""
    if sight is None:
        return float("inf")
    a, b = np.array([sight.box]), np.array([box])
    return float(_far(a, b, aspect)[0, 0] / np.sqrt(np.sqrt(a[0, 2:].prod() * b[0, 2:].prod()) * aspect))


def _within(box: Floats, others: Floats) -> float:
    """Most of a box ``(4,)`` that lies within one of others ``(N, 4)``, 0..1."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[:2] + box[2:], others[:, :2] + others[:, 2:])
    return float(np.maximum(high - low, 0).prod(1).max(initial=0.0) / max(box[2] * box[3], 1e-12))
