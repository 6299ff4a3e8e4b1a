import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from models.papers.ddla import project_masks


def reference(mask: np.ndarray, smoothing: float) -> np.ndarray:
    """scikit-image's pyramid_reduce, four times, on the smoothed mask."""
    image = gaussian_filter(mask.astype(np.float64), smoothing, mode="reflect", truncate=4.0)
    for _ in range(4):
        image = gaussian_filter(image, 2 * 2 / 6, mode="reflect", truncate=4.0)
        image = image.reshape(image.shape[0] // 2, 2, image.shape[1] // 2, 2).mean(axis=(1, 3))
    return image


@pytest.mark.parametrize("smoothing", [1.0, 2.0, 5.0])
def test_projection_is_the_pyramid(smoothing: float) -> None:
    masks = np.random.default_rng(3).random((4, 224, 224)) < 0.02
    masks[0, :30, 200:] = True  # at a corner, where the mirrored edge counts
    projected = project_masks(torch.from_numpy(masks), smoothing).numpy()
    assert projected.shape == (4, 14, 14)
    np.testing.assert_allclose(projected, [reference(m, smoothing) for m in masks], atol=1e-6)


def test_any_mask_size_gives_the_same_place() -> None:
    small, large = torch.zeros(1, 224, 224), torch.zeros(1, 448, 896)
    small[0, 40:80, 100:150] = 1
    large[0, 80:160, 400:600] = 1
    torch.testing.assert_close(project_masks(small, 2.0), project_masks(large, 2.0), atol=1e-6, rtol=0)
    assert divmod(int(project_masks(small, 2.0).argmax()), 14) == (3, 7)
