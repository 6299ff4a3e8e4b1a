"""Events made of the ends and turns of tracks."""

from collections.abc import Sequence

from models.boxes import Box, share_inside
from pipeline import settings
from pipeline.tracking.evidence import End, end_of
from pipeline.tracking.memory import Memory
from pipeline.tracking.motion import sizes_apart
from pipeline.tracking.types import SIDES, Event, Track


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
    track = end.track
    name, share = track.vote()
    if name != "person" or share < settings.KNOWN_VOTES or (end.through_edge and not end.coming):
        return ""
    x, y, w, h = track.first.box if end.coming else track.last.box
    best, least = "", settings.REACHED_SHARE
    for other in tracks:
        if other.rests_since_s is None or other.family != "vehicle":
            continue
        box = other.at(end.time_s)
        if box is None:
            continue
        if end.through_edge and ("halt" not in other.announced or _gap(box, end.side) > settings.EDGE_SHARE):
            continue
        (high, low), (short, tall) = settings.AT_VEHICLE_FEET, settings.AT_VEHICLE_HEIGHTS
        beside = settings.RIM_SIZES
        around = box[0] - beside * box[2], box[1], (1 + 2 * beside) * box[2], (1 + beside) * box[3]
        share = share_inside((x, y, w, h), around)
        feet = box[1] + high * box[3] <= y + h <= box[1] + low * box[3]
        if feet and short * box[3] < h < tall * box[3] and share > least:
            best, least = other.id, share
    return best


def _gap(box: Box, side: str) -> float:
    """Between a box and an edge of the frame."""
    x, y, w, h = box
    return dict(zip(SIDES, (x, 1 - x - w, y, 1 - y - h), strict=True))[side]


def may_go_on(end: End, tracks: Sequence[Track], vehicle: str = "") -> bool:
    """True where a track that began (ended) in mid-picture may have been there before (be there still).

    It may be another track that was lost (found) nearby, or stand behind something but the vehicle (its id)
    that it got out of (into). Whoever walks behind others straight to the frame's edge has left.
    """
    own, place = end.track, end.track.first.box if end.coming else end.track.last.box
    others = [other for other in tracks if other is not own]
    before = [box for other in others if other.id != vehicle for box in _beyond(end, other)]
    covered = max((share_inside(place, box) for box in before), default=0.0)
    if covered > settings.HIDDEN_SHARE:
        return covered < settings.MOSTLY_HIDDEN_SHARE or not end.leads_out
    for other in others:
        gap_s = end.time_s - other.last.time_s if end.coming else other.first.time_s - end.time_s
        if not -settings.FOUND_BEFORE_S <= gap_s <= settings.FOUND_AFTER_S or not _may_be_one(own, other):
            continue
        box = other.last.box if end.coming else other.first.box
        reach = settings.FOUND_SIZES * (1 + max(gap_s, 0.0))
        near = sizes_apart(place, box, end.aspect) <= reach
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
    left, right, far, near = SIDES
    return (right if dx > 0 else left) if abs(dx) >= abs(dy) else near if dy > 0 else far
