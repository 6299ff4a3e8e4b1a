"""Turns of tracks: what stops, parks, goes on, meets, waits, is put down or taken away, or crosses a line."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import hypot, sqrt
from statistics import fmean
from typing import Any, NamedTuple, Self

import numpy as np

from models.boxes import Box, iou, share_inside
from models.detections import shared_areas
from models.families import PEOPLE, THINGS
from models.language.places import Line
from pipeline import settings
from pipeline.tracking.ends import path_of, way_of
from pipeline.tracking.memory import Memory
from pipeline.tracking.tracks import Event, Floats, Track, size_of, sizes_apart

_NAMED = THINGS - {"object"}  # nothing is said of a thing that nobody can name
_MEETING = 2  # who meet


class _Frame(NamedTuple):
    """What is known at a frame."""

    tracks: Sequence[Track]
    seen: Sequence[Track]  # that it shows, but for parts of others
    time_s: float
    memory: Memory  # the pictures before
    aspect: float


@dataclass(slots=True)
class Turns:
    """A camera's statistics of where objects drive and how long they rest, and the events from them."""

    # passes of vehicles by cell ``(PLACE_CELLS, PLACE_CELLS)``, rows first
    driven: Floats = field(default_factory=lambda: np.zeros((settings.PLACE_CELLS,) * 2))
    rests: dict[str, list[float]] = field(default_factory=dict)  # seconds by cell and family, the last ones

    def update(
        self, tracks: Sequence[Track], time_s: float, aspect: float, memory: Memory
    ) -> Iterator[Event]:
        """Turns that are certain at this moment."""
        known = [t for t in tracks if t.state in ("confirmed", "lost")]
        seen = [t for t in known if t.unseen_s == 0]
        parts = _parts(seen)
        known, seen = ([t for t in each if t.id not in parts] for each in (known, seen))
        yield from _meetings(seen, {t.id for t in tracks}, time_s, aspect)
        now = _Frame(tracks, seen, time_s, memory, aspect)
        for track in known:
            if track.unseen_s > 0:
                turns = _vanishes(track, now)
            elif track.rests_since_s is None:
                turns = self._goes(track, now)
            else:
                turns = self._stands(track, track.rests_since_s, now)
            for turn in turns:
                yield _with_handler(turn, tracks)

    def _goes(self, track: Track, now: _Frame) -> Iterator[Event]:
        cell = _cell(track)
        if _drives(track) and f"{cell}" not in track.announced and _moves(track, now.aspect):
            self.driven[cell] += 1
            track.announced = (f"{cell}",)
        if track.rest is None or (box := track.at(track.rest[1])) is None:
            return
        start, end = track.rest
        is_vacant = _is_vacant(box, now.time_s, track, now)
        if not is_vacant and sizes_apart(box, track.last.box, now.aspect) < settings.MOVED_SIZES:
            return
        track.rest, track.announced = None, ()
        key = _place(track)
        self.rests[key] = [*self.rests.get(key, ())[-2 * settings.WAITING_RESTS :], round(end - start, 1)]
        if now.time_s - end > settings.PAIR_S or not _stops(track):
            return
        most = settings.UNCHANGED_CORRELATION if is_vacant else settings.ABSENT_CORRELATION
        is_away = now.memory.likeness(box, end, now.time_s) <= most
        if is_away and _is_seen(track, max(start, end - settings.REST_S), end, now.memory):
            stood_s = end - start if start - track.first.time_s >= settings.ARRIVED_S else None
            kind = "removed" if track.object in THINGS else "resumed"
            yield turn_event(track, kind, end, (end, now.time_s), stood_s, aspect=now.aspect)

    def _stands(self, track: Track, start: float, now: _Frame) -> Iterator[Event]:
        time_s, aspect, announced = now.time_s, now.aspect, track.announced
        rested = time_s - start
        if rested >= settings.HALT_S:
            track.rest = start, time_s
        lately = settings.HALT_S <= rested <= settings.HALT_S + settings.HALT_DECIDED_S
        undecided = lately and not {"halt", "met"} & set(announced) and _stops(track)
        if undecided and _has_stopped(track, start, now) and _comes(track, start, now):
            track.announced = (*announced, "halt")
            pair = max(start - settings.HALT_S / 2, track.first.time_s), time_s
            kind = "placed" if track.object in THINGS else "stopped"
            yield turn_event(track, kind, start, pair, rested, aspect=aspect)
        if "halt" in announced and "parked" not in announced and rested >= settings.PARKED_S:
            track.announced = (*announced, "parked")
            is_road = self.driven[_cell(track)] >= settings.DRIVEN_PASSES
            if _drives(track) and track.object not in PEOPLE and not is_road:
                pair = time_s - settings.PAIR_S, time_s
                yield turn_event(track, "parked", start, pair, rested, aspect=aspect)
        walked = sizes_apart(track.first.box, track.last.box, aspect) >= settings.MOVED_SIZES
        if walked and "waiting" not in announced and rested >= max(settings.WAITING_S, self._usual_s(track)):
            track.announced = (*track.announced, "waiting")
            if ("halt" in announced and _drives(track)) or track.object == "person":
                pair = max(start, track.first.time_s), time_s
                yield turn_event(track, "waiting", time_s, pair, rested, aspect=aspect)

    def _usual_s(self, track: Track) -> float:
        """From when on a rest at its place is longer than usual."""
        rests = self.rests.get(_place(track), ())
        is_known = len(rests) >= settings.WAITING_RESTS
        return settings.WAITING_FACTOR * float(np.quantile(rests, 0.9)) if is_known else 0.0

    def state(self) -> dict[str, Any]:
        return {"driven": self.driven.tolist(), "rests": self.rests}

    @classmethod
    def of(cls, state: dict[str, Any]) -> Self:
        return cls(np.array(state["driven"], np.float64), {k: list(v) for k, v in state["rests"].items()})


