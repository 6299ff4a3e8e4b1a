"""Tracks: their observations, their motion, and the events that come of them.

Times are seconds of one clock that never goes back (Unix time in the daemon); boxes are ``(x, y, width,
height)`` in 0..1 of the frame. No torch here.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, box_of, offset
from models.families import OBJECTS, family_of
from pipeline import settings

Floats = NDArray[np.float64]

_SAME_S = 1e-3
_NAMES = {
    family: [name for name in OBJECTS if family_of(name) == family]
    for family in dict.fromkeys(map(family_of, OBJECTS))
}

SIDES = ("left", "right", "far", "near")  # edges of the frame, and ways

ENTRANCES = ("entered", "appeared", "placed", "got_out")
DEPARTURES = ("left", "disappeared", "removed", "got_in")


@dataclass(frozen=True, slots=True)
class Observation:
    """A track in one frame; `p`: that it continues what was observed before, by the association."""

    time_s: float
    box: Box
    score: float
    p: float = 1.0


class LastSeen(NamedTuple):
    """Where a track was observed last, and when."""

    track: str
    object: str
    box: Box
    time_s: float
    rests: bool


@dataclass(slots=True, eq=False)
class Track:
    """One object."""

    id: str  # unique for the camera
    observations: list[Observation]  # in order of time; those of long ago are thinned out, the first stays
    classes: Floats  # sum of its detections' class probabilities, `OBJECTS` in order
    histogram: Floats  # mean of its colours, see `models.grounded.observations`
    embedding: Floats  # mean of its embeddings, of unit length; of length 0 where there are none
    state: str = "tentative"  # too young to be believed; later confirmed, lost (unobserved now), ended
    since_s: float | None = None  # when it came; None where the camera could not see it come
    rests_since_s: float | None = None  # when it came to rest; None while it moves
    ridden: float = 0.0  # share of its observations in which a person sat on a two-wheeler
    velocity: tuple[float, float] = (0.0, 0.0)  # shares of the frame a second, x and y
    entrance_decided: bool = False  # its entrance was given or left out
    looks: int = 0  # how often its departure was considered
    unseen_s: float = 0.0  # time in which frames did not show it, since its last observation
    rest: tuple[float, float] | None = None  # its last rest of `HALT_S` or more, from when to when
    announced: tuple[str, ...] = ()  # turns that were given since it came to rest
    arrived: bool = False  # its entrance was given
    departed: bool = False  # its departure was given

    @property
    def first(self) -> Observation:
        return self.observations[0]

    @property
    def last(self) -> Observation:
        return self.observations[-1]

    @property
    def last_seen(self) -> LastSeen:
        return LastSeen(self.id, self.object, self.last.box, self.last.time_s, self.rests_since_s is not None)

    @property
    def object(self) -> str:
        return self.vote()[0]

    @property
    def family(self) -> str:
        return family_of(self.object)

    def vote(self) -> tuple[str, float]:
        """Its name by vote of all observations, left open where they differ; its family's share of them."""
        return _vote(self.classes.tobytes(), self.ridden)

    def most_apart(self, aspect: float) -> float:
        """Its own sizes between where it was first and where it was farthest from there."""
        return max(sizes_apart(self.first.box, each.box, aspect) for each in self.observations)

    def at(self, time_s: float) -> Box | None:
        """Where it was, straight between two observations; None before the first and after the last."""
        if not self.first.time_s - _SAME_S <= time_s <= self.last.time_s + _SAME_S:
            return None
        k = bisect_left(self.observations, time_s - _SAME_S, key=lambda each: each.time_s)
        later = self.observations[k]
        if k == 0 or later.time_s <= time_s + _SAME_S:
            return later.box
        earlier = self.observations[k - 1]
        share = (time_s - earlier.time_s) / (later.time_s - earlier.time_s)
        return box_of(a + share * (b - a) for a, b in zip(earlier.box, later.box, strict=True))


