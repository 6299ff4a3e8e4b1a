from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from still import shown

from models.encoders import EfficientNetLite0, Encoder
from models.papers.captioner import PairBatch
from pipeline.changes import ChangeOptions, find_changes
from pipeline.narration.batch import pair_input
from pipeline.pairs import FramePair
from pipeline.sources import Frame
from train.papers.batches import Features, read_image, sample_features
from train.samples import Sample, SampleError, load_samples

OPTIONS = ChangeOptions(eps=3.0)


@dataclass
class Sized:
    """As much of a captioner as the daemon's edge asks for."""

    sees_views: bool = False
    image_size: tuple[int, int] = (224, 224)


class Counting:
    """An encoder that counts the images it is given."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self.images = encoder, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._encoder, name)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        self.images += len(images)
        return self._encoder(images)


def frame(path: Path, pts: int) -> Frame:
    image = read_image(path)
    return shown(image, pts, luma=cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))


def equal(one: Features, other: Features) -> bool:
    a, b = one.batch(range(len(one))), other.batch(range(len(other)))
    assert a.maps is not None
    assert b.maps is not None
    pairs = [(getattr(a, name), getattr(b, name)) for name in ("masks", "boxes", "active", "valid")]
    pairs += zip(a.maps, b.maps, strict=True)
    return one.sha256 == other.sha256 and all(torch.equal(x, y) for x, y in pairs)


def shaken(folder: Path) -> list[Sample]:
    """The training samples of a folder, the camera of the first one shaken between its frames."""
    texture = np.random.default_rng(0).integers(0, 60, (224, 224, 3), np.uint8)
    for name, shift in (("train000.png", (2, -3)), ("train000_2.png", (0, 0))):
        image = np.maximum(cv2.imread(str(folder / name)), cv2.blur(texture, (5, 5)))
        cv2.imwrite(str(folder / name), np.roll(image, shift, axis=(0, 1)))
    return load_samples(folder, "train")


def test_training_sees_what_narration_sees(make_samples, tmp_path):
    """Same clusters, same maps as the daemon's, also where the camera shook."""
    samples, encoder = shaken(make_samples(train=4)), EfficientNetLite0()
    features = sample_features(samples, encoder, OPTIONS, tmp_path / "cache")
    changes = find_changes([FramePair(frame(s.before, 0), frame(s.after, 1), 9.0) for s in samples], OPTIONS)
    assert changes[0].shift == (3, -2)
    told = PairBatch.of([pair_input(change, Sized()) for change in changes])
    known = features.batch(range(4))
    for name in ("masks", "boxes", "valid"):
        assert torch.equal(getattr(known, name), getattr(told, name))
    assert torch.allclose(known.active, told.active)
    for kept, image in zip(known.maps, (told.before, told.after), strict=True):
        assert kept.shape == (4, 432, 14, 14)
        assert torch.equal(kept, encoder(image).half())


def test_the_cache_is_used_and_keyed_by_content(make_samples, toy_encoder, tmp_path):
    samples = load_samples(make_samples(train=6), "train")
    encoder, seen = Counting(toy_encoder), []
    first = sample_features(samples, encoder, OPTIONS, tmp_path, lambda *n: seen.append(n))
    assert encoder.images == 12
    assert seen[-1] == (6, 6)
    assert equal(sample_features(samples, encoder, OPTIONS, tmp_path), first)
    assert encoder.images == 12
    other = sample_features(samples, encoder, ChangeOptions(eps=9.0), tmp_path)
    assert encoder.images == 24
    assert other.sha256 != first.sha256
    image = cv2.imread(str(samples[3].after))
    image[0, 0] = 255
    cv2.imwrite(str(samples[3].after), image)
    assert sample_features(samples, encoder, OPTIONS, tmp_path).sha256 != first.sha256
    assert encoder.images == 26


@pytest.mark.parametrize("harm", ["cut", "no header", "gone"])
def test_a_damaged_file_is_made_again(sample_folder, toy_encoder, tmp_path, harm):
    samples = load_samples(sample_folder, "val")
    encoder, cache = Counting(toy_encoder), tmp_path / "cache"
    sample_features(samples, encoder, OPTIONS, cache)
    file = next(cache.glob("*.safetensors"))
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-100] if harm == "cut" else b"")
    again = sample_features(samples, encoder, OPTIONS, cache)
    assert encoder.images == 18 + 2
    assert equal(again, sample_features(samples, toy_encoder, OPTIONS, tmp_path / "other"))


def test_unreadable_images_and_caches_are_named(make_samples, toy_encoder, tmp_path):
    samples = load_samples(make_samples(train=2), "train")
    (tmp_path / "file").write_text("")
    with pytest.raises(SampleError, match="make room"):
        sample_features(samples, toy_encoder, OPTIONS, tmp_path / "file" / "cache")
    samples[1].after.write_bytes(b"no picture")
    with pytest.raises(SampleError, match=r"train001_2\.png is missing or not a readable image"):
        sample_features(samples, toy_encoder, OPTIONS, tmp_path / "cache")
    samples[1].after.unlink()
    with pytest.raises(SampleError, match=r"train001_2\.png cannot be read"):
        sample_features(samples, toy_encoder, OPTIONS, tmp_path / "cache")
