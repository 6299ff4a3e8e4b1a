"""From two pictures to aligned masks, clusters and salience, and to what happened to the scene."""

import json
from dataclasses import asdict, replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_scenes import FINE, noisy, overlap, pair_of, scene, with_object

from pipeline.changes import ChangeOptions, find_changes, image_changes
from pipeline.changes.change import salience_features
from pipeline.changes.clusters import Cluster
from pipeline.changes.difference import alignment_shift, difference, shift_image
from pipeline.pairs import FramePair


def test_an_object_becomes_one_cluster_where_it_is():
    before = scene()
    after = noisy(with_object(before, 96, 54, 48, 54), 1)
    shift, clusters, salience = image_changes(before, after, FINE)
    assert shift == (0, 0)
    assert len(clusters) == 1
    assert overlap(clusters[0], 0.2, 0.2, 0.1, 0.2) > 0.8
    assert salience.shape == (1,)
    assert salience.dtype == np.float32
    assert clusters[0].mask.shape == FINE.size


def test_the_shift_is_undone_and_no_edge_is_told():
    large = scene(3, 300, 520)
    before, after = large[10:280, 15:495], noisy(large[6:276, 20:500], 2)
    options = replace(FINE, size=(270, 480))
    shift, clusters, _ = image_changes(before, after, options)
    assert shift == (-5, 4)
    assert clusters == ()
    unaligned = difference(before, after, replace(options, max_shift=0)).mask
    assert unaligned.mean() > 10 * difference(before, after, options).mask.mean()


def test_a_mask_covers_what_lay_in_it_before_wherever_the_shake_brings_it():
    large = scene(3, 300, 520)
    still, after = large[10:280, 15:495], noisy(large[6:276, 20:500], 2)
    options = replace(FINE, size=(270, 480))
    before = with_object(still, 100, 100, 24, 24)  # comes to lie 5 pixels further left, 4 further down
    touching = (
        (100 / 480, 100 / 270),
        (124 / 480, 100 / 270),
        (124 / 480, 124 / 270),
        (100 / 480, 124 / 270),
    )
    found = difference(before, after, options, (touching,))
    assert found.shift == (-5, 4)
    assert difference(before, after, options).mask[104:128, 95:119].mean() > 0.5
    assert not found.mask[104:128, 95:119].any()


def test_noise_alone_is_no_change():
    before = noisy(scene(), 1, 12)
    assert image_changes(before, noisy(scene(), 2, 12), FINE)[1] == ()


def test_gain_and_offset_are_no_change_but_an_object_in_it_is():
    before = scene()
    darker = noisy(np.clip(before * np.array([0.7, 0.75, 0.8]) + 12, 0, 255).astype(np.uint8), 1)
    assert image_changes(before, darker, FINE)[1] == ()
    assert difference(before, darker, replace(FINE, match_light=False, noise_factor=0)).mask.mean() > 0.02
    _, clusters, _ = image_changes(before, with_object(darker, 240, 135, 60, 60), FINE)
    assert len(clusters) == 1
    assert overlap(clusters[0], 0.5, 0.5, 0.125, 60 / 270) > 0.7


def test_a_shadow_correlates_and_is_dropped():
    before = scene(5)
    after = before.copy()
    after[60:200, 100:300] = (after[60:200, 100:300] * 0.5).astype(np.uint8)
    assert image_changes(before, after, FINE)[1] == ()
    assert image_changes(before, after, replace(FINE, light_correlation=None))[1] != ()


def test_small_clusters_are_dropped_and_the_largest_kept():
    before = scene()
    after = before.copy()
    for index in range(6):
        after = with_object(after, 20 + 75 * index, 100, 12 + 4 * index, 24)
    options = replace(FINE, size=(270, 480), max_shift=0)
    assert len(image_changes(before, after, options)[1]) == 6
    _, kept, salience = image_changes(before, after, replace(options, max_clusters=2))
    assert [round(c.box[0], 1) for c in kept] == [0.8, 0.7]
    assert salience.tolist() == sorted(salience.tolist(), reverse=True)
    assert image_changes(before, after, replace(options, min_area=0.02))[1] == ()


