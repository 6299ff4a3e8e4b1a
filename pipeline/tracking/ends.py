"""Ends of tracks: entrances and departures, the evidence for them, and the confidence that it gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf

import numpy as np

from models.boxes import Box, share_inside
from models.captioner import TrackingWeights
from models.detections import overlaps
from models.families import THINGS
from pipeline import settings
from pipeline.tracking.memory import Memory
from pipeline.tracking.tracks import (
    SIDES,
    Event,
    Floats,
    Observation,
    Track,
    share_outside,
    size_of,
    sizes_apart,
    velocity,
    whole_box,
)

EVIDENCE = (
    "bias", "best score", "share seen", "trend", "outside in 1.5 s", "speed outwards", "double",
    "class share", "flow",
)  # fmt: skip
"""Names of what `end_evidence` gives."""


@dataclass(frozen=True, slots=True)
class End:
    """The beginning or the end of a track."""

    track: Track  # whose
    coming: bool  # its beginning
    outermost: Observation
    box: Box  # where, as large as before the frame's edge cut it
    outwards: tuple[float, float]  # velocity beyond the end, frame shares a second (back in time at a begin)
    side: str  # edge of the frame that it lies at or goes to, of `SIDES`
    gap: float  # own sizes from that edge
    speed: float  # own sizes a second towards that edge
    aspect: float  # width of the frame over its height

    @property
    def time_s(self) -> float:
        return self.outermost.time_s

    @property
    def through_edge(self) -> bool:
        """True where the track led through the frame's edge: it lay there, or would a moment later."""
        return self.gap <= max(settings.AT_EDGE_SIZES, settings.AT_EDGE_S * self.speed)

    @property
    def edge_s(self) -> float:
        """Seconds of its own motion between it and that edge; infinite where it did not go that way."""
        pace = float(np.hypot(self.outwards[0] * self.aspect, self.outwards[1]))
        pace /= size_of(self.box, self.aspect)
        least = max(settings.HEADED_SHARE * pace, settings.HEADED_SIZES_PER_S)
        return self.gap / self.speed if self.speed >= least else inf

    @property
    def leads_out(self) -> bool:
        """True where its own motion led out of the frame, maybe after a moment in which nobody saw it."""
        return self.edge_s <= settings.HIDDEN_S

    @property
    def way(self) -> str:
        """The side to which (from which) its own motion led; empty where it did not go that way."""
        is_far = self.side == "far" and self.track.family == "person" and self.box[3] > settings.TALL_SHARE
        return self.side if self.through_edge and self.leads_out and not is_far else ""

    @property
    def hidden_s(self) -> float:
        """Seconds that it was in the frame beyond this end, hidden by others; 0 in mid-picture."""
        return self.edge_s if self.leads_out and not self.through_edge else 0.0


def end_of(track: Track, *, coming: bool, aspect: float) -> End:
    vx, vy = velocity(track.observations, at_start=coming)
    outwards = (-vx, -vy) if coming else (vx, vy)
    outermost = track.first if coming else track.last
    size = size_of(outermost.box, aspect)
    speeds = (-outwards[0] * aspect, outwards[0] * aspect, -outwards[1], outwards[1])
    side, gap, speed = min(
        zip(SIDES, _gaps(outermost.box, aspect), speeds, strict=True),
        key=lambda each: each[1] / size - min(max(each[2] / size, 0.0), 1.0),
    )
    box = whole_box(track.observations, at_start=coming)
    return End(track, coming, outermost, box, outwards, side, gap / size, speed / size, aspect)


def _gaps(box: Box, aspect: float = 1.0) -> tuple[float, float, float, float]:
    """From a box to each edge of the frame, as `SIDES`."""
    x, y, w, h = box
    return x * aspect, (1 - x - w) * aspect, y, 1 - y - h


def decide_end(
    end: End, tracks: Sequence[Track], memory: Memory, weights: TrackingWeights, pair: tuple[float, float]
) -> Event | None:
    """The event of a beginning or an end, where it is sure; `pair` as in `end_evidence`."""
    name, share = end.track.vote()
    if not is_known(name, share) or name in THINGS:  # a thing is put down and taken, see `turns`
        return None
    vehicle = vehicle_at(end, tracks)
    if not end.way and may_go_on(end, tracks, vehicle):
        return None
    evidence = end_evidence(end, tracks, memory, pair)
    event = end_event(end, pair, end_confidence(evidence, weights, coming=end.coming), vehicle)
    unsure = end.coming and event.confidence < settings.OWN_CONFIDENCE
    beyond = (unsure or is_weak(end.track)) and is_followed_beyond(end, tracks)
    return None if beyond or event.confidence < settings.LEAST_CONFIDENCE else event


