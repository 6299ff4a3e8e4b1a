"""The packaged appearance embedding."""

import numpy as np
import pytest
from beside import beside
from numpy.typing import NDArray

from models import load_captioner
from models.embedding import SIZE, AppearanceEmbedding, crop
from models.grounded.grounded import Grounded


@pytest.fixture(scope="module")
def captioner() -> Grounded:
    loaded = load_captioner()
    assert isinstance(loaded, Grounded)
    return loaded


@pytest.fixture(scope="module")
def embedding(captioner) -> AppearanceEmbedding:
    assert captioner.appearance is not None
    return captioner.appearance


def picture() -> NDArray[np.uint8]:
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 256, (12, 16, 3), np.uint8)
    return np.ascontiguousarray(coarse.repeat(30, 0).repeat(40, 1))


def boxes(count: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(2)
    return np.concatenate([rng.uniform(0, 0.5, (count, 2)), rng.uniform(0.05, 0.5, (count, 2))], axis=1)


def test_vectors_are_of_unit_length(embedding):
    found = embedding(picture(), boxes(3))
    assert found.shape == (3, embedding.size)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    assert embedding(picture(), boxes(0)).shape == (0, embedding.size)


def test_neither_neighbours_nor_threads_change_a_digit(captioner):
    image, some = picture(), boxes(11)
    together = AppearanceEmbedding(captioner.graphs["embedding"], threads=1)(image, some)
    for threads in (1, 2):
        embedding = AppearanceEmbedding(captioner.graphs["embedding"], threads)
        alone = np.concatenate([embedding(image, row[None]) for row in some])
        assert np.array_equal(alone, together)


def test_boxes_beyond_the_frame_are_cut_at_its_edge():
    image = picture()
    outside = crop(image, np.array([0.9, 0.8, 0.5, 0.5]))
    assert np.array_equal(outside, crop(image, np.array([0.9, 0.8, 0.1, 0.2])))
    assert crop(image, np.array([1.0, 1.0, 0.0, 0.0])).shape == (*SIZE, 3)
    assert np.array_equal(crop(image, np.array([-0.1, 0, 0.2, 1])), crop(image, np.array([0, 0, 0.1, 1])))


@pytest.mark.footage
def test_one_person_is_closer_than_another(embedding):
    """Two people of a training clip, four seconds later."""
    from train.footage.cameras import sample_frames

    clip = beside("data/cameras/train/pedestrian_overpass/Pedestrian_overpass.mp4")
    images = {round(s or 0, 1): image for _, s, image in sample_frames(clip) if s is not None and s < 14}
    one = embedding(images[9.5], np.array([[0.579, 0.14, 0.06, 0.257]]))
    later = embedding(images[12.5], np.array([[0.391, 0.505, 0.069, 0.29]]))
    other = embedding(images[5.5], np.array([[0.7, 0.62, 0.12, 0.38]]))
    assert one @ later.T > one @ other.T + 0.1
