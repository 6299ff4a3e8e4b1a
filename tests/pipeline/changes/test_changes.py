"""From two pictures to aligned masks, clusters and salience, and to what happened to the scene."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.changes import (
    ChangeOptions,
    SceneEvent,
    difference_mask,
    find_changes,
    image_changes,
    salience_features,
    scene_event,
)
from pipeline.changes.difference import difference
from pipeline.clusters import Cluster
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame

GROUNDED = ChangeOptions.of(
    yaml.safe_load((Path(__file__).parents[3] / "configs/train/grounded.yaml").read_text(encoding="utf-8"))[
        "changes"
    ]
)
FINE = ChangeOptions(size=(216, 384), max_shift=8, delta=38, eps=3, min_samples=10, min_area=0.001)


class Still:
    """A picture that is there already."""

    def __init__(self, image: np.ndarray) -> None:
        self.image = image

    def rgb(self) -> np.ndarray:
        return self.image


def pair_of(before: np.ndarray, after: np.ndarray, *, beyond_upper: bool = False) -> FramePair:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    frames = []
    for index, image in enumerate((before, after)):
        luma = cv2.cvtColor(cv2.resize(image, (480, 270), interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)
        time = start + timedelta(seconds=index)
        frames.append(Frame("yard", time, Clock.FILE, index, luma, Still(image)))
    return FramePair(frames[0], frames[1], 10.0, beyond_upper)


def scene(seed: int = 0, height: int = 270, width: int = 480) -> np.ndarray:
    """A street of sorts: ground, walls, windows, texture."""
    random = np.random.default_rng(seed)
    image = np.full((height, width, 3), random.integers(90, 140), np.uint8)
    for _ in range(60):
        x, y = random.integers(0, width), random.integers(0, height)
        size = random.integers(10, 90, 2)
        colour = tuple(int(v) for v in random.integers(40, 200, 3))
        cv2.rectangle(image, (x, y), (x + int(size[0]), y + int(size[1])), colour, -1)
    texture = cv2.GaussianBlur(random.normal(0, 18, image.shape), (0, 0), 1.2)
    return np.clip(image + texture, 0, 255).astype(np.uint8)


def noisy(image: np.ndarray, seed: int, sigma: float = 3.0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, sigma, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def with_object(image: np.ndarray, x: int, y: int, width: int, height: int) -> np.ndarray:
    """A striped red thing put into the picture."""
    changed = image.copy()
    changed[y : y + height, x : x + width] = (230, 20, 30)
    changed[y + height // 3 : y + height // 2, x : x + width] = (250, 240, 60)
    return changed


def overlap(cluster: Cluster, x: float, y: float, width: float, height: float) -> float:
    """Intersection over union of a cluster's box with a box in 0..1."""
    a, b, w, h = cluster.box
    across = max(0.0, min(a + w, x + width) - max(a, x))
    down = max(0.0, min(b + h, y + height) - max(b, y))
    return across * down / (w * h + width * height - across * down)


def lumas(*images: np.ndarray) -> list[np.ndarray]:
    return [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in images]


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


def test_the_papers_mode_finds_it_too():
    before = scene()
    _, clusters, _ = image_changes(before, noisy(with_object(before, 96, 54, 48, 54), 1))
    assert overlap(clusters[0], 0.2, 0.2, 0.1, 0.2) > 0.7


def test_the_shift_is_undone_and_no_edge_is_told():
    large = scene(3, 300, 520)
    before, after = large[10:280, 15:495], noisy(large[6:276, 20:500], 2)
    options = replace(FINE, size=(270, 480))
    shift, clusters, _ = image_changes(before, after, options)
    assert shift == (-5, 4)
    assert clusters == ()
    unaligned = difference_mask(before, after, replace(options, max_shift=0))
    assert unaligned.mean() > 10 * difference_mask(before, after, options).mean()


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
    assert difference_mask(before, darker, replace(FINE, match_light=False, noise_factor=0)).mean() > 0.02
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
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 5]), st.floats(0, 120), st.floats(0, 6))
def test_swapping_before_and_after_gives_the_same_mask(seed, blur, delta, noise_factor):
    a, b = np.random.default_rng(seed).integers(0, 256, (2, 40, 52, 3), np.uint8)
    options = ChangeOptions(
        size=(40, 52), max_shift=0, match_light=False, blur=blur, delta=delta, noise_factor=noise_factor
    )
    np.testing.assert_array_equal(difference_mask(a, b, options), difference_mask(b, a, options))


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
    assert (difference_mask(a, b, options) != expected).mean() < 0.002  # equal but for rounding at the limit


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