@lru_cache(maxsize=1024)  # a track is asked again and again in one frame
def _vote(classes: bytes, ridden: float) -> tuple[str, float]:
    total = np.frombuffer(classes)
    votes = dict(zip(OBJECTS, (total / max(float(total.sum()), 1e-9)).tolist(), strict=True))
    families = {family: sum(votes[name] for name in names) for family, names in _NAMES.items()}
    wheels = families["two-wheeler"]
    is_engine = wheels >= settings.ENGINE_VOTES and families["person"] > families["vehicle"]
    is_engine = is_engine and votes["motorcycle"] >= settings.ENGINE_RATIO * votes["bicycle"]
    kinds = {"cyclist": votes["bicycle"], "motorcyclist": votes["motorcycle"]}
    least = settings.RIDER_KIND_VOTES * wheels
    rider = next((name for name, share in kinds.items() if share >= least), "rider")
    often = settings.RIDDEN_OPEN_SHARE if rider == "rider" else settings.RIDDEN_SHARE
    is_ridden = ridden >= often and wheels >= settings.RIDDEN_VOTES
    if is_ridden or (is_engine and ridden >= settings.ENGINE_SHARE):
        return rider, wheels + families["person"]
    family = max(families, key=families.__getitem__)
    name = max(_NAMES[family], key=votes.__getitem__)
    share = families[family]
    is_open = share < settings.VEHICLE_VOTES or votes[name] < settings.VEHICLE_KIND_VOTES * share
    if family == "vehicle" and is_open:
        name = "vehicle"
    return name, share


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a track, with the two frames that show it.

    Through the frame's edge something entered or left; in mid-picture (a door, a pillar) it appeared or
    disappeared. Things are placed and removed.
    """

    kind: str  # one of `pipeline.record_format.Action`
    track: str
    object: str  # voted; "cyclist", "motorcyclist", or "rider" and "vehicle" where the kind is not sure
    class_p: float  # share of the votes for its family, 0..1
    time_s: float  # when it happened
    confidence: float  # calibrated probability that it is so, 0..1
    before_time_s: float  # moments of its own frame pair
    after_time_s: float
    box_before: Box | None  # where it was then; None where it was not there
    box_after: Box | None
    since_s: float | None = None  # when the track came; None where nobody saw that
    # how long it was there (departures), has rested (stopped, parked, waiting, met) or had rested
    # (resumed); None where that is not known
    duration_s: float | None = None
    seen_s: float = 0.0  # for how long it was seen before it left, where nobody saw it come
    rests: bool = False  # True where it stands still at the end of the event
    edge: str = ""  # side of the frame by which it came or went, of `SIDES`; empty in mid-picture
    way: str = ""  # where it came from or went to, of `SIDES`; empty where that is not clear
    path: tuple[tuple[float, float], ...] = ()  # middles of its feet from before to after
    other: str = ""  # id of the track that it met, got into or out of, or that put it down or took it
    completes: bool = False  # it is no news of its own, but completes what was said of the track last
    same_as: tuple[str, float] | None = None  # an earlier track that this may be, and the probability
    line: str = ""  # that was crossed, with the direction in words, or the door; empty without one
    seen: bool = True  # False where it happened some time before, and nobody saw when

    @property
    def box(self) -> Box:
        """Where it is, or was."""
        box = self.box_after or self.box_before
        assert box is not None  # noqa: S101 - an event is somewhere
        return box


def velocity(observations: Sequence[Observation], *, at_start: bool = False) -> tuple[float, float]:
    """Shares of the frame a second, x and y, at the end (or start) of a track; 0 where it was seen once.

    A side that the frame's edge cuts stays there whatever the object does, so it is left out.
    """
    near = _first_or_last(observations, at_start=at_start)
    if len(near) < 2:  # noqa: PLR2004 - no motion in one observation
        return 0.0, 0.0
    mean = sum(o.time_s for o in near) / len(near)
    times = [o.time_s - mean for o in near]
    spread = max(sum(t * t for t in times), 1e-9)
    speeds = []
    for axis in (0, 1):
        low = [o.box[axis] for o in near]
        high = [o.box[axis] + o.box[axis + 2] for o in near]
        cut_low, cut_high = min(low) < settings.EDGE_SHARE, max(high) > 1 - settings.EDGE_SHARE
        middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        side = high if cut_low and not cut_high else low if cut_high and not cut_low else middle
        speeds.append(sum(t * s for t, s in zip(times, side, strict=True)) / spread)
    return speeds[0], speeds[1]


def _first_or_last(observations: Sequence[Observation], *, at_start: bool) -> Sequence[Observation]:
    near, end = (observations[:12], 0) if at_start else (observations[-12:], -1)
    return [o for o in near if abs(o.time_s - observations[end].time_s) <= settings.VELOCITY_S + 1e-6]


def whole_box(observations: Sequence[Observation], *, at_start: bool = False) -> Box:
    """The end's (start's) box as large as it was before the frame's edge cut it."""
    near = _first_or_last(observations, at_start=at_start)
    x, y, w, h = (near[0] if at_start else near[-1]).box
    wide, high = max(o.box[2] for o in near), max(o.box[3] for o in near)
    if x < settings.EDGE_SHARE:
        x, w = x + w - wide, wide
    elif x + w > 1 - settings.EDGE_SHARE:
        w = wide
    if y < settings.EDGE_SHARE:
        y, h = y + h - high, high
    elif y + h > 1 - settings.EDGE_SHARE:
        h = high
    return x, y, w, h


def share_outside(boxes: Floats) -> Floats:
    """Share 0..1 of boxes ``(N, 4)`` outside of the frame."""
    low = boxes[:, :2].clip(0, 1)
    high = (boxes[:, :2] + boxes[:, 2:]).clip(0, 1)
    return np.asarray(1 - (high - low).prod(1) / np.maximum(boxes[:, 2:].prod(1), 1e-12))


def size_of(box: Box, aspect: float) -> float:
    """The root of a box's area, in heights of the frame."""
    return sqrt(max(box[2] * box[3] * aspect, 1e-9))


def distances(one: Floats, two: Floats, aspect: float) -> Floats:
    """Distances ``(N, M)`` of middles in heights of the frame."""
    step = one[:, None, :2] + one[:, None, 2:] / 2 - two[None, :, :2] - two[None, :, 2:] / 2
    return np.asarray(np.hypot(step[..., 0] * aspect, step[..., 1]))


def sizes_apart(one: Box, two: Box, aspect: float) -> float:
    """Own sizes between two middles."""
    across, down = offset(one, two)
    return float(np.hypot(across * aspect, down)) / sqrt(size_of(one, aspect) * size_of(two, aspect))


def cover(tracks: Iterable[Track], shape: tuple[int, int], margin: float = 0.0) -> NDArray[np.bool_]:
    """The pixels ``(h, w)`` in which tracks are, with a rim of so many of their own sizes."""
    (height, width), covered = shape, np.zeros(shape, np.bool_)
    for x, y, w, h in (track.last.box for track in tracks):
        left, right = (int(v * width) for v in (x - margin * w, x + (1 + margin) * w))
        top, low = (int(v * height) for v in (y - margin * h, y + (1 + margin) * h))
        covered[max(top, 0) : low + 1, max(left, 0) : right + 1] = True
    return covered
