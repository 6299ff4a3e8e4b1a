import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.language.places import PLACES, Zone, check_zone, place, place_bin, side, way, zone_of
from models.papers.vocabulary import places_in

SQUARE = ((0.2, 0.2), (0.6, 0.2), (0.6, 0.6), (0.2, 0.6))


def small_box(x: float, y: float) -> tuple[float, float, float, float]:
    return x - 0.01, y - 0.01, 0.02, 0.02


def test_nine_ninths_row_by_row():
    grid = [small_box(x, y) for y in (0.2, 0.5, 0.8) for x in (0.2, 0.5, 0.8)]
    assert [place_bin(box) for box in grid] == list(range(9))
    assert [side(box) for box in grid] == ["left", "middle", "right"] * 3


@pytest.mark.parametrize(
    ("x", "y", "words", "deep"),
    [
        (0.2, 0.5, "on the left", "on the left"),
        (0.2, 0.1, "on the left", "in the background on the left"),
        (0.8, 0.9, "on the right", "in the foreground on the right"),
        (0.5, 0.5, "in the middle", "in the middle"),
        (0.5, 0.3, "in the middle", "in the background"),
        (0.5, 0.1, "near the top edge", "in the background"),
        (0.5, 0.9, "near the bottom edge", "in the foreground"),
        (0.05, 0.5, "near the left edge", "near the left edge"),
        (0.95, 0.1, "near the right edge", "in the background on the right"),
    ],
)
def test_places_as_people_name_them(x, y, words, deep):
    assert place(small_box(x, y)) == words
    assert place(small_box(x, y), depth=True) == deep


@pytest.mark.parametrize(
    ("box", "words", "deep"),
    [
        ((0.0, 0.2, 0.2, 0.7), "on the left", "on the left"),  # half as high as the picture: no edge
        ((0.4, 0.0, 0.2, 0.35), "", ""),  # hangs in from above: neither edge, nor middle, nor background
        ((0.4, 0.65, 0.2, 0.35), "", "in the foreground"),
        ((0.7, 0.0, 0.25, 0.6), "on the right", "on the right"),
        ((0.3, 0.1, 0.4, 0.9), "", ""),
        ((0.0, 0.0, 1.0, 1.0), "", ""),
    ],
)
def test_what_is_large_has_no_place_or_a_wide_one(box, words, deep):
    assert place(box) == words
    assert place(box, depth=True) == deep


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_the_words_are_true(x, y, depth):
    words = place((x, y, 0.0, 0.0), depth=depth)
    assert words in PLACES
    true = {
        *({"left"} if x < 0.4 else {"right"} if x > 0.6 else {"middle"}),
        *({"top", "far"} if y < 0.33 else {"bottom", "near"} if y > 0.67 else ()),
    }
    told = places_in(words)
    assert told
    assert told <= true
    assert ("middle" in told) <= (0.2 <= y <= 0.8)
    assert told.isdisjoint({"far", "near"} if not depth else {"top", "bottom"})


@pytest.mark.parametrize(
    ("start", "end", "words", "deep"),
    [
        ((0.2, 0.5), (0.8, 0.5), ("left", "right"), ("left", "right")),
        ((0.2, 0.5), (0.5, 0.5), ("left", "middle"), ("left", "middle")),
        ((0.2, 0.9), (0.5, 0.9), ("", ""), ("", "")),  # the middle of nothing
        ((0.2, 0.5), (0.3, 0.5), ("", ""), ("", "")),
        ((0.2, 0.1), (0.2, 0.9), ("", ""), ("far", "near")),
        ((0.2, 0.5), (0.2, 0.9), ("", ""), ("", "near")),
        ((0.2, 0.9), (0.2, 0.5), ("", ""), ("", "")),
    ],
)
def test_ways_have_two_ends(start, end, words, deep):
    assert way(small_box(*start), small_box(*end)) == words
    assert way(small_box(*start), small_box(*end), depth=True) == deep


def test_the_foot_point_decides_the_zone():
    yard = Zone("in the yard", SQUARE)
    assert zone_of((0.3, 0.0, 0.2, 0.5), [yard]) is yard
    assert zone_of((0.3, 0.3, 0.2, 0.5), [yard]) is None  # its head is in the zone, its feet are not
    assert zone_of((0.0, 0.3, 0.1, 0.1), [yard]) is None
    assert zone_of((0.3, 0.3, 0.1, 0.1), []) is None
    gate, box = Zone("at the gate", ((0.3, 0.3), (0.5, 0.3), (0.4, 0.5))), small_box(0.4, 0.35)
    assert (zone_of(box, [gate, yard]), zone_of(box, [yard, gate])) == (gate, yard), "the first listed wins"


def test_what_stands_on_the_edge_or_beyond_the_frame_is_inside():
    bottom = Zone("in front", ((0.0, 0.5), (1.0, 0.5), (1.0, 1.0), (0.0, 1.0)))
    assert bottom.holds((0.5, 1.0))
    assert bottom.holds((0.5, 1.0000001))
    assert bottom.holds((0.0, 0.5))
    assert not bottom.holds((0.5, 0.49))


def test_points_of_a_random_polygon_as_matplotlib_would_say():
    """Against the winding number, on stars around a centre."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        turns = np.sort(rng.uniform(0, 2 * np.pi, 7))
        reach = rng.uniform(0.1, 0.45, 7)
        corners = np.stack([0.5 + reach * np.cos(turns), 0.5 + reach * np.sin(turns)], axis=1)
        zone = Zone("here", tuple((float(x), float(y)) for x, y in corners))
        for x, y in rng.uniform(0, 1, (50, 2)):
            to = corners - (x, y)
            after = np.roll(to, -1, axis=0)
            angles = np.arctan2(to[:, 0] * after[:, 1] - to[:, 1] * after[:, 0], (to * after).sum(axis=1))
            assert zone.holds((x, y)) == (abs(angles.sum()) > 1)


@pytest.mark.parametrize(
    ("polygon", "told"),
    [
        (((0, 0), (1, 1)), "at least three corners"),
        (((0, 0), (1, 0), (1, 1.2)), r"\[1, 1.2\] lies outside"),
        (((0, 0), (float("nan"), 0), (1, 1)), "outside"),
        (((0, 0), (1, 1), (1, 0), (0, 1)), "from corner 1 and the edge from corner 3 cross"),
        (((0, 0), (0.5, 0.5), (1, 1)), "cross or touch"),
        (((0, 0), (1, 0), (0.5, 0), (0.5, 1)), "cross or touch"),
        (((0, 0), (1, 0), (1, 0), (0, 1)), "cross or touch"),
        (((0, 0), (1, 0), (1, 1), (0.5, 0), (0, 1)), "cross or touch"),
    ],
)
def test_what_is_no_area(polygon, told):
    with pytest.raises(ValueError, match=told):
        Zone("here", polygon)
    with pytest.raises(ValueError, match="needs its words"):
        Zone(" ", polygon)


@pytest.mark.parametrize(
    "phrase", [*PLACES, "in the car park", "at the bus stop", "outside", "at Gate 7", "by the baker's shop"]
)
def test_names_that_can_stand_in_a_sentence(phrase):
    check_zone(phrase)


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        ("in the lot.", "without full stop"),
        ("in " + "the lot " * 6 + "here", "40 letters"),
        ("entrance", "is not a sentence"),
    ],
)
def test_names_that_cannot(phrase, message):
    with pytest.raises(ValueError, match=message):
        check_zone(phrase)
