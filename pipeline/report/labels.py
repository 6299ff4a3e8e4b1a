"""Where labels go: beside the thing they name, never on another label, seldom on another thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NEAR = 3  # label heights within which a label is still seen to belong to its thing


class Rectangle(NamedTuple):
    """Pixels ``x <= column < x + width``, ``y <= row < y + height``."""

    x: int
    y: int
    width: int
    height: int

    @property
    def centre(self) -> tuple[int, int]:
        """Its middle pixel."""
        return self.x + self.width // 2, self.y + self.height // 2

    def shared(self, other: Rectangle) -> int:
        """How many pixels both have."""
        across = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        down = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        return max(0, across) * max(0, down)

    def gap(self, other: Rectangle) -> int:
        """Pixels between the two, across or down, whichever is more; 0 where they touch."""
        across = max(self.x, other.x) - min(self.x + self.width, other.x + other.width)
        down = max(self.y, other.y) - min(self.y + self.height, other.y + other.height)
        return max(0, across, down)

    def nearest(self, point: tuple[int, int]) -> tuple[int, int]:
        """Its point that is nearest to another."""
        x, y = point
        return (
            min(max(x, self.x), self.x + self.width),
            min(max(y, self.y), self.y + self.height),
        )


def place_labels(
    things: Sequence[Rectangle],
    peaks: Sequence[int],
    sizes: Sequence[tuple[int, int]],
    picture: tuple[int, int],
) -> list[Rectangle]:
    """A place for the label of each thing.

    A label goes to the first place of these that there is: beside its thing and on nothing; at some distance
    and on nothing; beside its thing, on another thing; anywhere; where it hides the least of other labels.

    Args:
        things: what is named, the most important first.
        peaks: the column of each thing's highest point, over which its label stands best.
        sizes: ``(width, height)`` of each label.
        picture: ``(width, height)``.

    Returns:
        One place per thing, inside the picture as far as the label fits into it. No two share a pixel
        unless the picture has no room for them all.
    """
    placed: list[Rectangle] = []
    for thing, peak, size in zip(things, peaks, sizes, strict=True):
        others = [other for other in things if other is not thing]
        beside = list(_beside(thing, peak, size, picture))
        place = _free(beside, placed + others)
        if place is None:
            around = _around(thing, size, picture)
            near = [place for place in around if thing.gap(place) <= _NEAR * size[1]]
            place = _free(near, placed + others) or _free(beside, placed) or _free(around, placed)
        placed.append(place or min(beside, key=lambda p: sum(p.shared(taken) for taken in placed)))
    return placed


def _free(places: Sequence[Rectangle], avoided: Sequence[Rectangle]) -> Rectangle | None:
    """The first place that shares no pixel with what is avoided."""
    return next((place for place in places if not any(place.shared(each) for each in avoided)), None)


def _beside(
    thing: Rectangle, peak: int, size: tuple[int, int], picture: tuple[int, int]
) -> Iterator[Rectangle]:
    """Places that touch the thing from outside, then inside its corners."""
    width, height = size
    left, top = thing.x, thing.y
    right, bottom = thing.x + thing.width, thing.y + thing.height
    above, below = top - height - 1, bottom + 2
    outside = [
        (peak - width // 2, above),
        (left, above),
        (right - width, above),
        (left, below),
        (right - width, below),
        (right + 2, top),
        (left - width - 1, top),
        (right + 2, bottom - height),
        (left - width - 1, bottom - height),
    ]
    for x, y in outside:
        if 0 <= y <= picture[1] - height and -width < x < picture[0]:
            inside = Rectangle(_within(x, picture[0] - width), y, width, height)
            if not inside.shared(thing):
                yield inside
    for x, y in (
        (left, top),
        (right - width, top),
        (left, bottom - height),
        (right - width, bottom - height),
    ):
        yield Rectangle(_within(x, picture[0] - width), _within(y, picture[1] - height), width, height)


def _around(thing: Rectangle, size: tuple[int, int], picture: tuple[int, int]) -> list[Rectangle]:
    """A raster of places over the picture, the nearest to the thing first."""
    width, height = size
    places = [
        Rectangle(x, y, width, height)
        for y in range(0, picture[1] - height + 1, max(1, height // 2))
        for x in range(0, picture[0] - width + 1, max(1, width // 2))
    ]
    cx, cy = thing.centre
    return sorted(places, key=lambda p: (thing.gap(p), (p.centre[0] - cx) ** 2 + (p.centre[1] - cy) ** 2))


def _within(value: int, most: int) -> int:
    return max(0, min(value, most))
