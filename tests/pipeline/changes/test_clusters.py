"""One contract for both implementations of DBSCAN: scikit-learn's partition."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from pipeline.changes.clusters import dbscan, find_clusters

DEVICES = [
    pytest.param(None, id="numba"),
    pytest.param("cpu", id="torch"),
    pytest.param("cuda", id="torch-cuda", marks=pytest.mark.gpu),
]


@pytest.fixture(params=DEVICES)
def device(request) -> str | None:
    if request.param == "cuda":
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
    return request.param


def assert_equals_sklearn(mask: np.ndarray, eps: float, min_samples: int, labels: np.ndarray) -> None:
    """Equal core partition and numbering, equal noise; a border pixel joins a nearest core pixel's cluster.

    Scikit-learn gives a border pixel to whichever cluster reaches it first, so only that it has one is equal.
    """
    assert labels.dtype == np.int32
    assert labels.shape == mask.shape
    assert (labels[~mask] == -1).all()
    points = np.argwhere(mask)
    if len(points) == 0:
        return
    peer = DBSCAN(eps=eps, min_samples=min_samples).fit(points)
    ours = labels[mask]
    core = np.zeros(len(points), bool)
    core[peer.core_sample_indices_] = True
    np.testing.assert_array_equal(ours[core], peer.labels_[core])
    np.testing.assert_array_equal(ours == -1, peer.labels_ == -1)
    border = ~core & (ours >= 0)
    if border.any():
        distances = ((points[border][:, None] - points[core][None]) ** 2).sum(-1)
        own = np.where(ours[core][None] == ours[border][:, None], distances, distances.max() + 1)
        assert (own.min(1) == distances.min(1)).all()
        assert (distances.min(1) <= eps * eps).all()


def random_masks(count: int, seed: int):
    """Sparse, dense and blotchy masks with the parameters to try on them."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        height, width = random.integers(1, 36, 2)
        mask = random.random((height, width)) < random.choice([0.0, 0.01, 0.05, 0.15, 0.4, 0.8, 1.0])
        for _ in range(random.integers(0, 4)):
            y, x = random.integers(0, height), random.integers(0, width)
            mask[y : y + random.integers(1, 9), x : x + random.integers(1, 9)] ^= True
        eps = random.choice([0.5, 1, 2**0.5, 1.9, 2, 5**0.5, 3, 4.3, 5, 6.5, 8, 9.2, 20, 100])
        yield mask, float(eps), int(random.integers(1, 14))


@pytest.mark.slow
def test_equals_sklearn_on_hundreds_of_random_masks(device):
    for index, (mask, eps, min_samples) in enumerate(random_masks(200, seed=7)):
        try:
            assert_equals_sklearn(mask, eps, min_samples, dbscan(mask, eps, min_samples, device))
        except AssertionError as error:
            pytest.fail(f"mask {index}, {mask.shape}, eps {eps}, min_samples {min_samples}: {error}")


@pytest.mark.parametrize(("eps", "min_samples"), [(3.0, 10), (20.0, 9), (2.5, 4), (12.0, 60)])
def test_equals_sklearn_on_larger_masks(device, eps, min_samples):
    random = np.random.default_rng(3)
    mask = random.random((120, 160)) < 0.03
    for _ in range(12):
        y, x, size = random.integers(0, 110), random.integers(0, 150), random.integers(4, 25)
        mask[y : y + size, x : x + size // 2] |= (
            random.random(mask[y : y + size, x : x + size // 2].shape) < 0.7
        )
    assert_equals_sklearn(mask, eps, min_samples, dbscan(mask, eps, min_samples, device))


def test_both_implementations_give_the_same_labels():
    for mask, eps, min_samples in random_masks(100, seed=8):
        np.testing.assert_array_equal(dbscan(mask, eps, min_samples), dbscan(mask, eps, min_samples, "cpu"))


def test_a_batch_equals_its_singles(device):
    masks = np.random.default_rng(1).random((7, 30, 41)) < np.linspace(0, 1, 7)[:, None, None] ** 2
    batch = dbscan(masks, 2.5, 6, device)
    for mask, labels in zip(masks, batch, strict=True):
        np.testing.assert_array_equal(labels, dbscan(mask, 2.5, 6, device))


def test_masks_without_pixels(device):
    assert dbscan(np.zeros((0, 5), bool), 3, 2, device).shape == (0, 5)
    assert dbscan(np.zeros((5, 0), bool), 3, 2, device).shape == (5, 0)
    assert dbscan(np.zeros((0, 5, 5), bool), 3, 2, device).shape == (0, 5, 5)


@pytest.mark.parametrize(("eps", "min_samples"), [(-1, 3), (float("nan"), 3), (float("inf"), 3), (2, 0)])
def test_refuses_parameters_out_of_range(eps, min_samples):
    with pytest.raises(ValueError, match="must be >= 0 and >= 1"):
        dbscan(np.ones((3, 3), bool), eps, min_samples)


def test_refuses_what_is_no_mask():
    with pytest.raises(ValueError, match="a mask is bool"):
        dbscan(np.ones((3, 3), np.uint8), 2, 2)


def test_clusters_have_tight_boxes():
    mask = np.zeros((40, 80), bool)
    mask[10:20, 8:16] = True
    mask[30:34, 60:80] = True
    mask[0, 40] = True
    upper, lower = find_clusters(dbscan(mask, 1.5, 4))
    assert upper.box == pytest.approx((0.1, 0.25, 0.1, 0.25))
    assert lower.box == pytest.approx((0.75, 0.75, 0.25, 0.1))
    assert (upper.active_pixels, lower.active_pixels) == (80, 80)
    assert (upper.mask ^ lower.mask).sum() == 160
    assert not (upper.mask | lower.mask)[0, 40]


def test_only_wanted_clusters_in_the_wanted_order():
    labels = np.array([[0, -1, 1, -1, 2]], np.int32)
    clusters = find_clusters(labels, [2, 0])
    assert [c.box[0] for c in clusters] == [0.8, 0.0]
    assert find_clusters(np.full((4, 4), -1, np.int32)) == ()
    with pytest.raises(ValueError, match="label 3 does not occur"):
        find_clusters(labels, [3])