def is_known(name: str, share: float) -> bool:
    """True where the votes agree what it is."""
    return share >= (settings.KNOWN_PERSON_VOTES if name == "person" else settings.KNOWN_VOTES)


def is_weak(track: Track) -> bool:
    """True of what is hardly detected: a table, or a shadow, that somebody's end was taken for its own."""
    return sum(o.score for o in track.observations) < settings.WEAK_TRACK_SCORE * len(track.observations)


def end_evidence(end: End, tracks: Sequence[Track], memory: Memory, pair: tuple[float, float]) -> Floats:
    """`EVIDENCE` of an end, ``(len(EVIDENCE),)``; `pair` has seconds of the event's own before and after."""
    track = end.track
    observations = track.observations[:30] if end.coming else track.observations[:-31:-1]
    scores = np.array([o.score for o in observations])
    first, last = sorted((observations[-1].time_s, end.time_s))
    frames = max(len(memory.between(first, last)), 1)
    seen = sum(memory.frames[0][0] - 1e-3 <= o.time_s for o in observations)
    half = max(len(scores) // 2, 1)
    there = [t.at(end.time_s) for t in tracks if t is not track and t.family == track.family]
    x, y, w, h = end.box
    ahead = np.array([(x + end.outwards[0] * 1.5, y + end.outwards[1] * 1.5, w, h)])
    return np.array([
        1.0, scores.max(), min(seen / frames, 1.0),
        scores[:half].mean() - scores[half:].mean() if len(scores) > 1 else 0.0,
        share_outside(ahead)[0], float(np.clip(end.speed, -3, 3)),
        float(overlaps([end.box], [box for box in there if box]).max(initial=0.0)), track.vote()[1],
        memory.flow(end.outermost.box, end.time_s, pair[0] if end.coming else pair[1]),
    ], np.float64)  # fmt: skip


def end_confidence(evidence: Floats, weights: TrackingWeights, *, coming: bool) -> float:
    """Probability 0..1 that an entrance (coming) or a departure is so to a strict reader."""
    return 1 / (1 + exp(-float(evidence @ (weights.entrance if coming else weights.departure))))


def end_event(end: End, pair: tuple[float, float], confidence: float, vehicle: str = "") -> Event:
    """An entrance or a departure: through the edge, of a thing, of a person at a vehicle (its id)."""
    track = end.track
    since_s = end.time_s if end.coming else track.since_s if track.arrived else None
    name, share = track.vote()
    if vehicle:
        kind = "got_out" if end.coming else "got_in"
    elif end.through_edge:
        kind = "entered" if end.coming else "left"
    else:
        kind = "appeared" if end.coming else "disappeared"
    before, after = (track.at(time_s) or track.last.box for time_s in pair)
    return Event(
        kind, track.id, name, share, end.time_s, confidence, *pair,
        None if end.coming else before, after if end.coming else None,
        since_s=since_s,
        duration_s=None if end.coming or since_s is None else end.time_s - since_s,
        rests=end.coming and track.rests_since_s is not None,
        edge="" if vehicle or not end.through_edge else end.side, way=end.way, path=path_of(track, *pair),
        other=vehicle,
    )  # fmt: skip


def vehicle_at(end: End, tracks: Sequence[Track]) -> str:
    """Id of the resting vehicle at which a person appears or disappears in mid-picture; empty without one.

    At the frame's edge somebody gets out where a vehicle that the edge cuts has stopped.
    """
    name, share = end.track.vote()
    if name != "person" or share < settings.KNOWN_VOTES or (end.through_edge and not end.coming):
        return ""
    (x, y, w, h), rim = end.outermost.box, settings.RIM_SIZES
    (high, low), (short, tall) = settings.AT_VEHICLE_FEET, settings.AT_VEHICLE_HEIGHTS
    best, least = "", settings.REACHED_SHARE
    for other in tracks:
        box = other.at(end.time_s)
        if other.rests_since_s is None or other.family != "vehicle" or box is None:
            continue
        is_cut = _gaps(box)[SIDES.index(end.side)] <= settings.EDGE_SHARE
        if end.through_edge and not (is_cut and "halt" in other.announced):
            continue
        around = box[0] - rim * box[2], box[1], (1 + 2 * rim) * box[2], (1 + rim) * box[3]
        share = share_inside((x, y, w, h), around)
        feet = box[1] + high * box[3] <= y + h <= box[1] + low * box[3]
        if feet and short * box[3] < h < tall * box[3] and share > least:
            best, least = other.id, share
    return best


def may_go_on(end: End, tracks: Sequence[Track], vehicle: str = "") -> bool:
    """True where a track that began (ended) in mid-picture may have been there before (be there still).

    It may be another track that was lost (found) nearby, or stand behind something but the vehicle (its id)
    that it got out of (into). Whoever walks behind others straight to the frame's edge has left.
    """
    own, place = end.track, end.outermost.box
    others = [other for other in tracks if other is not own]
    before = [box for other in others if other.id != vehicle for box in _beyond(end, other)]
    covered = max((share_inside(place, box) for box in before), default=0.0)
    if covered > settings.HIDDEN_SHARE:
        return covered < settings.MOSTLY_HIDDEN_SHARE or not end.leads_out
    for other in others:
        there = other.last if end.coming else other.first
        gap_s = end.time_s - there.time_s if end.coming else there.time_s - end.time_s
        if not -settings.FOUND_BEFORE_S <= gap_s <= settings.FOUND_AFTER_S or not _may_be_one(own, other):
            continue
        near = sizes_apart(place, there.box, end.aspect) <= settings.FOUND_SIZES * (1 + max(gap_s, 0.0))
        if near and not end_of(other, coming=not end.coming, aspect=end.aspect).through_edge:
            return True
    return False


def are_one(one: Track, two: Track) -> bool:
    """True where two tracks follow one object: the smaller box lay mostly within the larger one all along."""
    if not _may_be_one(one, two):
        return False
    boxes = {o.time_s: o.box for o in two.observations}
    pairs = [(o.box, boxes[o.time_s]) for o in one.observations if o.time_s in boxes]
    shares = [max(share_inside(a, b), share_inside(b, a)) for a, b in pairs]
    return len(shares) > 1 and sum(shares) > settings.SAME_OBJECT_SHARE * len(shares)


def is_followed_beyond(end: End, tracks: Sequence[Track]) -> bool:
    """True where another track of the same object, or of several of them, begins earlier (ends later)."""
    for other in tracks:
        beyond_s = end.time_s - other.first.time_s if end.coming else other.last.time_s - end.time_s
        if beyond_s >= settings.FOLLOWED_BEYOND_S and other is not end.track and are_one(end.track, other):
            return True
    return False


def stays(track: Track, memory: Memory, time_s: float) -> bool:
    """True where the place of a track that ended still looks as it did: it is there, and not detected."""
    last = track.last.time_s
    moments = (last, max(last - settings.UNCHANGED_EARLIER_S, track.first.time_s))
    alike = (memory.likeness(track.at(m) or track.last.box, m, time_s) for m in moments)
    return all(each > settings.UNCHANGED_CORRELATION for each in alike)


def _beyond(end: End, other: Track) -> list[Box]:
    """Where another one was at the end, and in the moments beyond it."""
    first, last = sorted((end.time_s, end.time_s + (-settings.COVERS_S if end.coming else settings.COVERS_S)))
    if other.last.time_s <= first or other.first.time_s >= last:
        return []
    boxes = [o.box for o in other.observations if first < o.time_s < last]
    there = other.at(end.time_s)
    return [*boxes, there] if there else boxes


def _may_be_one(one: Track, two: Track) -> bool:
    """One may be taken for the other: a rider for a person, and a machine for a vehicle."""
    families = {one.family, two.family}
    return len(families) == 1 or "two-wheeler" in families


def path_of(track: Track, start_s: float, end_s: float) -> tuple[tuple[float, float], ...]:
    """Middles of its feet between two moments, within the frame."""
    boxes = [o.box for o in track.observations if start_s - 1e-3 <= o.time_s <= end_s + 1e-3]
    return tuple((min(max(x + w / 2, 0.0), 1.0), min(max(y + h, 0.0), 1.0)) for x, y, w, h in boxes)


def way_of(first: Box, last: Box, aspect: float) -> str:
    """The way from one box to another, of `SIDES`."""
    dx = (last[0] + last[2] / 2 - first[0] - first[2] / 2) * aspect
    dy = last[1] + last[3] - first[1] - first[3]
    if abs(dx) >= abs(dy):
        return "right" if dx > 0 else "left"
    return "near" if dy > 0 else "far"
