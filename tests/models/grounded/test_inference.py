"""Looking: at which size, in tiles as well, and each thing once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.detections import Detections
from models.families import OBJECTS
from models.grounded.inference import canvas, merge_tiles, pixels_at
from models.grounded.settings import SETTINGS

WINDOW = np.array([0.5, 0.25, 0.25, 0.5], np.float32)


def some(*things: tuple[str, float, tuple[float, float, float, float]]) -> Detections:
    """Detections by name, score and box."""
    label, feature = (np.zeros((len(things), n), np.float32) for n in (len(OBJECTS), 192))
    for row, (name, score, _) in enumerate(things):
        label[row, OBJECTS.index(name)] = score
    boxes = np.array([box for _, _, box in things], np.float32).reshape(-1, 4)
    return Detections(boxes, np.array([s for _, s, _ in things], np.float32), label, feature)


def test_a_canvas_has_about_the_frames_shape() -> None:
    assert canvas(1080, 1920) == (352, 640)
    assert canvas(576, 768) == (416, 544)
    assert canvas(480, 480) == (480, 480)


def test_stills_far_apart_are_seen_finer() -> None:
    assert pixels_at(SETTINGS.fine_gap_s) == pixels_at(86_400) == SETTINGS.fine_pixels > SETTINGS.pixels
    assert pixels_at(SETTINGS.fine_gap_s - 0.1) == pixels_at(float("nan")) == SETTINGS.pixels
    high, wide = canvas(1080, 1920, SETTINGS.fine_pixels)
    assert high * wide == pytest.approx(SETTINGS.fine_pixels, rel=0.12)


@given(st.integers(16, 4000), st.integers(16, 4000))
def test_a_canvas_has_sides_that_the_detector_takes(height: int, width: int) -> None:
    high, wide = canvas(height, width)
    assert high % 32 == wide % 32 == 0
    assert min(high, wide) >= 32
    if 0.25 <= height / width <= 4:
        assert high * wide == pytest.approx(SETTINGS.pixels, rel=0.12)
        assert high / wide == pytest.approx(height / width, rel=0.2)


def test_what_a_tile_shows_lies_where_the_tile_is() -> None:
    joined = merge_tiles(some(), [(some(("person", 0.8, (0.2, 0.4, 0.4, 0.2))), WINDOW)])
    assert joined.box.tolist() == [pytest.approx([0.55, 0.45, 0.1, 0.1])]
    assert joined.score.tolist() == [pytest.approx(0.8)]


def test_what_a_tile_cuts_is_dropped_but_not_what_the_frame_cuts() -> None:
    cut = some(
        ("person", 0.8, (0.0, 0.4, 0.3, 0.2)),
        ("person", 0.7, (0.7, 0.1, 0.3, 0.2)),
        ("person", 0.6, (0.4, 0.9, 0.1, 0.1)),
        ("person", 0.5, (0.4, 0.4, 0.2, 0.2)),
    )
    assert merge_tiles(some(), [(cut, WINDOW)]).score.tolist() == pytest.approx([0.5])
    corner = np.array([0.0, 0.0, 0.25, 0.5], np.float32)
    assert merge_tiles(some(), [(cut, corner)]).score.tolist() == pytest.approx([0.8, 0.5])


def test_one_thing_that_several_show_is_seen_once() -> None:
    whole = some(("person", 0.3, (0.55, 0.45, 0.1, 0.1)), ("car", 0.4, (0.1, 0.1, 0.2, 0.2)))
    tile = some(("person", 0.8, (0.22, 0.4, 0.4, 0.2)), ("car", 0.6, (0.22, 0.42, 0.38, 0.2)))
    joined = merge_tiles(whole, [(tile, WINDOW)])
    assert [joined.name(k) for k in range(3)] == ["person", "car", "car"]
    assert joined.score.tolist() == pytest.approx([0.8, 0.6, 0.4]), "families do not drive each other out"


def test_a_part_that_another_pass_shows_goes_and_a_neighbour_stays() -> None:
    whole = some(("person", 0.9, (0.52, 0.3, 0.16, 0.4)))
    tile = some(("person", 0.5, (0.2, 0.3, 0.3, 0.3)))
    assert merge_tiles(whole, [(tile, WINDOW)]).score.tolist() == pytest.approx([0.9])
    two = some(("person", 0.9, (0.52, 0.3, 0.16, 0.4)), ("person", 0.5, (0.55, 0.4, 0.08, 0.1)))
    assert len(merge_tiles(two, [])) == 2, "within one pass a small one before a large one is another"
