"""From changes to tensors: clusters padded, crops in a row, tracks where there are frames between."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch

from pipeline.batch import pair_batch
from pipeline.changes import Change, ChangeOptions, find_changes
from pipeline.crops import cut_crops
from pipeline.pairs import Between, FramePair
from pipeline.sources import Clock, Frame, Image
from pipeline.tracks import point_tracks

OPTIONS = ChangeOptions(size=(144, 192), eps=3, min_samples=10, min_area=0.001)


@dataclass
class Looks:
    """As much of a captioner as a batch is made for."""

    crop_size: int | None
    image_size: tuple[int, int] = (224, 224)


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


def pair(before: Image, after: Image, between: tuple[Image, ...] = ()) -> FramePair:
    first, last = frame(before, 0), frame(after, 4)
    steps = [
        Between(first.time + timedelta(seconds=4 * (i + 1) / (len(between) + 1)), image[..., 1].copy())
        for i, image in enumerate(between)
    ]
    return FramePair(first, last, 5.0, between=tuple(steps))


@pytest.fixture(scope="module")
def changes() -> list[Change]:
    """One cluster; two in a frame of another size; one that walks, with frames in between."""
    walk = tuple(yard((40 + 6 * i, 100)) for i in range(1, 10))
    return find_changes(
        [
            pair(yard(), yard((200, 60))),
            pair(yard(size=(480, 640)), yard((60, 60), (400, 300), size=(480, 640))),
            pair(yard((40, 100)), yard((100, 100)), walk),
        ],
        OPTIONS,
    )


def test_clusters_are_padded_to_the_most(changes: list[Change]) -> None:
    batch = pair_batch(changes, Looks(64))
    counts = [len(c.clusters) for c in changes]
    assert counts[1] == max(counts) > min(counts)
    assert batch.valid.sum(1).tolist() == counts
    for b, change in enumerate(changes):
        for k, cluster in enumerate(change.clusters):
            assert np.array_equal(batch.masks[b, k].numpy(), cluster.mask)
            assert batch.boxes[b, k].tolist() == pytest.approx(cluster.box)
            assert float(batch.active[b, k]) == pytest.approx(cluster.mask.mean())
    assert not batch.masks[~batch.valid].any()


def test_crops_lie_in_a_row_as_the_valid_clusters_do(changes: list[Change]) -> None:
    batch = pair_batch(changes, Looks(64))
    assert batch.before is None
    assert batch.crops is not None
    assert batch.windows is not None
    assert batch.crops.dtype == torch.uint8
    assert batch.crops.shape == (int(batch.valid.sum()), 2, 3, 64, 64)
    for n, (b, k) in enumerate(batch.valid.nonzero().tolist()):
        change = changes[b]
        both = change.pair.before.image, change.pair.after.image
        crops, windows = cut_crops(*both, change.shift, change.clusters, 64)
        assert np.array_equal(batch.crops[n].permute(0, 2, 3, 1).numpy(), crops[k])
        assert np.array_equal(batch.windows[n].numpy(), windows[k])


def test_a_batch_equals_its_singles(changes: list[Change]) -> None:
    batch = pair_batch(changes, Looks(64))
    alone = [pair_batch([change], Looks(64)) for change in changes]
    assert batch.crops is not None
    assert torch.equal(batch.crops, torch.cat([one.crops for one in alone if one.crops is not None]))
    for b, one in enumerate(alone):
        k = one.valid.shape[1]
        assert torch.equal(batch.masks[b, :k], one.masks[0])


def test_a_captioner_of_whole_frames_gets_them(changes: list[Change]) -> None:
    batch = pair_batch(changes, Looks(None, (112, 160)))
    assert batch.crops is None
    assert batch.windows is None
    assert batch.tracks is None
    assert batch.before is not None
    assert batch.after is not None
    assert batch.before.shape == batch.after.shape == (3, 3, 112, 160)


def test_tracks_are_there_where_there_are_frames_between(changes: list[Change]) -> None:
    assert pair_batch(changes[:2], Looks(64)).tracks is None
    batch = pair_batch(changes, Looks(64))
    followed = point_tracks(changes[2].pair, changes[2].clusters)
    assert len(followed) > 0
    assert batch.tracks is not None
    assert batch.tracks.shape == (3, len(followed), 6)
    assert batch.tracks[:2].isnan().all()
    assert np.array_equal(batch.tracks[2].numpy(), followed)
