"""Evidence for an entrance or a departure: what speaks for it and what against it, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.boxes import Box, box_of, intersection, overlaps
from pipeline.tracking.memory import Memory
from pipeline.tracking.motion import cover, moved_box, share_outside, sizes, velocity, whole_box
from pipeline.tracking.types import SIDES, Floats, Track

EVIDENCE = (
    "bias", "person", "vehicle", "observations", "span", "mean score", "best score", "end score",
    "share seen", "trend", "outside", "outside in 0.7 s", "outside in 1.5 s", "at the edge",
    "through the edge", "speed", "speed outwards", "height", "area", "double", "part", "class share",
    "part of", "flow", "flow moves",
)  # fmt: skip
"""Names of what `end_evidence` gives."""

_AT_EDGE = 0.25  # own sizes from the edge
_AT_EDGE_S = 0.7  # seconds from the edge
_HEADED = 0.5  # share of a speed that leads outwards: within 60 degrees
_MOVES = 0.1  # own sizes a second below which nothing is headed anywhere
_GOES = 0.3  # own sizes from which something goes
_LEAST_INSIDE = 0.3  # share of a part within the whole


@dataclass(frozen=True, slots=True)
class End:
    """The beginning or the end of a track.

    Attributes:
        track: whose.
        coming: its beginning.
        time_s: of the outermost observation.
        box: where, as large as before the frame's edge cut it.
        outwards: velocity beyond the end, shares of the frame a second (backwards in time at a beginning).
        side: edge of the frame that it lies at or goes to, of `SIDES`.
        gap: own sizes from that edge.
        speed: own sizes a second towards that edge.
        aspect: width of the frame over its height.
    """

    track: Track
    coming: bool
    time_s: float
    box: Box
    outwards: tuple[float, float]
    side: str
    gap: float
    speed: float
    aspect: float

    @property
    def through_edge(self) -> bool:
        """True where the track led through the frame's edge: it lay there, or would a moment later."""
        return self.gap <= max(_AT_EDGE, _AT_EDGE_S * self.speed)

    @property
    def way(self) -> str:
        """The side to which (from which) its own motion led; empty where it did not go that way."""
        if not self.through_edge:
            return ""
        size = float(sizes(np.array([self.box]), self.aspect)[0])
        pace = float(np.hypot(self.outwards[0] * self.aspect, self.outwards[1])) / size
        return self.side if self.speed >= max(_HEADED * pace, _MOVES) else ""

    def ahead(self, seconds: float) -> Box:
        """Where it would be so long beyond its end."""
        return moved_box(self.box, self.outwards, seconds)


def end_of(track: Track, *, coming: bool, aspect: float) -> End:
    """Its beginning, or its end."""
    sign = -1.0 if coming else 1.0
    vx, vy = velocity(track.observations, at_start=coming)
    outwards = sign * vx, sign * vy
    outermost = track.first if coming else track.last
    x, y, w, h = outermost.box
    size = float(sizes(np.array([outermost.box]), aspect)[0])
    gaps = (x * aspect, (1 - x - w) * aspect, y, 1 - y - h)
    speeds = (-outwards[0] * aspect, outwards[0] * aspect, -outwards[1], outwards[1])
    side, gap, speed = min(
        zip(SIDES, gaps, speeds, strict=True),
        key=lambda each: each[1] / size - min(max(each[2] / size, 0.0), 1.0),
    )
    box = whole_box(track.observations, at_start=coming)
    return End(track, coming, outermost.time_s, box, outwards, side, gap / size, speed / size, aspect)