def test_rank_orders_the_clusters():
    before = scene()
    after = with_object(with_object(before, 30, 60, 90, 60), 350, 60, 20, 20)
    small_first = image_changes(before, after, FINE, lambda features: -features[:, 3])[1]
    assert [c.active_pixels for c in small_first] == sorted(c.active_pixels for c in small_first)
    assert len(small_first) == 2
    with pytest.raises(ValueError, match="rank gave scores"):
        image_changes(before, after, FINE, lambda features: features)


def test_salience_features():
    mask = np.zeros((100, 200), bool)
    mask[10:30, 20:120] = True
    mask[10, 20] = False
    features = salience_features(Cluster(mask, (0.1, 0.1, 0.5, 0.2), int(mask.sum())))
    np.testing.assert_allclose(features, [0.2, 0.5, 0.1, 0.09995], rtol=1e-6)
    assert features.dtype == np.float32


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 200), st.floats(0, 3))
def test_the_mask_is_its_definition(seed, delta, noise_factor):
    a, b = np.random.default_rng(seed).integers(0, 256, (2, 31, 20, 3), np.uint8)
    b[: seed % 31] = a[: seed % 31]
    options = ChangeOptions(
        size=(31, 20), max_shift=0, match_light=False, blur=1, delta=delta, noise_factor=noise_factor
    )
    squares = ((a.astype(np.int64) - b) ** 2).sum(-1)
    median = np.sqrt(np.sort(squares.ravel())[(squares.size - 1) // 2])
    expected = np.sqrt(squares) > max(delta, noise_factor * median) + 1e-9
    assert (difference(a, b, options).mask != expected).mean() < 0.002  # equal but for rounding at the limit


def batch() -> list[FramePair]:
    pairs = []
    for seed, (height, width) in enumerate([(270, 480), (576, 768), (120, 160), (270, 480)]):
        before = scene(seed, height, width)
        pairs.append(pair_of(before, noisy(with_object(before, width // 3, height // 3, 40, 40), seed)))
    pairs.append(pair_of(scene(1), scene(2), beyond_upper=True))
    return pairs


@pytest.mark.parametrize("options", [ChangeOptions(), FINE])
def test_a_batch_equals_its_singles(options):
    pairs = batch()
    together = find_changes(pairs, options)
    assert [c.pair for c in together] == pairs
    assert sum(len(c.clusters) for c in together) >= 4
    for pair, one in zip(pairs, together, strict=True):
        (alone,) = find_changes([pair], options)
        assert (alone.shift, alone.event) == (one.shift, one.event)
        np.testing.assert_array_equal(alone.salience, one.salience)
        assert [c.box for c in alone.clusters] == [c.box for c in one.clusters]
        for a, b in zip(alone.clusters, one.clusters, strict=True):
            np.testing.assert_array_equal(a.mask, b.mask)


def test_a_batch_clustered_by_torch_equals_one_clustered_by_numba():
    pairs = batch()
    # "cpu:0" is torch's processor: plain "cpu" means numba
    for a, b in zip(find_changes(pairs, FINE), find_changes(pairs, FINE, device="cpu:0"), strict=True):
        assert [c.box for c in a.clusters] == [c.box for c in b.clusters]
        assert [c.active_pixels for c in a.clusters] == [c.active_pixels for c in b.clusters]


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"size": (8, 224)}, "max_shift"), ({"eps": -1.0}, "eps"), ({"min_area": 2.0}, "min_area")],
)
def test_refuses_settings_that_find_nothing(settings, says):
    with pytest.raises(ValueError, match=says):
        ChangeOptions(**settings)


def test_refuses_what_is_no_rgb_image():
    with pytest.raises(ValueError, match="RGB uint8"):
        image_changes(np.zeros((50, 50), np.uint8), np.zeros((50, 50), np.uint8))


def test_options_from_the_plain_values_of_a_record():
    options = ChangeOptions(size=(288, 384), eps=3.0, light_correlation=None)
    plain = json.loads(json.dumps(asdict(options)))
    assert ChangeOptions.of(plain) == options
    assert ChangeOptions.of({}) == ChangeOptions()
    with pytest.raises(ValueError, match="unknown change options tempo: update narrated"):
        ChangeOptions.of({"tempo": 3})
    with pytest.raises(ValueError, match="twice max_shift"):
        ChangeOptions.of({"size": [4, 4]})


def textured(seed: int, height: int = 60, width: int = 80) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 1.5), None, 0, 255, cv2.NORM_MINMAX)


