"""From changes to tensors: clusters padded, views of each pair, tiles in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch

from models.captioner import DescribeOptions, Sentence
from models.detections import Detections
from models.grounded.inference import canvas
from models.grounded.settings import SETTINGS
from models.language.facts import Fact
from pipeline.changes import Change, ChangeOptions, find_changes
from pipeline.narration.batch import detect, pair_batch
from pipeline.narration.views import in_shares, tile_views, whole_views
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


@dataclass
class Still:
    image: Image

    def rgb(self) -> Image:
        return self.image


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


def test_clusters_are_padded_to_the_most(changes: list[Change]) -> None:
    batch = pair_batch(changes, VIEWS)
    counts = [len(c.clusters) for c in changes]
    assert counts[1] == max(counts) > min(counts)
    assert batch.valid.sum(1).tolist() == counts
    for b, change in enumerate(changes):
        for k, cluster in enumerate(change.clusters):
            assert np.array_equal(batch.masks[b, k].numpy(), cluster.mask)
            assert batch.boxes[b, k].tolist() == pytest.approx(cluster.box)
            assert float(batch.active[b, k]) == pytest.approx(cluster.mask.mean())
    assert not batch.masks[~batch.valid].any()


def test_views_are_the_frames_of_each_pair(changes: list[Change]) -> None:
    batch = pair_batch(changes, VIEWS)
    assert changes[1].shift != (0, 0)
    assert batch.before is None
    assert batch.views is not None
    for change, view in zip(changes, batch.views, strict=True):
        expected = whole_views(
            change.pair.before.image, change.pair.after.image, in_shares(change.shift, OPTIONS.size)
        )
        assert np.array_equal(view.permute(0, 2, 3, 1).numpy(), expected)
    assert len({view.shape for view in pair_batch([*changes, *wide()], VIEWS).views or ()}) == 2


def test_frames_far_apart_are_seen_finer() -> None:
    changes = find_changes(
        [pair(yard(), yard((200, 60)), gap) for gap in (SETTINGS.fine_gap_s - 1, SETTINGS.fine_gap_s)],
        OPTIONS,
    )
    near, far = pair_batch(changes, VIEWS).views or ()
    assert near.shape == (2, 3, *canvas(240, 320))
    assert far.shape == (2, 3, *canvas(240, 320, SETTINGS.fine_pixels))


def test_tiles_lie_in_a_row_and_know_their_pair(changes: list[Change]) -> None:
    batch = pair_batch(changes, VIEWS)
    assert batch.tiles is not None
    assert batch.tile_windows is not None
    assert batch.tile_pair is not None
    assert batch.tiles.dtype == torch.uint8
    assert len(batch.tiles) == len(batch.tile_windows) == len(batch.tile_pair) > 0
    for b, change in enumerate(changes):
        both = change.pair.before.image, change.pair.after.image
        tiles, windows = tile_views(*both, in_shares(change.shift, OPTIONS.size), change.clusters)
        own = batch.tile_pair == b
        assert np.array_equal(batch.tiles[own].permute(0, 1, 3, 4, 2).numpy(), tiles)
        assert np.array_equal(batch.tile_windows[own].numpy(), windows)


def test_a_batch_equals_its_singles(changes: list[Change]) -> None:
    batch = pair_batch(changes, VIEWS)
    alone = [pair_batch([change], VIEWS) for change in changes]
    assert batch.tiles is not None
    assert batch.views is not None
    assert torch.equal(batch.tiles, torch.cat([one.tiles for one in alone if one.tiles is not None]))
    for b, one in enumerate(alone):
        k = one.valid.shape[1]
        assert torch.equal(batch.masks[b, :k], one.masks[0])
        assert one.views is not None
        assert torch.equal(batch.views[b], one.views[0])


def test_a_captioner_of_whole_frames_gets_them(changes: list[Change]) -> None:
    batch = pair_batch(changes, Looks(sees_views=False, image_size=(112, 160)))
    assert batch.views is None
    assert batch.tiles is None
    assert batch.before is not None
    assert batch.after is not None
    assert batch.before.shape == batch.after.shape == (3, 3, 112, 160)


def test_the_time_between_is_told_where_it_is_known(changes: list[Change]) -> None:
    unknown = replace(changes[0], pair=replace(changes[0].pair, gap_known=False))
    for looks in (VIEWS, Looks(sees_views=False)):
        batch = pair_batch([changes[1], unknown], looks)
        assert batch.gap_s is not None
        assert float(batch.gap_s[0]) == 4.0
        assert batch.gap_s[1].isnan()


class Eyes:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[torch.Tensor] = []

    def see(self, pictures: Sequence[torch.Tensor], least: float = 0.0) -> list[Detections]:
        assert least == LOW, "what the tracker ignores need not be found"
        self.shown += pictures
        return [none_seen() for _ in pictures]

    def embed(self, found: Detections) -> torch.Tensor:
        return torch.zeros(len(found), 4)

    def tell(
        self, facts: Sequence[Fact], pairs: int, options: DescribeOptions | None = None
    ) -> list[list[Sentence]]:
        raise NotImplementedError


def none_seen() -> Detections:
    return Detections(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, 11), torch.zeros(0, 192))


def test_small_pictures_are_shown_as_the_detector_takes_them() -> None:
    eyes = Eyes()
    found = detect([yard(), yard(size=(360, 640))], eyes)
    assert len(found) == 2
    assert [tuple(picture.shape) for picture in eyes.shown] == [
        (3, *canvas(240, 320)),
        (3, *canvas(360, 640)),
    ]
    assert all(picture.dtype == torch.uint8 for picture in eyes.shown)
    assert detect([], eyes) == []