def _vanishes(track: Track, now: _Frame) -> Iterator[Event]:
    """A thing that lay there is gone as soon as its place is seen without it."""
    end, box = track.last.time_s, track.last.box
    if track.object not in _NAMED or track.rest is None or _hides(now.seen, box):
        return
    before = end - settings.DEPARTURE_BEFORE_S
    lately = settings.DEPARTURE_WAIT_S <= now.time_s - end <= settings.PAIR_S
    if lately and now.memory.likeness(box, before, now.time_s) <= settings.ABSENT_THING_CORRELATION:
        track.rest, track.announced, track.departed, track.state = None, (), True, "ended"
        yield turn_event(track, "removed", end, (before, now.time_s), None, aspect=now.aspect)


def _comes(track: Track, start_s: float, now: _Frame) -> bool:
    """True where it was somewhere else before it came to rest, or outside the frame."""
    entered = track.arrived and start_s - track.first.time_s <= 2 * settings.HALT_S
    apart = sizes_apart(_earlier(track, start_s), track.last.box, now.aspect)
    comes = entered or apart >= settings.MOVED_SIZES
    if track.object in THINGS:
        return track.since_s is not None and (comes or _was_absent(track, track.first.time_s, now))
    # Whoever passes somebody who stands there may have exchanged tracks with him.
    alone = track.object != "person" or _was_absent(track, start_s, now)
    return (alone and comes) or _fills(track, start_s, now)


def _fills(track: Track, start_s: float, now: _Frame) -> bool:
    """True where what is surely seen came to a place that was vacant, and looked otherwise, before."""
    box, last_s = track.last.box, track.last.time_s
    apart = sizes_apart(_earlier(track, start_s), box, now.aspect)
    if _score(track) < settings.SURELY_SEEN_SCORE or apart < settings.SHIFT_SIZES:
        return False
    moments = (t for t, _ in now.memory.frames if t < start_s - 1e-3)
    vacant = [now.memory.likeness(box, t, last_s) for t in moments if _is_vacant(box, t, track, now)]
    return bool(vacant) and max(vacant) <= settings.UNCHANGED_CORRELATION


def _is_vacant(box: Box, time_s: float, track: Track, now: _Frame) -> bool:
    """True where neither a track nor a clear one of its family was at a place at a moment."""
    clear = (t for t in now.tracks if t.family == track.family and _score(t) >= settings.SURE_SCORE)
    there = (each.at(time_s) for each in chain([track], clear))
    return all(each is None or iou(each, box) <= settings.VACANT_IOU for each in there)


