"""Looking: at which size, in tiles as well, and each thing once."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rectangles import COLOURS, GREY, RectangleDetector

from models.detections import Detections
from models.families import CLASSES, OBJECTS
from models.grounded.detector import Answer
from models.grounded.inference import canvas, detect, merge_tiles, pixels_at
from models.grounded.settings import SETTINGS

WINDOW = torch.tensor([0.5, 0.25, 0.25, 0.5])


def some(*things: tuple[str, float, tuple[float, float, float, float]]) -> Detections:
    """Detections by name, score and box."""
    label = torch.zeros(len(things), len(OBJECTS))
    for row, (name, score, _) in enumerate(things):
        label[row, OBJECTS.index(name)] = score
    boxes = torch.tensor([box for _, _, box in things]).view(-1, 4)
    return Detections(boxes, torch.tensor([s for _, s, _ in things]), label, torch.zeros(len(things), 192))


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


def picture(height: int, width: int, name: str, x: int, y: int) -> torch.Tensor:
    made = torch.full((3, height, width), GREY, dtype=torch.uint8)
    made[:, y : y + 24, x : x + 40] = torch.tensor(COLOURS[name], dtype=torch.uint8).view(3, 1, 1)
    return made


def test_pictures_of_several_sizes_keep_their_order() -> None:
    detector = RectangleDetector(len(CLASSES))
    pictures = [
        picture(96, 160, "car", 20, 30),
        picture(128, 128, "person", 60, 70),
        picture(96, 160, "bottle", 100, 50),
    ]
    together = detect(detector, pictures)
    assert [each.name(0) for each in together] == ["car", "person", "bottle"]
    assert together[0].box[0].tolist() == pytest.approx([20 / 160, 30 / 96, 40 / 160, 24 / 96], abs=1e-4)
    for each, alone in zip(together, pictures, strict=True):
        [single] = detect(detector, [alone])
        for name in ("box", "score", "label", "feature"):
            assert torch.equal(getattr(each, name), getattr(single, name))  # to the last digit
    assert detect(detector, []) == []


class Small(RectangleDetector):
    """One that has room for so many pictures at once."""

    room = 2
    asked: list[int]

    def forward(self, pictures: torch.Tensor) -> Answer:
        self.asked.append(len(pictures))
        if len(pictures) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().forward(pictures)


class Away(torch.Tensor):
    """A picture that is not on the CPU."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda")


def test_pictures_that_do_not_fit_the_memory_are_looked_at_in_halves() -> None:
    detector = Small(len(CLASSES))
    detector.asked = []
    names = ["car", "person", "bottle", "car", "bottle"]
    here = [picture(96, 160, name, 20 + 10 * k, 30) for k, name in enumerate(names)]
    away = [each.as_subclass(Away) for each in here]
    assert [each.name(0) for each in detect(detector, away)] == names
    assert detector.asked == [5, 3, 2, 1, 2]
    detector.room = 0
    with pytest.raises(torch.OutOfMemoryError):
        detect(detector, away)


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
    corner = torch.tensor([0.0, 0.0, 0.25, 0.5])
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


def test_nothing_and_no_tiles() -> None:
    assert len(merge_tiles(some(), [])) == 0
    assert len(merge_tiles(some(), [(some(), WINDOW)])) == 0