def test_plain_images_and_frames_give_the_same():
    pair = batch()[0]
    (change,) = find_changes([pair], FINE)
    shift, clusters, salience = image_changes(pair.before.image, pair.after.image, FINE)
    assert change.shift == shift
    assert [c.box for c in change.clusters] == [c.box for c in clusters]
    np.testing.assert_array_equal(change.salience, salience)


def test_no_pairs():
    assert find_changes([]) == []


def test_a_scene_event_has_no_clusters_and_needs_the_upper_threshold():
    before, after = scene(1), scene(2)
    told, ordinary = find_changes([pair_of(before, after, beyond_upper=True), pair_of(before, after)], FINE)
    assert (told.event, told.clusters, told.salience.shape) == (SceneEvent.VIEW, (), (0,))
    assert ordinary.event is SceneEvent.NONE


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"size": (8, 224)}, "max_shift"),
        ({"blur": 0}, "blur"),
        ({"eps": -1.0}, "eps"),
        ({"min_area": 2.0}, "min_area"),
        ({"delta": -1.0}, "delta"),
    ],
)
def test_refuses_settings_that_find_nothing(settings, says):
    with pytest.raises(ValueError, match=says):
        ChangeOptions(**settings)


def test_refuses_what_is_no_rgb_image():
    with pytest.raises(ValueError, match="RGB uint8"):
        image_changes(np.zeros((50, 50), np.uint8), np.zeros((50, 50), np.uint8))


def gamma(image: np.ndarray, exponent: float) -> np.ndarray:
    return (255 * (image / 255.0) ** exponent).astype(np.uint8)


def covered(image: np.ndarray) -> np.ndarray:
    return noisy(np.full_like(image, 25), 9, 4)


SAME_VIEW = [
    pytest.param(lambda i: np.clip(i * 0.35, 0, 255).astype(np.uint8), SceneEvent.LIGHT, id="lights out"),
    pytest.param(lambda i: np.clip(i * 1.5 + 20, 0, 255).astype(np.uint8), SceneEvent.LIGHT, id="sun out"),
    pytest.param(lambda i: gamma(i, 0.45), SceneEvent.LIGHT, id="gamma"),
    pytest.param(lambda i: 255 - i, SceneEvent.LIGHT, id="inverted grey, as infrared"),
    pytest.param(covered, SceneEvent.OBSTRUCTED, id="covered"),
    pytest.param(np.zeros_like, SceneEvent.OBSTRUCTED, id="black"),
    pytest.param(lambda i: cv2.GaussianBlur(i, (0, 0), 14), SceneEvent.OBSTRUCTED, id="blurred lens"),
    pytest.param(lambda i: np.ascontiguousarray(i[:, ::-1]), SceneEvent.VIEW, id="mirrored"),
    pytest.param(lambda i: np.roll(i, (70, 150), (0, 1)), SceneEvent.VIEW, id="panned"),
    pytest.param(lambda i: noisy(i, 4, 6), SceneEvent.NONE, id="noise"),
]


@pytest.mark.parametrize(("happens", "event"), SAME_VIEW)
@pytest.mark.parametrize("seed", range(4))
def test_scene_events_of_made_scenes(seed, happens, event):
    (before,) = lumas(scene(seed))
    assert scene_event(before, noisy(happens(before), seed, 2)) is event


@pytest.mark.parametrize("seed", range(4))
def test_another_cameras_frame_is_another_view(seed):
    assert scene_event(*lumas(scene(seed), scene(seed + 50))) is SceneEvent.VIEW
    assert scene_event(*lumas(scene(seed), scene(seed + 50, 576, 768))) is SceneEvent.VIEW