def _earlier(track: Track, start_s: float) -> Box:
    """Where it was a while before a moment, as far as it was seen."""
    return track.at(max(start_s - 2 * settings.HALT_S, track.first.time_s)) or track.first.box


def _has_stopped(track: Track, start_s: float, now: _Frame) -> bool:
    """True where it is one object that stands: seen all the time, not far away."""
    x, y, w, h = track.last.box
    if min(x, y, 1 - x - w, 1 - y - h) < settings.EDGE_SHARE and h < _earlier(track, start_s)[3]:
        return False  # it drives off into the distance, and the edge cuts it
    return _is_seen(track, start_s, now.time_s, now.memory)


def _is_seen(track: Track, start_s: float, end_s: float, memory: Memory) -> bool:
    """True where most frames of a span show it: else several objects may have been taken for one."""
    count = sum(start_s - 1e-3 <= o.time_s <= end_s + 1e-3 for o in track.observations)
    return count >= settings.REST_SEEN_SHARE * len(memory.between(start_s, end_s))


def _was_absent(track: Track, since_s: float, now: _Frame) -> bool:
    """True where its place was seen without it, before a moment and with nothing in front."""
    others, box, last_s = [t for t in now.seen if t is not track], track.last.box, track.last.time_s
    moments = [t for t, _ in now.memory.frames if t < since_s - 1e-3 and not _hides(others, box, t)]
    most = settings.ABSENT_THING_CORRELATION if track.object in THINGS else settings.ABSENT_CORRELATION
    return any(now.memory.likeness(box, t, last_s) <= most for t in moments)


def _hides(seen: Sequence[Track], box: Box, time_s: float | None = None) -> bool:
    """True where something lies over a place, now or at a moment."""
    boxes = (t.last.box if time_s is None else t.at(time_s) for t in seen)
    return any(each is not None and share_inside(box, each) > settings.COVERED_SHARE for each in boxes)


def _meetings(seen: Sequence[Track], ids: Collection[str], time_s: float, aspect: float) -> Iterator[Event]:
    """Two people who came from apart and stand together; of tracks that are gone nothing is kept."""
    people = [t for t in seen if t.object == "person"]
    standing = [t for t in people if t.rests_since_s is not None]
    for one, two in combinations(standing, 2):
        since = max(one.rests_since_s or 0.0, two.rests_since_s or 0.0)
        key = f"beside {two.id}"
        if time_s - since < settings.HALT_S or key in one.announced:
            continue
        if sizes_apart(one.last.box, two.last.box, aspect) > settings.TOGETHER_SIZES:
            continue
        near = [t for t in people if sizes_apart(one.last.box, t.last.box, aspect) <= settings.APART_SIZES]
        if len(near) > _MEETING:
            continue
        earlier = max(since - settings.MET_EARLIER_S, one.first.time_s, two.first.time_s)
        a, b = one.at(earlier), two.at(earlier)
        kept = (each for each in one.announced if not each.startswith("beside ") or each.split()[1] in ids)
        one.announced = (*kept, key)
        if a and b and sizes_apart(a, b, aspect) >= settings.APART_SIZES:
            one.announced, two.announced = (*one.announced, "met"), (*two.announced, "met")
            met = turn_event(one, "met", since, (earlier, time_s), time_s - since, aspect=aspect)
            yield replace(met, other=two.id)


def turn_event(
    track: Track,
    kind: str,
    when: float,
    pair: tuple[float, float],
    duration_s: float | None,
    *,
    aspect: float,
) -> Event:
    """The event of a turn; see `Event` for the arguments."""
    name, share = track.vote()
    pair = max(pair[0], pair[1] - settings.PAIR_S), pair[1]
    before, after = track.at(pair[0]) or track.first.box, track.last.box
    moved = sizes_apart(before, after, aspect) >= settings.TOGETHER_SIZES
    # Ten observations in one place are hardly wrong about that; what is in doubt is the object.
    least, slope, most = settings.TURN_CONFIDENCE
    confidence = min(most, least + slope * _score(track))
    return Event(
        kind, track.id, name, share, when, confidence, *pair,
        None if kind == "placed" else before, None if kind == "removed" else after,
        since_s=track.since_s if track.arrived else None, duration_s=duration_s,
        rests=kind not in ("resumed", "removed", "crossed"),
        way=way_of(before, after, aspect) if moved and name not in THINGS else "",
        path=path_of(track, *pair), completes=kind == "parked",
    )  # fmt: skip


