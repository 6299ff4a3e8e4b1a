"""Words for places: of the picture, or a camera's own zones."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import hypot, inf

from models.boxes import Box, Point
from models.language.catalogue import N_

LEFT, RIGHT = 0.4, 0.6  # a centre below is on the left, above on the right, between them in the middle
TOP, BOTTOM = 0.33, 0.67  # a centre below is at the top, above at the bottom
EDGE = 0.12  # a centre this close to the side of the frame is near that edge
HIGH, LOW = 0.2, 0.8
"""A centre in the middle column above or below is near the top or the bottom edge, no more in the middle."""

LARGE = 0.25  # a box longer than this share of the frame is not near an edge, nor in the background
FILLING = 0.25  # a box that covers this share of the frame has no place in it

SIDES = ("left", "middle", "right")

PLACES = (
    N_("on the left"),
    N_("in the middle"),
    N_("on the right"),
    N_("near the left edge"),
    N_("near the right edge"),
    N_("near the top edge"),
    N_("near the bottom edge"),
    N_("in the background"),
    N_("in the background on the left"),
    N_("in the background on the right"),
    N_("in the foreground"),
    N_("in the foreground on the left"),
    N_("in the foreground on the right"),
)
"""Every place of the picture that a sentence names."""

DIRECTIONS = (
    *(N_("from left to right"), N_("from right to left")),
    *(N_("from top to bottom"), N_("from bottom to top")),
)
"""Directions across a line."""

_PHRASE = re.compile(r"[^\W_](?:(?:[^\W_]|[' -])*[^\W_])?")
_LONGEST = 40
_BEFORE_A_PLACE = {
    *("above", "across", "along", "alongside", "among", "around", "at", "before", "behind", "below"),
    *("beneath", "beside", "between", "beyond", "by", "close", "down", "downstairs", "in", "indoors"),
    *("inside", "near", "next", "on", "opposite", "outdoors", "outside", "over", "past", "round"),
    *("through", "toward", "towards", "under", "underneath", "up", "upstairs", "within"),
}
"""First words of a phrase for a place."""

_CORNERS = 3
_EDGE = 1e-9


@dataclass(frozen=True, slots=True)
class Zone:
    """A named part of a camera's picture; its corners are in order, ``(x, y)`` in 0..1 of the frame.

    ValueError where it has no words, fewer than three corners, one outside the frame, or edges that cross.
    """

    phrase: str  # the place as it stands in a sentence: "at the entrance", "in the lot"
    polygon: tuple[Point, ...]

    def __post_init__(self) -> None:
        if not self.phrase.strip():
            raise ValueError('a zone needs its words in a sentence, such as "at the entrance"')
        if len(self.polygon) < _CORNERS:
            raise ValueError(f"a zone has at least three corners [x, y], not {len(self.polygon)}")
        for x, y in self.polygon:
            if not (0 <= x <= 1 and 0 <= y <= 1):
                raise ValueError(f"the corner [{x:g}, {y:g}] lies outside the frame: x and y are shares 0..1")
        if crossing := _crossing(self.polygon):
            one, other = crossing
            raise ValueError(
                f"the edge from corner {one + 1} and the edge from corner {other + 1} cross or touch: "
                "write the corners in the order of a walk around the zone"
            )

    def holds(self, point: Point) -> bool:
        """True for a point in the zone or on its edge; points beyond the frame are moved to its border."""
        x, y = (min(max(v, 0.0), 1.0) for v in point)
        inside = False
        for (ax, ay), (bx, by) in pairwise((*self.polygon, self.polygon[0])):
            if _distance((x, y), (ax, ay), (bx, by)) <= _EDGE:
                return True
            if (ay > y) != (by > y) and x < ax + (y - ay) * (bx - ax) / (by - ay):
                inside = not inside
        return inside


@dataclass(frozen=True, slots=True)
class Line:
    """A named line in a camera's picture."""

    name: str  # as it stands in a sentence: "has crossed the gate line"
    points: tuple[Point, ...]  # two or more, ``(x, y)`` in 0..1 of the frame
    # words of a crossing from the left to the right of one who follows the line, and back; empty for
    # those of the picture
    directions: tuple[str, ...] = ()

    def side(self, point: Point) -> tuple[float, float]:
        """Shares of the frame from the line, negative on its left; and beyond its ends, along it."""
        best, beyond = inf, 0.0
        for (ax, ay), (bx, by) in pairwise(self.points):
            dx, dy, px, py = bx - ax, by - ay, point[0] - ax, point[1] - ay
            length = hypot(dx, dy)
            along, across = (px * dx + py * dy) / length, (dx * py - dy * px) / length
            outside = max(-along, along - length, 0.0)
            if hypot(across, outside) < hypot(best, beyond):
                best, beyond = across, outside
        return best, beyond

    @property
    def ways(self) -> tuple[str, ...]:
        """Words of both crossings: to its right, and to its left."""
        (ax, ay), (bx, by) = self.points[0], self.points[-1]
        upright = abs(bx - ax) < abs(by - ay)
        both = DIRECTIONS[:2] if upright else DIRECTIONS[2:]
        return self.directions or (both if (ay > by if upright else bx > ax) else both[::-1])


@dataclass(frozen=True, slots=True)
class Door:
    """A door, gate or barrier in a camera's picture."""

    name: str  # as it stands in a sentence: "the gate"
    polygon: tuple[Point, ...]  # its corners where it is closed, ``(x, y)`` in 0..1 of the frame
    usually: str = "closed"  # closed or open: what it is most of the time

    @property
    def object(self) -> str:
        return "gate" if "gate" in self.name.lower() else "door"

    @property
    def box(self) -> Box:
        left, top = (min(each) for each in zip(*self.polygon, strict=True))
        right, low = (max(each) for each in zip(*self.polygon, strict=True))
        return left, top, right - left, low - top


