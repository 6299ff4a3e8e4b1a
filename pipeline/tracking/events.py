"""Events made of the ends and turns of tracks."""

from __future__ import annotations

from models.boxes import Box
from models.families import THINGS
from pipeline.tracking.evidence import End
from pipeline.tracking.types import SIDES, Event, Track

ENTRANCE_BEFORE_S = 1.5
"""An entrance's frame before is so much earlier than the first observation."""

DEPARTURE_BEFORE_S = 1.0
"""A departure's frame before is so much earlier than the last observation."""


def entrance(end: End, pair: tuple[float, float], confidence: float) -> Event:
    """A track entered or appeared, or a thing was placed."""
    track = end.track
    name, share = track.vote()
    kind = "entered" if end.through_edge else "placed" if name in THINGS else "appeared"
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
    )


def departure(end: End, pair: tuple[float, float], confidence: float) -> Event:
    """A track left or disappeared, or a thing was removed."""
    track = end.track
    name, share = track.vote()
    kind = "left" if end.through_edge else "removed" if name in THINGS else "disappeared"
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
    )


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
