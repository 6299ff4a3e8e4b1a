"""Events: which tracks came, went or set out between the frames of a pair, and how clearly that was seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, hypot, log, sqrt

from models.boxes import Box, area, inside, offset
from models.grounded.tracks import Sight, Track, alike

EVIDENCE = (
    "mean score",
    "score at the end",
    "best score",
    "log of sights",
    "share seen",
    "at the edge",
    "through the edge",
    "covered",
    "another could be it",
    "unsure detection there",
    "pixels changed",
    "log height",
    "way",
    "missing",
    "likeness",
    "neighbours",
)
"""What the floats of `evidence` are."""

NEAR_EDGE = 0.25
"""Own sizes from the frame's edge at which somebody can leave through it."""

STRIDE = 0.35
"""... and from which he can with his next step, if he goes there so fast."""

HIDDEN = 0.6
"""Share of an end that another track covers, beyond which it may be there behind it."""

RIVAL = 0.45
"""`rivalry` from which another track may be the missing part of one."""

BEHIND = 0.15
"""Share of its height by which the feet of what hides something may be higher in the picture than its own."""

PART = 0.7
"""Share of a box within another from which it shows no more than that."""

LOOKS_APART = 7.0
"""How much less one track could be another for each step of `alike`: as `LIKENESS` of what is new has it."""

_NEAR = 2.0  # own sizes within which there are neighbours
_SIDES = ("left", "right", "far", "near")
_RIVAL_S = 6.0  # seconds between the end of one track and the beginning of another that could be its own
_STEP_S = 0.5
_SEEN_BEFORE = 2  # sights in front of something
_SIGHTS_AT_END = 3  # that tell where it came from or went to


@dataclass(frozen=True, slots=True)
class End:
    """An end of a track, looked at from within: sights from the end inwards.

    Attributes:
        sights: the end first, then its neighbours.
        coming: a beginning; else an ending.
    """

    sights: Sequence[Sight]
    coming: bool

    @property
    def sight(self) -> Sight:
        """The outermost."""
        return self.sights[0]

    def outwards(self) -> tuple[float, float]:
        """Shares of the frame, x and y, from the last few sights to the end."""
        inner = self.sights[min(_SIGHTS_AT_END, len(self.sights)) - 1].box
        x, y, w, h = self.sight.box
        return x + w / 2 - inner[0] - inner[2] / 2, y + h / 2 - inner[1] - inner[3] / 2


def end_of(track: Track, *, coming: bool) -> End:
    """Its beginning, or its ending."""
    return End(track.sights[:8] if coming else track.sights[:-9:-1], coming)


def size(box: Box, aspect: float) -> float:
    """Root of the area, in heights of the frame."""
    return sqrt(max(area(box) * aspect, 1e-9))


def apart(a: Box, b: Box, aspect: float) -> float:
    """Own sizes between the middles of two boxes."""
    across, down = offset(a, b)
    return hypot(across * aspect, down) / sqrt(size(a, aspect) * size(b, aspect))


def side(end: End, aspect: float) -> tuple[str, float, float]:
    """Which edge of the frame an end lies at, own sizes from it, and own sizes that it went towards it."""
    x, y, w, h = end.sight.box
    unit = size(end.sight.box, aspect)
    gaps = (x * aspect, (1 - x - w) * aspect, y, 1 - y - h)
    dx, dy = end.outwards()
    ways = (-dx * aspect, dx * aspect, -dy, dy)
    name, gap, way = min(
        zip(_SIDES, gaps, ways, strict=True),
        key=lambda each: each[1] / unit - min(max(each[2] / unit, 0.0), 1.0),
    )
    return name, gap / unit, way / unit


def through(end: End, aspect: float) -> tuple[str, bool]:
    """Which edge of the frame an end lies at, and whether the way led through it."""
    name, gap, way = side(end, aspect)
    stride = way / max(min(_SIGHTS_AT_END, len(end.sights)) - 1, 1)
    return name, gap <= max(NEAR_EDGE, min(stride, STRIDE))


def leads_to(end: End, other: End, aspect: float) -> float:
    """How easily what ended and what began could be one, 0..1: 1 where it stands there, e^-1 a size away."""
    gap = abs(end.sight.seconds - other.sight.seconds)
    x, y, w, h = end.sight.box
    dx, dy = end.outwards()
    took = abs(end.sight.seconds - end.sights[min(_SIGHTS_AT_END, len(end.sights)) - 1].seconds)
    ahead = min(gap, 1.5) / took if took else 0.0
    expected = x + dx * ahead, y + dy * ahead, w, h
    far = min(apart(expected, other.sight.box, aspect), apart(end.sight.box, other.sight.box, aspect))
    bigger = abs(log(end.sight.box[3] / other.sight.box[3]))
    return exp(-far / max(gap / _STEP_S, 1.0) ** 0.5 - bigger)