def part_evidence(end: End, others: Sequence[Track], aspect: float) -> tuple[float, float]:
    """Evidence that a track is a part, or a second box, of another one that it moves with.

    Returns:
        Share 0..1 of it within the other where their ways agree, and its area by the other's there (1
        without another).
    """
    observations = end.track.observations
    window = observations[:6] if end.coming else observations[-6:]
    own = np.array([o.box for o in window])
    size = float(sizes(own, aspect).mean())
    kin = {"person", "two-wheeler"} if end.track.family in ("person", "two-wheeler") else {end.track.family}
    best, ratio = 0.0, 1.0
    middle = window[len(window) // 2].time_s
    nearby = [(other, other.at(middle)) for other in others if not other.part]
    for other, box in nearby:
        if box is None or not intersection(box, box_of(own[len(window) // 2])):
            continue
        theirs = np.array([other.at(o.time_s) or (np.nan,) * 4 for o in window])
        both = ~np.isnan(theirs[:, 0])
        if both.sum() < max(2, 0.6 * len(window)):
            continue
        a, b = own[both], theirs[both]
        low = np.maximum(a[:, :2], b[:, :2])
        high = np.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:])
        inside = float(np.median((high - low).clip(min=0).prod(1) / a[:, 2:].prod(1)))
        area = float(np.median(a[:, 2:].prod(1) / b[:, 2:].prod(1)))
        if inside < _LEAST_INSIDE or area > 1:
            continue
        middles = [(each[:, :2] + each[:, 2:] / 2) * (aspect, 1.0) for each in (a, b)]
        slip, way = (float(np.hypot(*(m[-1] - m[0]))) for m in (middles[0] - middles[1], middles[0]))
        rode = (
            np.exp(-slip / (0.3 * max(way, size)))
            if other.family in kin
            else np.exp(-slip / (0.3 * way + 1e-9)) * (way > 0.5 * size)
        )
        if inside * rode > best:
            best, ratio = float(inside * rode), area
    return best, ratio


def _flow(end: End, pair: tuple[float, float], memory: Memory, aspect: float) -> tuple[float, float]:
    """Share of points that optical flow finds beyond the end, and of those that move as the object did."""
    target = pair[0] if end.coming else pair[1]
    place = end.track.first.box if end.coming else end.track.last.box
    share, dx, dy = memory.flow(place, end.time_s, target)
    size = float(sizes(np.array([place]), aspect)[0])
    own = float(np.hypot(end.outwards[0] * aspect, end.outwards[1])) * abs(target - end.time_s)
    ratio = min(float(np.hypot(dx * aspect, dy)) / own, 1.0) if own > _GOES * size else 1.0
    return share, share * ratio


def end_evidence(
    end: End, others: Sequence[Track], part: float, memory: Memory, pair: tuple[float, float]
) -> Floats:
    """`EVIDENCE` of an end, ``(len(EVIDENCE),)``.

    Args:
        end: of which track.
        others: all other tracks of the camera.
        part: see `part_evidence`.
        memory: of the last seconds.
        pair: seconds of the event's own before and after.
    """
    track, aspect = end.track, end.aspect
    observations = track.observations[:30] if end.coming else track.observations[:-31:-1]
    scores = np.array([o.score for o in observations])
    first, last = sorted((observations[-1].time_s, end.time_s))
    frames = max(len(memory.between(first, last)), 1)
    seen = sum(memory.frames[0][0] - 1e-3 <= o.time_s for o in observations)
    half = max(len(scores) // 2, 1)
    out = share_outside(np.array([end.box, end.ahead(0.7), end.ahead(1.5)]))
    there = [(box, t.family == track.family) for t in others if (box := t.at(end.time_s))]
    own = np.array([end.box])
    boxes = np.array([box for box, kin in there if kin]).reshape(-1, 4)
    _, _, w, h = end.box
    way = float(np.hypot(end.outwards[0] * aspect, end.outwards[1]))
    return np.array([
        1.0, track.family == "person", track.family == "vehicle",
        np.log(min(len(observations), 20)), min(last - first, 4.0),
        scores.mean(), scores.max(), scores[:2].mean(), min(seen / frames, 1.0),
        scores[:half].mean() - scores[half:].mean() if len(scores) > 1 else 0.0,
        *out, np.exp(-max(end.gap, 0.0) / 0.25), min(max(end.speed, 0.0), 3.0) * np.exp(-max(end.gap, 0.0)),
        min(way / float(sizes(own, aspect)[0]), 4.0), float(np.clip(end.speed, -3, 3)),
        np.log(h), np.log(w * h) / 2,
        float(overlaps(own, boxes).max(initial=0.0)), float(cover(own, boxes).max(initial=0.0)),
        track.vote()[1], part, *_flow(end, pair, memory, aspect),
    ], np.float64)  # fmt: skip
