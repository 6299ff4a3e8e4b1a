"""From changes to what captioners take: views of each pair, and batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from still import Still

from models.detections import Detections
from models.grounded.inference import canvas
from models.papers.pair_batch import PairBatch
from pipeline.changes import Change, ChangeOptions, find_changes
from pipeline.narration.batch import detect, pair_input, views
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame, Image
from pipeline.tracking.suppression import LOW

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


def frame(image: Image, second: float) -> Frame:
    time = datetime(2024, 5, 1, 12, tzinfo=UTC) + timedelta(seconds=second)
    return Frame("yard", time, Clock.FILE, int(second * 1000), image[..., 1].copy(), Still(image))


def pair(before: Image, after: Image, gap_s: float = 4) -> FramePair:
    return FramePair(frame(before, 0), frame(after, gap_s), 5.0)


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


def test_views_are_the_frames_of_each_pair(changes: list[Change]) -> None:
    assert changes[1].shift != (0, 0)
    for change in [*changes, *wide()]:
        found = pair_input(change, VIEWS)
        both = change.pair.before.image, change.pair.after.image
        moved = change.shift[0] / OPTIONS.size[1], change.shift[1] / OPTIONS.size[0]
        assert np.array_equal(found.views, views(*both, moved))
        assert found.images == both


def test_a_captioner_of_whole_frames_gets_them(changes: list[Change]) -> None:
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


def test_the_time_between_is_told_where_it_is_known(changes: list[Change]) -> None:
    unknown = replace(changes[0], pair=replace(changes[0].pair, gap_known=False))
    for looks in (VIEWS, Looks(sees_views=False)):
        assert pair_input(changes[1], looks).gap_s == 4.0
        assert np.isnan(pair_input(unknown, looks).gap_s)


class Eyes:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[Image] = []

    def see(self, pictures: Sequence[Image], least: float = 0.0) -> list[Detections]:
        assert least == LOW, "what the tracker ignores need not be found"
        self.shown += pictures
        return [none_seen() for _ in pictures]

    def embed(self, found: Detections) -> np.ndarray:
        return np.zeros((len(found), 4), np.float32)


def none_seen() -> Detections:
    return Detections(*(np.zeros(shape, np.float32) for shape in ((0, 4), 0, (0, 11), (0, 192))))


def test_small_pictures_are_shown_as_the_detector_takes_them() -> None:
    eyes = Eyes()
    found = detect([yard(), yard(size=(360, 640))], eyes)
    assert len(found) == 2
    assert [picture.shape for picture in eyes.shown] == [(*canvas(240, 320), 3), (*canvas(360, 640), 3)]
    assert all(picture.dtype == np.uint8 for picture in eyes.shown)
    assert detect([], eyes) == []
