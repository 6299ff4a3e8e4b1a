"""What captioners and the detector look at: views of pairs, batches of tensors, and what has changed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from still import shown

from models.detections import Detections, overlaps
from models.families import OBJECTS
from models.grounded.inference import canvas
from models.papers.captioner import PairBatch
from pipeline.changes import Change, ChangeOptions, find_changes
from pipeline.narration.batch import RegionDetector, detect, pair_input, views
from pipeline.pairs import FramePair
from pipeline.settings import LEAST_SCORE, WHOLE_EVERY
from pipeline.sources import Image

OPTIONS = ChangeOptions(size=(144, 192), eps=3, min_samples=10, min_area=0.001)


@dataclass
class Looks:
    """As much of a captioner as a batch is made for."""

    sees_views: bool
    image_size: tuple[int, int] = (224, 224)


VIEWS = Looks(sees_views=True)


def yard(*boxes: tuple[int, int], size: tuple[int, int] = (240, 320)) -> Image:
    """A textured yard in which bright boxes stand, each with a pattern that can be followed."""
    rough = np.random.default_rng(7).integers(60, 110, (size[0] // 8, size[1] // 8, 3), np.uint8)
    picture = np.kron(rough, np.ones((8, 8, 1), np.uint8))
    pattern = np.random.default_rng(3).integers(180, 255, (10, 6, 3), np.uint8)
    for x, y in boxes:
        picture[y : y + 50, x : x + 30] = np.kron(pattern, np.ones((5, 5, 1), np.uint8))
    return picture


def pair(before: Image, after: Image, gap_s: float = 4) -> FramePair:
    return FramePair(shown(before), shown(after, gap_s), 5.0)


def wide() -> list[Change]:
    """One in a frame of another shape."""
    size = (180, 480)
    return find_changes([pair(yard(size=size), yard((200, 60), size=size))], OPTIONS)


@pytest.fixture(scope="module")
def changes() -> list[Change]:
    """One cluster; two in a larger frame, seen by a camera that shook."""
    large = (480, 640)
    shaken = np.roll(yard((60, 60), (400, 300), size=large), (4, -6), axis=(0, 1))
    return find_changes(
        [
            pair(yard(), yard((200, 60))),
            pair(yard(size=large), shaken),
            pair(yard((40, 100)), yard((100, 100))),
        ],
        replace(OPTIONS, max_shift=8),
    )


def test_views_are_the_frames_of_each_pair(changes):
    assert changes[1].shift != (0, 0)
    for change in [*changes, *wide()]:
        found = pair_input(change, VIEWS)
        both = change.pair.before.image, change.pair.after.image
        moved = change.shift[0] / OPTIONS.size[1], change.shift[1] / OPTIONS.size[0]
        assert np.array_equal(found.views, views(*both, moved))
        assert found.images == both


def test_a_captioner_of_whole_frames_gets_them(changes):
    looks = Looks(sees_views=False, image_size=(112, 160))
    pairs = [pair_input(change, looks) for change in changes]
    assert {each.views.shape for each in pairs} == {(2, 112, 160, 3)}
    batch, counts = PairBatch.of(pairs), [len(each.boxes) for each in pairs]
    assert batch.before is not None
    assert batch.after is not None
    assert counts[1] == max(counts) > min(counts)
    assert batch.valid.sum(1).tolist() == counts
    assert not batch.masks[~batch.valid].any()
    for b, each in enumerate(pairs):
        for side, images in enumerate((batch.before, batch.after)):
            assert np.array_equal(images[b].permute(1, 2, 0), each.views[side])
        assert np.array_equal(batch.masks[b, : counts[b]], each.masks)
        assert np.array_equal(batch.boxes[b, : counts[b]], each.boxes)


def test_the_time_between_is_told_where_it_is_known(changes):
    unknown = replace(changes[0], pair=replace(changes[0].pair, gap_known=False))
    for looks in (VIEWS, Looks(sees_views=False)):
        assert pair_input(changes[1], looks).gap_s == 4.0
        assert np.isnan(pair_input(unknown, looks).gap_s)


class Eyes:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[Image] = []

    def see(self, pictures: Sequence[Image], least: float = 0.0) -> list[Detections]:
        assert least == LEAST_SCORE, "what the tracker ignores need not be found"
        self.shown += pictures
        return [none_seen() for _ in pictures]

    def embed(self, found: Detections) -> np.ndarray:
        return np.zeros((len(found), 4), np.float32)


def none_seen() -> Detections:
    return Detections(*(np.zeros(shape, np.float32) for shape in ((0, 4), 0, (0, 11), (0, 192))))


def test_small_pictures_are_shown_as_the_detector_takes_them():
    eyes = Eyes()
    found = detect([yard(), yard(size=(360, 640))], eyes)
    assert len(found) == 2
    assert [picture.shape for picture in eyes.shown] == [(*canvas(240, 320), 3), (*canvas(360, 640), 3)]
    assert all(picture.dtype == np.uint8 for picture in eyes.shown)
    assert detect([], eyes) == []


STILL = (0.0, 0.0)


def textured(height: int, width: int, seed: int = 1) -> Image:
    """A smooth pattern that is nowhere like elsewhere."""
    noise = np.random.default_rng(seed).normal(120, 300, (height, width, 3))
    return cv2.GaussianBlur(noise, (0, 0), 6).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize(("height", "width"), [(1080, 1920), (240, 320)])
def test_views_have_the_size_that_the_detector_takes(height, width):
    frame = textured(height, width)
    both = views(frame, frame, STILL)
    assert both.shape == (2, *canvas(height, width), 3)
    assert both.dtype == np.uint8
    assert np.array_equal(both[0], both[1])
    shrinks = height * width > both[0, ..., 0].size
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    at_once = cv2.resize(frame, both.shape[2:0:-1], interpolation=way).astype(int)
    assert np.abs(both[0] - at_once).mean() < (0.6 if height > 1000 else 1e-9)  # 1080 lines are halved first


@pytest.mark.parametrize(("height", "width"), [(720, 960), (300, 400)])
def test_a_shaken_camera_gives_two_views_that_lie_on_each_other(height, width):
    scene = textured(height + 20, width + 20)
    before, after = scene[10:-10, 10:-10], scene[4:-16, 7:-13]  # all is 3 to the right and 6 down afterwards
    still, laid = (
        np.abs(np.diff(views(before, after, shift).astype(int), axis=0))[0, 20:-20, 20:-20].mean()
        for shift in (STILL, (3 / width, 6 / height))
    )
    assert laid < 0.35 * still
    assert laid < 4


def test_what_is_thin_is_not_lost_where_a_view_is_smaller():
    """Bilinear sampling of every fourth line would show it or not, as chance has it."""
    frame = np.zeros((1440, 2560, 3), np.uint8)
    frame[::4] = 240
    for shift in (STILL, (0.01, 0.01)):
        view = views(frame, frame, shift)[0, 40:-40, 40:-40]
        assert view.mean() == pytest.approx(60, abs=8)
        assert view.max() < 160


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
