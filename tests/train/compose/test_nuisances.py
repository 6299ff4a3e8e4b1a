import numpy as np
import pytest

from train.compose.nuisances import APPLY, Nuisance, disturb, mild, screens, strong


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    rows, columns = np.mgrid[0:61, 0:83]
    return np.stack([rows * 4, columns * 3, (rows + columns) % 256], axis=2).astype(np.uint8)


EACH = (
    Nuisance("gain", (1.2, 0.9)),
    Nuisance("cast", (1.1, 1.0, 0.9)),
    Nuisance("shift", (2.0, -1.0)),
    Nuisance("noise", (3.0,), 5),
    Nuisance("jpeg", (40.0,)),
    Nuisance("h264", (30.0,)),
    Nuisance("grey", ()),
    Nuisance("shadow", (0.5,), 5),
    Nuisance("infrared", (1.1, 0.8)),
    Nuisance("patch", (0.5, 2.0), 5),
    Nuisance("foliage", (3.0,), 5),
    Nuisance("rain", (60.0, 80.0), 5),
    Nuisance("screen", (0.2, 0.2, 0.3, 0.3), 5),
)


def test_every_kind_is_tried() -> None:
    assert {n.kind for n in EACH} == set(APPLY)


@pytest.mark.parametrize("nuisance", EACH, ids=lambda n: n.kind)
def test_keeps_shape_and_the_original_and_repeats_itself(image: np.ndarray, nuisance: Nuisance) -> None:
    original = image.copy()
    changed = disturb(image, (nuisance,))
    assert changed.shape == image.shape
    assert changed.dtype == np.uint8
    assert np.array_equal(image, original)
    assert not np.array_equal(changed, image)
    assert np.array_equal(disturb(image, (nuisance,)), changed)


def test_gain_is_the_formula(image: np.ndarray) -> None:
    expected = np.clip(255 * 1.2 * (image / 255) ** 0.9, 0, 255).round()
    assert np.array_equal(disturb(image, (Nuisance("gain", (1.2, 0.9)),)), expected.astype(np.uint8))


def test_shift_moves_right_and_up(image: np.ndarray) -> None:
    moved = disturb(image, (Nuisance("shift", (2.0, -1.0)),))
    assert np.array_equal(moved[:-1, 2:], image[1:, :-2])


def test_noise_has_the_sigma() -> None:
    flat = np.full((100, 100, 3), 128, np.uint8)
    noisy = disturb(flat, (Nuisance("noise", (6.0,), 3),)).astype(float)
    assert noisy.std() == pytest.approx(6.0, rel=0.03)
    assert noisy.mean() == pytest.approx(128, abs=0.2)


def test_grey_has_no_colour_and_shadow_only_darkens(image: np.ndarray) -> None:
    without = disturb(image, (Nuisance("grey", ()),))
    assert (without[..., 0] == without[..., 2]).all()
    shaded = disturb(image, (Nuisance("shadow", (0.5,), 7),))
    assert (shaded <= image).all()
    assert shaded.mean() > 0.5 * image.mean()


def test_a_patch_is_shade_or_light_over_a_part() -> None:
    flat = np.full((120, 160, 3), 100, np.uint8)
    shaded, lit = (disturb(flat, (Nuisance("patch", (g, 2.0), 3),)) for g in (0.5, 1.6))
    assert shaded.min() == pytest.approx(50, abs=2)
    assert lit.max() == pytest.approx(160, abs=2)
    assert ((shaded < 100) == (lit > 100)).mean() > 0.98
    assert 0.01 < (shaded < 90).mean() < 0.7


def test_screens_show_two_things_at_one_free_place() -> None:
    flat, rng = np.full((120, 160, 3), 100, np.uint8), np.random.default_rng(2)
    taken = [(0.0, 0.0, 0.5, 1.0)]
    found = 0
    for _ in range(20):
        first, second = screens(rng, taken)
        before, after = disturb(flat, first), disturb(flat, second)
        found += len(first)
        assert (before[:, :79] == 100).all()
        assert [n.amount for n in first] == [n.amount for n in second]
        assert np.array_equal(before, after) == (not first)
    assert found > 10
    assert screens(rng, [(0.0, 0.0, 1.0, 1.0)]) == ((), ())


def test_recompression_stays_near(image: np.ndarray) -> None:
    for nuisance in (Nuisance("jpeg", (90.0,)), Nuisance("h264", (12.0,))):
        difference = np.abs(disturb(image, (nuisance,)).astype(int) - image)
        assert np.median(difference) < 8


def test_mild_is_weaker_than_strong(image: np.ndarray) -> None:
    def effect(draw) -> float:
        rng = np.random.default_rng(1)
        return float(
            np.mean([np.abs(disturb(image, draw(rng)).astype(int) - image).mean() for _ in range(60)])
        )

    assert 0 < effect(mild) < 0.6 * effect(strong)
