"""Detection where a picture has changed finds what a look at the whole picture finds."""

from dataclasses import dataclass, field

import cv2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.detections import Detections, overlaps
from models.families import OBJECTS
from pipeline.narration.batch import RegionDetector
from pipeline.settings import WHOLE_EVERY
from pipeline.sources import Image

HEIGHT, WIDTH = 192, 320


@dataclass
class Squares:
    """Detects what is bright."""

    sizes: list[int] = field(default_factory=list)  # pixels of each picture that was looked at
    score: float = 0.9

    def __call__(self, image: Image) -> Detections:
        height, width = image.shape[:2]
        assert height % 32 == width % 32 == 0
        self.sizes.append(height * width)
        bright = (image[..., 0] > 128).astype(np.uint8)
        box = cv2.connectedComponentsWithStats(bright)[2][1:, :4] / np.array([width, height] * 2)
        label = np.zeros((len(box), len(OBJECTS)), np.float32)
        label[:, 0] = self.score
        return Detections(box.astype(np.float32), label[:, 0], label, np.zeros((len(box), 2), np.float32))


def picture(*squares: tuple[int, int, int]) -> Image:
    """Squares at x, y of a side, on grey."""
    image = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    for x, y, side in squares:
        image[y : y + side, x : x + side] = 220
    return image


places = st.tuples(st.integers(0, WIDTH - 9), st.integers(0, HEIGHT - 9), st.integers(9, 80))
steps = st.lists(st.tuples(st.integers(-14, 14), st.integers(-14, 14)), min_size=4, max_size=4)
jumps = st.lists(st.lists(places, max_size=4), min_size=2, max_size=WHOLE_EVERY)


def check(images: list[Image]) -> None:
    camera = RegionDetector()
    for image in images:
        found, whole = camera.detect(image, Squares()), Squares()(image)
        assert len(found) == len(whole)
        assert (overlaps(found.box, whole.box).max(1, initial=0) > 0.7).all()  # a line of pixels is no change


@settings(max_examples=100, deadline=None)
@given(jumps)
def test_what_comes_and_goes_is_found_as_in_the_whole_picture(
    scenes: list[list[tuple[int, int, int]]],
) -> None:
    check([picture(*squares) for squares in scenes])


@settings(max_examples=100, deadline=None)
@given(st.lists(places, min_size=1, max_size=4), st.lists(steps, min_size=2, max_size=WHOLE_EVERY))
def test_what_moves_step_by_step_is_found_as_in_the_whole_picture(
    squares: list[tuple[int, int, int]], moves: list[list[tuple[int, int]]]
) -> None:
    """Within what is large nothing changes."""
    images = [picture(*squares)]
    for each in moves:
        moved = [
            (x + right, y + down, side) for (x, y, side), (right, down) in zip(squares, each, strict=False)
        ]
        squares = [(min(max(x, 0), WIDTH - 9), min(max(y, 0), HEIGHT - 9), side) for x, y, side in moved]
        images.append(picture(*squares))
    check(images)


def test_what_is_large_and_moves_is_found_whole_although_only_its_edges_change() -> None:
    check([picture((20 + 14 * n, 60, 80)) for n in range(6)])


def test_what_appears_and_is_half_like_its_background_is_found_whole() -> None:
    before = np.full_like(picture(), 126)
    after = before.copy()
    after[60:124, 100:132], after[60:124, 132:196] = 220, 130
    check([before, after])


def test_what_two_regions_share_is_found_once() -> None:
    """Of a bar upright and one across, with something small between them."""
    before = picture((62, 146, 36))
    after = before.copy()
    after[20:184, 14:26] = after[160:168, 130:200] = 220
    check([before, after])


def test_only_what_changes_is_looked_at_and_everything_now_and_then() -> None:
    camera, detector = RegionDetector(), Squares()
    still = (250, 20, 40)
    for n in range(WHOLE_EVERY):
        found = camera.detect(picture((20 + 4 * n, 120, 30), still), detector)
        assert len(found) == 2
    whole, *parts = detector.sizes
    assert whole == HEIGHT * WIDTH
    assert len(parts) == WHOLE_EVERY - 1
    assert max(parts) < 0.4 * whole
    camera.detect(picture((20, 120, 30), still), detector)
    assert detector.sizes[-1] == whole


def test_nothing_is_looked_at_where_nothing_changes_and_slow_change_adds_up() -> None:
    camera, detector = RegionDetector(), Squares()
    camera.detect(picture((100, 60, 40)), detector)
    fading = [picture((100, 60, 40)) - np.uint8(3 * n) * (picture((100, 60, 40)) > 128) for n in range(4)]
    for image in fading:
        camera.detect(np.asarray(image, np.uint8), detector)
    assert 1 <= len(detector.sizes) - 1 <= 2


def test_other_sizes_and_pictures_that_change_all_over_are_seen_whole() -> None:
    camera, detector = RegionDetector(), Squares()
    images: list[NDArray[np.uint8]] = [picture(), picture()[:160], picture()[:160] + np.uint8(30)]
    for image in images:
        camera.detect(image, detector)
    assert detector.sizes == [image.shape[0] * image.shape[1] for image in images]


def test_weak_detections_are_no_reason_to_look_further_and_no_part_of_one_is_another() -> None:
    camera, detector = RegionDetector(), Squares(score=0.1)
    image = picture((0, 0, 180))
    camera.detect(image, detector)
    image[60:90, 60:90] = 180
    assert len(camera.detect(image, detector)) == 1
    assert detector.sizes[-1] < 0.3 * HEIGHT * WIDTH