@pytest.mark.parametrize("seed", range(4))
def test_of_which_a_quarter_still_looks_the_same_is_no_other_view(seed):
    """As of a street by night, of which only what the lamps show is as it was."""
    before, night = scene(seed), scene(seed + 50)
    night[:, :120] = before[:, :120]
    assert scene_event(*lumas(before, night)) is SceneEvent.NONE
    night[:, 20:] = scene(seed + 50)[:, 20:]
    assert scene_event(*lumas(before, night)) is SceneEvent.VIEW


def test_where_the_light_has_changed_what_came_is_still_found():
    """The grounded captioner's options: the sun has moved, and so half of all pixels differ."""
    before, after = scene(3), scene(3)
    shade = np.linspace(-60, 60, 480)[None, :, None]
    after = np.clip(after + shade, 0, 255).astype(np.uint8)
    cv2.rectangle(after, (200, 120), (280, 180), (250, 250, 250), -1)
    _, clusters, _ = image_changes(before, after, replace(GROUNDED, light_correlation=None))
    assert any(overlap(cluster, 200 / 480, 120 / 270, 80 / 480, 60 / 270) > 0.3 for cluster in clusters)


@pytest.mark.parametrize("seed", range(4))
def test_a_truck_is_an_object(seed):
    before = scene(seed)
    truck = cv2.rectangle(before.copy(), (60, 60), (330, 250), (235, 235, 230), -1)
    assert scene_event(*lumas(before, truck)) is SceneEvent.NONE
    (change,) = find_changes([pair_of(before, truck, beyond_upper=True)], FINE)
    assert overlap(change.clusters[0], 0.125, 60 / 270, 270 / 480, 190 / 270) > 0.8


def test_without_any_structure_only_brightness_can_tell():
    dark, light = np.full((90, 160), 20, np.uint8), np.full((90, 160), 200, np.uint8)
    assert scene_event(dark, light) is SceneEvent.LIGHT
    assert scene_event(dark, dark) is SceneEvent.NONE


REAL = [
    "opencv_vtest.avi",
    "tfl_a1-barnet-way.mp4",
    "tfl_tooley-st-bermondsey-st.mp4",
    "intel_bottle-detection.mp4",
]


def real_frames(path: Path, count: int) -> list[np.ndarray]:
    with av.open(path) as container:
        return [
            f.to_ndarray(format="rgb24")
            for _, f in zip(range(count), container.decode(video=0), strict=False)
        ]


@pytest.mark.footage
@pytest.mark.parametrize(("happens", "event"), SAME_VIEW)
@pytest.mark.parametrize("name", REAL)
def test_scene_events_of_real_scenes(clips, name, happens, event):
    frames = real_frames(clips / name, 25)
    before, after = lumas(frames[0], frames[-1])
    assert scene_event(before, happens(after)) is event


@pytest.mark.footage
def test_real_cameras_are_other_views_of_each_other(clips):
    firsts = lumas(*(real_frames(clips / name, 1)[0] for name in REAL))
    for i, before in enumerate(firsts):
        for j, after in enumerate(firsts):
            event = scene_event(before, after)
            assert event is (SceneEvent.NONE if i == j else SceneEvent.VIEW), (REAL[i], REAL[j])


@pytest.mark.footage
def test_pedestrians_are_found_where_they_walk(clips):
    frames = real_frames(clips / "opencv_vtest.avi", 60)
    shift, clusters, _ = image_changes(frames[0], frames[-1], FINE)
    assert shift == (0, 0)
    assert 3 <= len(clusters) <= 8
    assert all(c.box[2] < 0.3 and c.box[3] < 0.6 for c in clusters)
    assert image_changes(frames[0], frames[0], FINE)[1] == ()


def test_options_from_the_plain_values_of_a_record() -> None:
    options = ChangeOptions(size=(288, 384), eps=3.0, light_correlation=None)
    plain = json.loads(json.dumps(asdict(options)))
    assert ChangeOptions.of(plain) == options
    assert ChangeOptions.of({}) == ChangeOptions()
    with pytest.raises(ValueError, match="unknown change options tempo: update narrated"):
        ChangeOptions.of({"tempo": 3})
    with pytest.raises(ValueError, match="twice max_shift"):
        ChangeOptions.of({"size": [4, 4]})
