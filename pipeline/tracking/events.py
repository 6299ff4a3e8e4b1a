"""Events made of the ends and turns of tracks."""

from __future__ import annotations

from collections.abc import Sequence

from models.boxes import Box, inside
from models.families import THINGS
from pipeline.tracking.evidence import End
from pipeline.tracking.types import SIDES, Event, Track

ENTRANCE_BEFORE_S = 1.5
"""An entrance's frame before is so much earlier than the first observation."""

_AT_VEHICLE = 0.5  # share of a person within a vehicle's box and what is beside it

DEPARTURE_BEFORE_S = 1.0
"""A departure's frame before is so much earlier than the last observation."""


def entrance(
    end: End,
    pair: tuple[float, float],
    confidence: float,
    vehicle: str = "",
) -> Event:
    """A track entered or appeared, a thing was placed, a person got out of a vehicle (its id)."""
    track = end.track
    name, share = track.vote()
    inner = "got_out" if vehicle else "placed" if name in THINGS else "appeared"
    kind = "entered" if end.through_edge else inner
    box = track.at(pair[1]) or track.last.box
    return Event(
        kind,
        track.id,
        name,
        share,
        end.time_s,
        confidence,
        *pair,
        None,
        box,
        since_s=end.time_s,
        rests=track.rests_since_s is not None,
        edge=end.side if end.through_edge else "",
        way=end.side if end.through_edge else "",
        path=path_of(track, *pair),
        other=vehicle if kind in ("got_in", "got_out") else "",
    )


def departure(end: End, pair: tuple[float, float], confidence: float, vehicle: str = "") -> Event:
    """A track left or disappeared, a thing was removed, a person got into a vehicle (its id)."""
    track = end.track
    name, share = track.vote()
    inner = "got_in" if vehicle else "removed" if name in THINGS else "disappeared"
    kind = "left" if end.through_edge else inner
    return Event(
        kind,
        track.id,
        name,
        share,
        end.time_s,
        confidence,
        *pair,
        track.at(pair[0]) or track.last.box,
        None,
        since_s=track.since_s,
        duration_s=None if track.since_s is None else end.time_s - track.since_s,
        edge=end.side if end.through_edge else "",
        way=end.side if end.through_edge else "",
        path=path_of(track, *pair),
        other=vehicle if kind in ("got_in", "got_out") else "",
    )


def vehicle_at(end: End, tracks: Sequence[Track]) -> str:
    """Id of the resting vehicle at which a person appears or disappears in mid-picture; empty without one."""
    track = end.track
    if track.object != "person" or end.through_edge:
        return ""
    x, y, w, h = track.first.box if end.coming else track.last.box
    best, least = "", _AT_VEHICLE
    for other in tracks:
        box = other.at(end.time_s)
        if other.family != "vehicle" or other.rests_since_s is None or box is None:
            continue
        feet = box[1] + 0.5 * box[3] <= y + h <= box[1] + 1.15 * box[3]
        share = inside((x, y, w, h), (box[0] - 0.1 * box[2], box[1], 1.2 * box[2], 1.1 * box[3]))
        if feet and 0.3 * box[3] < h < 1.8 * box[3] and share > least:
            best, least = other.id, share
    return best


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
