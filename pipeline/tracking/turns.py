"""Turns of tracks: what stops, parks, goes on, meets, or waits longer than is usual for its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import hypot
from typing import Any

import numpy as np

from models.boxes import Box, share_inside
from pipeline.tracking.events import path_of, way_of
from pipeline.tracking.motion import sizes, sizes_apart
from pipeline.tracking.types import Event, Floats, Track

HALT_S = 3.0
"""A vehicle that has rested so long has stopped."""

HALT_PERSON_S = 4.0
"""A person who has rested so long has stopped."""

PAIR_S = 4.5
"""No frame before is older: no more of them are held."""

PARKED_S = 20.0
"""A vehicle that stopped where hardly anything drives has parked after so long."""

RESTED_S = 10.0
"""A vehicle that rested so long where others drive sets off when it moves."""

STOOD_S = 4.0
"""... and elsewhere."""

MET_S = 3.0
"""Two people who came together have stood so long, with nobody else beside them."""

WAITING_S = 60.0
"""Nobody waits who has rested for less."""

_CAME = 1.5  # own sizes that something went before it came to rest
_ARRIVED_S = 1.0  # from a track's beginning to its rest, where it came to rest before the camera
_RECENTLY_S = 10.0
_TOGETHER, _APART = 1.2, 3.0  # own sizes between two who stand together; between them before
_CROWD = 4  # people who stand there: one more is no event
_COVERED = 0.3  # share of a box within another's, from which tracks may have been exchanged
_MEETING = 2  # who meet
_CELLS = 16
_PASSES = 3  # tracks that have driven through a place make it one where things drive
_USUAL = 2.0  # times the longest of most rests at a place
_SAMPLES = 8
_LONGEST = 0.9  # quantile


@dataclass(slots=True)
class Turns:
    """A camera's statistics of where objects drive and how long they rest, and the events from them.

    Attributes:
        driven: passes of vehicles by cell ``(_CELLS, _CELLS)``, rows first.
        rests: seconds of rests by cell and family, the last `_SAMPLES` times two.
    """

    driven: Floats = field(default_factory=lambda: np.zeros((_CELLS, _CELLS)))
    rests: dict[str, list[float]] = field(default_factory=dict)

    def update(self, tracks: Sequence[Track], time_s: float, aspect: float) -> Iterator[Event]:
        """Turns that are certain at this moment."""
        seen = [t for t in tracks if t.state == "confirmed" and t.unseen_s == 0 and not t.part]
        for track in seen:
            if track.rests_since_s is None:
                yield from self._goes(track, seen, time_s, aspect)
            else:
                yield from self._stands(track, seen, time_s, aspect)
        yield from _meetings(seen, time_s, aspect)

    def _goes(self, track: Track, seen: Sequence[Track], time_s: float, aspect: float) -> Iterator[Event]:
        cell = _cell(track.last.box)
        if _drives(track) and f"{cell}" not in track.announced and _moves(track, aspect):
            self.driven[cell] += 1
            track.announced = (*(each for each in track.announced if "rest" in each), f"{cell}")
        rest = next((each for each in track.announced if each.startswith("rest ")), None)
        if rest is None:
            return
        start, end = (float(each) for each in rest.split()[1:])
        box = track.at(end)
        if box is None or sizes_apart(box, track.last.box, aspect) < 1:
            return
        track.announced = ()
        self._learn(track, end - start)
        stood = RESTED_S if _drives(track) and self._is_road(box) else STOOD_S
        if _stops(track) and end - start >= stood and not _is_covered(track, seen):
            stood_s = end - start if start - track.first.time_s >= _ARRIVED_S else None
            yield _event(track, "resumed", end, (end, time_s), stood_s, aspect=aspect, rests=False)

    def _learn(self, track: Track, seconds: float) -> None:
        key = f"{track.family} {_cell(track.last.box)}"
        self.rests[key] = [*self.rests.get(key, ())[-2 * _SAMPLES :], round(seconds, 1)]

    def _stands(self, track: Track, seen: Sequence[Track], time_s: float, aspect: float) -> Iterator[Event]:
        start = track.rests_since_s
        assert start is not None  # noqa: S101 - it rests
        rested = time_s - start
        kept = [each for each in track.announced if not each.startswith("rest ")]
        track.announced = (*kept, f"rest {start} {time_s}")
        before = max(start - HALT_S / 2, track.first.time_s)
        halt_s = HALT_S if _drives(track) else HALT_PERSON_S
        if _stops(track) and not {"halt", "met"} & set(kept) and rested >= halt_s:
            earlier = track.at(max(start - 2 * HALT_S, track.first.time_s)) or track.last.box
            came = sizes_apart(earlier, track.last.box, aspect) >= _CAME
            if came and not _is_usual(track, seen, aspect):
                track.announced = (*track.announced, "halt")
                yield _event(track, "stopped", start, (before, time_s), rested, aspect=aspect, rests=True)
        if "halt" in kept and "parked" not in kept and rested >= PARKED_S:
            track.announced = (*track.announced, "parked")
            if _drives(track) and not self._is_road(track.last.box):
                pair = time_s - PAIR_S, time_s
                yield _event(track, "parked", start, pair, rested, aspect=aspect, rests=True, completes=True)
        walked = sizes_apart(track.first.box, track.last.box, aspect) >= _CAME
        if walked and "waiting" not in kept and rested >= max(WAITING_S, self._usual(track)):
            track.announced = (*track.announced, "waiting")
            pair = max(time_s - rested, track.first.time_s), time_s
            if "halt" in kept or track.object == "person":
                yield _event(track, "waiting", time_s, pair, rested, aspect=aspect, rests=True)

    def _is_road(self, box: Box) -> bool:
        return bool(self.driven[_cell(box)] >= _PASSES)

    def _usual(self, track: Track) -> float:
        rests = self.rests.get(f"{track.family} {_cell(track.last.box)}", ())
        return _USUAL * float(np.quantile(rests, _LONGEST)) if len(rests) >= _SAMPLES else 0.0

    def state(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"driven": self.driven.tolist(), "rests": self.rests}

    @classmethod
    def of(cls, state: dict[str, Any]) -> Turns:
        """From a `state`."""
        return cls(np.array(state["driven"], np.float64), {k: list(v) for k, v in state["rests"].items()})


def _meetings(seen: Sequence[Track], time_s: float, aspect: float) -> Iterator[Event]:
    """Two people who came from apart and stand together."""
    people = [t for t in seen if t.object == "person"]
    standing = [t for t in people if t.rests_since_s is not None]
    for one, two in combinations(standing, 2):
        since = max(one.rests_since_s or 0.0, two.rests_since_s or 0.0)
        key = f"beside {two.id}"
        if time_s - since < MET_S or key in one.announced:
            continue
        if sizes_apart(one.last.box, two.last.box, aspect) > _TOGETHER:
            continue
        near = [t for t in people if sizes_apart(one.last.box, t.last.box, aspect) <= _APART]
        if len(near) > _MEETING:
            continue
        earlier = max(since - _RECENTLY_S, one.first.time_s, two.first.time_s)
        a, b = one.at(earlier), two.at(earlier)
        one.announced = (*one.announced, key)
        if a and b and sizes_apart(a, b, aspect) >= _APART:
            one.announced, two.announced = (*one.announced, "met"), (*two.announced, "met")
            event = _event(
                one, "met", since, (earlier, time_s), time_s - since, aspect=aspect, rests=True, other=two.id
            )
            yield event


def _event(
    track: Track,
    kind: str,
    when: float,
    pair: tuple[float, float],
    duration_s: float | None,
    *,
    aspect: float,
    rests: bool,
    other: str = "",
    completes: bool = False,
) -> Event:
    name, share = track.vote()
    pair = max(pair[0], pair[1] - PAIR_S), pair[1]
    before, after = track.at(pair[0]) or track.first.box, track.last.box
    scores = [o.score for o in track.observations[-10:]]
    moved = sizes_apart(before, after, aspect) >= _TOGETHER
    # Ten observations in one place are hardly wrong about that; what is in doubt is the object.
    confidence = min(0.97, 0.5 + 0.6 * sum(scores) / len(scores))
    return Event(
        kind, track.id, name, share, when, confidence, *pair, before, after,
        since_s=track.since_s if track.arrived else None, duration_s=duration_s, rests=rests,
        way=way_of(before, after, aspect) if moved else "", path=path_of(track, *pair), other=other,
        completes=completes,
    )  # fmt: skip


def _stops(track: Track) -> bool:
    return _drives(track) or track.object == "person"


def _drives(track: Track) -> bool:
    return track.family in ("vehicle", "two-wheeler")


def _moves(track: Track, aspect: float) -> bool:
    speed = hypot(track.velocity[0] * aspect, track.velocity[1])
    return len(track.observations) > 3 and speed > 0.5 * float(sizes(np.array([track.last.box]), aspect)[0])  # noqa: PLR2004


def _is_usual(track: Track, seen: Sequence[Track], aspect: float) -> bool:
    """True where a stop is no event: in a queue, in a crowd, or where tracks may have been exchanged."""
    others = [t for t in seen if t is not track and t.rests_since_s is not None]
    if _drives(track):
        return any(_drives(t) and sizes_apart(t.last.box, track.last.box, aspect) < _APART for t in others)
    return sum(t.object == "person" for t in others) >= _CROWD or _is_covered(track, seen)


def _is_covered(track: Track, seen: Sequence[Track]) -> bool:
    """True where a person's box lies partly within another's."""
    return track.object == "person" and any(
        share_inside(track.last.box, t.last.box) > _COVERED for t in seen if t is not track
    )


def _cell(box: Box) -> tuple[int, int]:
    """Row and column of its feet."""
    x, y = box[0] + box[2] / 2, box[1] + box[3]
    return min(max(int(y * _CELLS), 0), _CELLS - 1), min(max(int(x * _CELLS), 0), _CELLS - 1)