def check_zone(phrase: str, *, english: bool = True) -> None:
    """Refuse a zone's name that cannot stand in a sentence, "A car has appeared <name>.", as a place.

    In English it begins as a place does; a ValueError says what to write instead.
    """
    words = phrase.split()
    if not words or phrase != " ".join(words) or len(phrase) > _LONGEST or not _PHRASE.fullmatch(phrase):
        raise ValueError(f"write a few plain words without full stop, {_LONGEST} letters at most")
    if english and words[0].lower() not in _BEFORE_A_PLACE:
        raise ValueError(
            f'"A car has appeared {phrase}." is not a sentence: write the words of the place as spoken, '
            '"at the entrance", "in the lot"'
        )


def zone_of(box: Box, zones: Iterable[Zone]) -> Zone | None:
    """The first zone that holds a box's foot point, the middle of its lower edge, where a thing stands."""
    x, y, width, height = box
    return next((zone for zone in zones if zone.holds((x + width / 2, y + height))), None)


def phrase_of(box: Box, zones: Iterable[Zone] = (), *, depth: bool = False) -> str:
    """The words for a box's place: of its zone, else of the picture, with `depth` as of `place`."""
    zone = zone_of(box, zones)
    return zone.phrase if zone else place(box, depth=depth)


def is_at(box: Box, words: str, zones: Iterable[Zone] = (), *, depth: bool = False) -> bool:
    """True where words for a place, if any, could be about a box: near the edge is on that side as well."""
    return not words or words in (phrase_of(box, zones, depth=depth), f"on the {side(box)}")


def side(box: Box) -> str:
    """The third of the frame in which a box's centre lies: left, middle or right."""
    return SIDES[_column(box)]


def row(box: Box) -> int:
    """The third of the frame in which a box's centre lies from top to bottom: 0, 1 or 2."""
    y = box[1] + box[3] / 2
    return 0 if y < TOP else 2 if y > BOTTOM else 1


def place_bin(box: Box) -> int:
    """Number 0..8 of the ninth of the frame in which a box's centre lies, row by row from the top left."""
    return len(SIDES) * row(box) + _column(box)


def place(box: Box, *, depth: bool = False) -> str:
    """The place of a box's centre: one of `PLACES`, or empty for a box that fills the picture.

    `depth`: high in the picture is far away, as for cameras that look ahead rather than down.
    """
    x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
    if box[2] * box[3] >= FILLING:
        return ""
    sideways, large = _column(box) != 1, max(box[2:]) > LARGE
    if depth and (row(box) == 2 or (row(box) == 0 and not large)):  # noqa: PLR2004 - the lowest row
        ground = "in the background" if row(box) == 0 else "in the foreground"
        return f"{ground} on the {side(box)}" if sideways else ground
    if not large and (x < EDGE or x > 1 - EDGE):
        return f"near the {side(box)} edge"
    if sideways:
        return f"on the {side(box)}"
    if HIGH <= y <= LOW:
        return "in the middle"
    return "" if large else "near the top edge" if y < HIGH else "near the bottom edge"


def way(before: Box, after: Box, *, depth: bool = False) -> tuple[str, str]:
    """Origin and target of a move: left, middle, right, far or near; `depth` as of `place`.

    Two empty strings where it stayed in one place, or where no words are true of it; an empty first one where
    only the target has a name.
    """
    start, end = side(before), side(after)
    if start != end:
        upright = any(HIGH <= box[1] + box[3] / 2 <= LOW for box in (before, after))
        return (start, end) if upright or "middle" not in (start, end) else ("", "")
    if depth and row(before) != row(after):
        names = ("far", "", "near")
        start, end = names[row(before)], names[row(after)]
        return (start, end) if start and end else ("", end)
    return "", ""


def _column(box: Box) -> int:
    x = box[0] + box[2] / 2
    return 0 if x < LEFT else 2 if x > RIGHT else 1


def _distance(point: Point, start: Point, end: Point) -> float:
    """From a point to a segment."""
    along_x, along_y = end[0] - start[0], end[1] - start[1]
    square = along_x * along_x + along_y * along_y
    share = ((point[0] - start[0]) * along_x + (point[1] - start[1]) * along_y) / square if square else 0.0
    share = min(max(share, 0.0), 1.0)
    return hypot(point[0] - start[0] - share * along_x, point[1] - start[1] - share * along_y)


def _crossing(polygon: tuple[Point, ...]) -> tuple[int, int] | None:
    """Two edges, by number, that meet elsewhere than at the corner they share; None in a simple polygon."""
    edges = [(k, (k + 1) % len(polygon)) for k in range(len(polygon))]
    for one, other in combinations(edges, 2):
        a, b, c, d = (polygon[k] for k in (*one, *other))
        ends = [(k, (c, d)) for k in one if k not in other] + [(k, (a, b)) for k in other if k not in one]
        touch = any(_distance(polygon[k], *edge) <= _EDGE for k, edge in ends)
        if touch or (_turn(a, b, c) * _turn(a, b, d) < 0 and _turn(c, d, a) * _turn(c, d, b) < 0):
            return one[0], other[0]
    return None


def _turn(a: Point, b: Point, c: Point) -> float:
    """Positive if a, b, c turn one way, negative if the other, 0 on a line."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