def _score(track: Track) -> float:
    """Mean of its last ten detections."""
    return fmean(o.score for o in track.observations[-10:])


def _parts(seen: Sequence[Track]) -> set[str]:
    """Ids of tracks that are a part, or a second box, of a larger and surer one of their family."""
    boxes, scores = np.array([t.last.box for t in seen]), np.array([t.last.score for t in seen])
    within = shared_areas(boxes, boxes) > settings.PART_SHARE * boxes.reshape(-1, 4)[:, 2:].prod(1)[:, None]
    rows, columns = np.nonzero(within & (scores > scores[:, None]))
    pairs = ((seen[row], seen[column]) for row, column in zip(rows.tolist(), columns.tolist(), strict=True))
    return {part.id for part, whole in pairs if part.family == whole.family}


def _with_handler(turn: Event, tracks: Sequence[Track]) -> Event:
    """By whom a thing was put down or taken, if just one person was within reach."""
    if turn.kind not in ("placed", "removed"):
        return turn
    people = [track for track in tracks if track.object == "person" and track.id != turn.track]
    near = [each.id for each in people if (at := each.at(turn.time_s)) and within_reach(at, turn.box)]
    return replace(turn, other=near[0]) if len(near) == 1 else turn


def within_reach(person: Box, box: Box) -> bool:
    """True where most of a place lies within the reach of somebody who stands there."""
    x, y, w, h = person
    arm = settings.ARM_WIDTHS * w
    reach = x - arm, y, w + 2 * arm, (1 + settings.BELOW_HEIGHTS) * h
    return share_inside(box, reach) >= settings.REACHED_SHARE


def _stops(track: Track) -> bool:
    return _drives(track) or track.object == "person" or track.object in _NAMED


def _drives(track: Track) -> bool:
    return track.family in ("vehicle", "two-wheeler")


def _moves(track: Track, aspect: float) -> bool:
    speed = hypot(track.velocity[0] * aspect, track.velocity[1])
    is_followed = len(track.observations) >= settings.CONFIRMING_OBSERVATIONS
    return is_followed and speed > settings.DRIVES_SIZES_PER_S * size_of(track.last.box, aspect)


def _cell(track: Track) -> tuple[int, int]:
    """Row and column of its feet."""
    x, y, width, height = track.last.box
    last = settings.PLACE_CELLS - 1
    row, column = (int(v * settings.PLACE_CELLS) for v in (y + height, x + width / 2))
    return min(max(row, 0), last), min(max(column, 0), last)


def _place(track: Track) -> str:
    return f"{track.family} {_cell(track)}"


class Crossings:
    """The side of each line on which each track was last; where it changes, the line was crossed."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._sides: dict[tuple[str, int], tuple[float, bool]] = {}  # when last, and whether on its right

    def update(self, tracks: Sequence[Track], time_s: float, aspect: float) -> Iterator[Event]:
        """Crossings that are certain in this frame, of tracks that it shows; `aspect` is width / height."""
        if not self._lines:
            return
        known = {track.id for track in tracks}
        self._sides = {key: side for key, side in self._sides.items() if key[0] in known}
        for track in tracks:
            if track.state != "confirmed" or track.unseen_s > 0 or track.object in THINGS:
                continue
            for n, line in enumerate(self._lines):
                x, y, width, height = track.last.box
                across, beyond = line.side((x + width / 2, y + height))
                if abs(across) < settings.LINE_CLEAR_SIZES * sqrt(width * height):
                    continue
                last_s, right = self._sides.get((track.id, n), (time_s, across > 0))
                self._sides[track.id, n] = time_s, across > 0
                if right != (across > 0) and not beyond:
                    pair = max(last_s, time_s - settings.LINE_LONGEST_S), time_s
                    event = turn_event(track, "crossed", time_s, pair, None, aspect=aspect)
                    yield replace(event, line=f"{line.name} {line.ways[right]}")
