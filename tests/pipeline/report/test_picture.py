"""Pictures with marks."""

from dataclasses import replace

import numpy as np
import pytest
from narrations import narration
from numpy.typing import NDArray

from models.captioner import Sentence
from pipeline.record import ChainEnd, build_record
from pipeline.report.picture import draw_marks, encode, encode_small, shapes_of, side_by_side

CAR = Sentence("A car has appeared.", "appeared", "car", (0.5, 0.25, 0.25, 0.5), 0.9, 0.875)


def image(value: int = 120, width: int = 800, height: int = 450) -> NDArray[np.uint8]:
    return np.full((height, width, 3), value, np.uint8)


def test_boxes_are_drawn_where_they_are():
    picture = image(100, 400, 200)
    drawn = draw_marks(picture, [CAR], "after")
    assert (picture == 100).all()
    assert drawn.shape == picture.shape
    rows, columns = np.nonzero((drawn != 100).any(axis=2))
    assert (columns.min(), columns.max()) == pytest.approx((200, 300), abs=4)
    assert rows.max() == pytest.approx(150, abs=4)
    assert rows.min() < 48  # the number stands above the box
    assert (drawn[80:130, 230:280] == 100).all()
    assert (draw_marks(picture, [replace(CAR, box=None), CAR], "after") != drawn).any()  # 2, not 1


def test_a_picture_too_large_for_its_format_is_never_an_empty_file():
    with pytest.raises(ValueError, match="cannot be encoded"):
        encode(image(width=70_000, height=2))


@pytest.mark.parametrize("content", [b"", b"no picture"])
def test_a_file_that_is_no_picture_is_left_out(tmp_path, content):
    path = tmp_path / "empty.jpg"
    path.write_bytes(content)
    assert encode_small(path, 480) is None
    assert encode_small(tmp_path / "absent.jpg", 480) is None


def test_an_outline_is_drawn_instead_of_the_box():
    triangle = ((0.5, 0.75), (0.75, 0.75), (0.75, 0.25))
    told = replace(CAR, after=CAR.box, outline_after=triangle)
    drawn = draw_marks(image(100, 400, 200), [told], "after")
    assert (drawn[100, 250] != 100).any()  # on its slope, inside the box
    assert (drawn[60:90, 195:240] == 100).all()  # at the box's corner
    assert (draw_marks(image(100), [told], "before") == 100).all()


def test_a_sentence_is_marked_on_the_side_where_it_is():
    corners = ((0.1, 0.1), (0.2, 0.1), (0.2, 0.2))
    gone = replace(CAR, before=(0.1, 0.1, 0.1, 0.1), outline_before=corners)
    come = replace(CAR, after=(0.6, 0.6, 0.1, 0.1))
    moved = replace(CAR, before=(0.1, 0.5, 0.1, 0.1), after=(0.5, 0.5, 0.1, 0.1))
    told = [CAR, gone, come, moved, replace(CAR, box=None)]
    sides = {side: [(s.number, s.top) for s in shapes_of(told, side)] for side in ("before", "after")}
    assert sides["before"] == [(1, (0.5, 0.25)), (2, (0.1, 0.1)), (4, (0.1, 0.5))]
    assert sides["after"] == [(1, (0.5, 0.25)), (3, (0.6, 0.6)), (4, (0.5, 0.5))]
    record = build_record(narration(sentences=tuple(told)), ChainEnd())
    assert [(s.number, s.top) for s in shapes_of(record.sentences, "before")] == sides["before"]


@pytest.mark.parametrize("box", [(0, 0, 1, 1), (0.99, 0.99, 0.5, 0.5), (0, 0, 0, 0), (0.5, 0, 0.1, 0.01)])
def test_boxes_at_the_edges_are_cut(box):
    for width, height in ((800, 450), (40, 30), (8, 8)):
        drawn = draw_marks(image(100, width, height), [replace(CAR, box=box)] * 12, "after")
        assert drawn.shape == (height, width, 3)
        assert (drawn != 100).any()


def test_side_by_side_shows_both_pictures():
    picture = side_by_side(image(60, 640, 360), image(200, 320, 180), (CAR,))
    assert picture.shape[0] == 360
    assert 1280 < picture.shape[1] < 1340
    assert (picture[300, 100] == 60).all()
    assert (picture[300, picture.shape[1] // 2 + 200] == 200).all()
    assert side_by_side(image(60, 4000, 2000), image(60, 4000, 2000), ()).shape[1] < 1960