def rivalry(track: Track, tracks: Iterable[Track], *, coming: bool, aspect: float) -> float:
    """How easily another track could be the missing part of this one, 0..1.

    Args:
        track: it begins (coming) or ends.
        tracks: all of the camera.
        coming: which end.
        aspect: width of the frame over its height.
    """
    end, best = end_of(track, coming=coming), 0.0
    for other in tracks:
        theirs = end_of(other, coming=not coming)
        ahead = (
            end.sight.seconds - theirs.sight.seconds if coming else theirs.sight.seconds - end.sight.seconds
        )
        if other is not track and other.family == track.family and 0 < ahead <= _RIVAL_S:
            near = max(leads_to(end, theirs, aspect), leads_to(theirs, end, aspect))
            best = max(best, near * _as_alike(track, other))
    return best


def _as_alike(track: Track, other: Track) -> float:
    """0..1, 1 where two tracks look alike or nobody knows."""
    if track.looks is None or other.looks is None:
        return 1.0
    return exp(LOOKS_APART * min(float(alike(track.looks, other.looks)), 0.0))


def evidence(
    track: Track,
    tracks: Sequence[Track],
    frames: Sequence[float],
    *,
    coming: bool | None,
    aspect: float,
    unsure: float,
    changed: float,
) -> tuple[float, ...]:
    """What speaks for an event, `EVIDENCE` in numbers; the same whichever way time runs.

    Args:
        track: whose.
        tracks: all of the camera.
        frames: seconds of the frames of the pair, those later than it included.
        coming: it came; False where it went, None where it moved.
        aspect: width of the frame over its height.
        unsure: best score of what was detected, but belongs to no track, where the track should go on.
        changed: how much the pixels changed where it is (was), 0..3.
    """
    here = [s for s in track.sights if frames[0] - 1e-6 <= s.seconds <= frames[-1] + 1e-6] or track.sights
    end = end_of(track, coming=coming is not False)
    covered = max((_cover(end, track, other) for other in tracks if other is not track), default=0.0)
    _, gap, way = side(end, aspect)
    scores = [s.score for s in here]
    span = [t for t in frames if here[0].seconds - 1e-6 <= t <= here[-1].seconds + 1e-6]
    absent = (
        [t for t in frames if t < end.sight.seconds - 1e-6]
        if coming
        else [t for t in frames if t > end.sight.seconds + 1e-6]
    )
    return (
        sum(scores) / len(scores),
        end.sight.score,
        max(scores),
        log(min(len(track.sights), 20)),
        min(len(here) / max(len(span), 1), 1.0),
        exp(-max(gap, 0.0) / NEAR_EDGE),
        min(max(way, 0.0), 2.0) * exp(-max(gap, 0.0)),
        covered,
        0.0 if coming is None else rivalry(track, tracks, coming=coming, aspect=aspect),
        unsure,
        changed,
        log(end.sight.box[3]),
        min(apart(here[0].box, here[-1].box, aspect), 4.0),
        0.0 if coming is None else min(len(absent), 4) / 4,
        min(s.likeness for s in here),
        log(1 + _neighbours(end, track, tracks, aspect)),
    )


def in_doubt(track: Track, tracks: Sequence[Track], *, coming: bool, aspect: float) -> bool:
    """Whether a track may go on behind another object, or as another track, and must be waited for.

    Through the edge of the frame nobody needs to be hidden.
    """
    end = end_of(track, coming=coming)
    if through(end, aspect)[1]:
        return False
    hidden = max((_cover(end, track, other) for other in tracks if other is not track), default=0.0)
    return hidden > HIDDEN or rivalry(track, tracks, coming=coming, aspect=aspect) > RIVAL


def doubled(track: Track, tracks: Iterable[Track], here: float, absent: float) -> bool:
    """Whether it is only a part or a second box of another track to which the same happened.

    Args:
        track: whose.
        tracks: all of the camera.
        here: seconds at which it is there.
        absent: seconds at which neither is, where something came or went; else the other moment.
    """
    own = track.at(here)
    others = (t for t in tracks if t is not track and t.family == track.family)
    there = [(t, s.box) for t in others if (s := t.at(here))]
    gone = track.at(absent) is None
    return own is not None and any(
        inside(own.box, box) > PART
        and (area(own.box), -track.number) < (area(box), -other.number)
        and (other.at(absent) is None) == gone
        for other, box in there
    )


def _cover(end: End, track: Track, other: Track) -> float:
    """How much of an end another track hides, just outside of it: one whose feet are nearer to the camera.

    What it was seen in front of hides nothing of it, unless it is of its own kind: "something" as large as a
    road would hide whoever walks there.
    """
    outside = end.sight.seconds + (-_STEP_S if end.coming else _STEP_S)
    _, y, _, h = end.sight.box
    there = [s.box for t in (end.sight.seconds, outside) if (s := other.at(t))]
    share = max(
        (inside(end.sight.box, box) for box in there if box[1] + box[3] >= y + h - BEHIND * h), default=0.0
    )
    if share == 0 or other.family == track.family:
        return share
    inner = [(s.box, o.box) for s in end.sights[1:] if (o := other.at(s.seconds))]
    return 0.0 if sum(inside(own, box) > HIDDEN for own, box in inner) >= _SEEN_BEFORE else share


def _neighbours(end: End, track: Track, tracks: Iterable[Track], aspect: float) -> int:
    """How many of its family are near an end."""
    family = (other for other in tracks if other is not track and other.family == track.family)
    there = (other.at(end.sight.seconds) for other in family)
    return sum(apart(s.box, end.sight.box, aspect) < _NEAR for s in there if s)