def searched(before: np.ndarray, after: np.ndarray, reach: int) -> tuple[int, int]:
    """The definition, word for word."""
    height, width = before.shape[:2]
    window = after[reach : height - reach, reach : width - reach].astype(np.int64)
    costs = {}
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            moved = before[reach - dy : height - reach - dy, reach - dx : width - reach - dx]
            costs[dx, dy] = (((window - moved) ** 2).sum(), dx * dx + dy * dy)
    return min(costs, key=lambda shift: costs[shift])


@settings(max_examples=60, deadline=None)
@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(0, 2**32 - 1), st.sampled_from([0, 10]))
def test_recovers_a_known_shift(dx, dy, seed, noise):
    scene = textured(seed, 90, 110)
    before, after = scene[10:70, 10:90], scene[10 - dy : 70 - dy, 10 - dx : 90 - dx]
    random = np.random.default_rng(seed)
    noisy = np.clip(after + random.normal(0, noise, after.shape), 0, 255).astype(np.uint8)
    assert alignment_shift(before, noisy, 5) == (dx, dy)
    inner = (slice(5, -5), slice(5, -5))
    assert (shift_image(before, (dx, dy))[inner] == after[inner]).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(0, 255))
def test_equals_the_exhaustive_search_whatever_the_pictures(seed, reach, level):
    random = np.random.default_rng(seed)
    before, after = textured(seed, 24, 30), textured(seed + 1, 24, 30)
    after[4:20, 4:20] = level
    before[random.random((24, 30)) < 0.3] = level
    found, expected = alignment_shift(before, after, reach), searched(before, after, reach)
    assert found == expected


def test_equal_distances_take_the_smallest_shift():
    flat = np.full((20, 30, 3), 7, np.uint8)
    assert alignment_shift(flat, flat, 4) == (0, 0)
    stripes = np.zeros((20, 32, 3), np.uint8)
    stripes[:, ::4] = 255
    assert alignment_shift(stripes, np.roll(stripes, 1, axis=1), 4) == (1, 0)
    assert alignment_shift(textured(0), textured(1), 0) == (0, 0), "no search without reach"


def test_the_edge_is_replicated():
    image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert shift_image(image, (1, 0)).tolist() == [[0, 0, 1, 2], [4, 4, 5, 6], [8, 8, 9, 10]]
    assert shift_image(image, (0, -1)).tolist() == [[4, 5, 6, 7], [8, 9, 10, 11], [8, 9, 10, 11]]
    assert shift_image(image, (0, 0)) is image


@pytest.mark.parametrize(
    ("before", "after", "reach", "says"),
    [
        (np.zeros((20, 20, 3), np.uint8), np.zeros((20, 21, 3), np.uint8), 2, "one shape"),
        (np.zeros((20, 20, 3), np.int16), np.zeros((20, 20, 3), np.int16), 2, "uint8"),
        (np.zeros((20, 20, 3), np.uint8), np.zeros((20, 20, 3), np.uint8), -1, "0 or more"),
        (np.zeros((20, 8, 3), np.uint8), np.zeros((20, 8, 3), np.uint8), 4, "too small"),
        (np.zeros((20, 12000, 3), np.uint8), np.zeros((20, 12000, 3), np.uint8), 4, "too wide"),
    ],
)
def test_refuses_what_it_cannot_align(before, after, reach, says):
    with pytest.raises(ValueError, match=says):
        alignment_shift(before, after, reach)
