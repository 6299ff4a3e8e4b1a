"""What happened to the whole scene: light, another view, an obstructed camera."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from made_scenes import FINE, GROUNDED, lumas, noisy, overlap, pair_of, real_frames, scene

from pipeline.changes import SceneEvent, find_changes, image_changes
from pipeline.changes.change import scene_event


def test_a_scene_event_has_no_clusters_and_needs_the_upper_threshold():
    before, after = scene(1), scene(2)
    told, ordinary = find_changes([pair_of(before, after, beyond_upper=True), pair_of(before, after)], FINE)
    assert (told.event, told.clusters, told.salience.shape) == (SceneEvent.VIEW, (), (0,))
    assert ordinary.event is SceneEvent.NONE


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
@pytest.mark.parametrize("seed", range(2))
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


@pytest.mark.footage
@pytest.mark.parametrize(("happens", "event"), SAME_VIEW)
@pytest.mark.parametrize("name", REAL)
def test_scene_events_of_real_scenes(clips, name, happens, event):
    frames = real_frames(clips / name, 25)
    before, after = lumas(frames[0], frames[-1])
    assert scene_event(before, happens(after)) is event


@pytest.mark.parametrize("seed", range(4))
def test_by_night_with_lamps_a_view_is_the_same(seed):
    """Lamps everywhere: hardly a block keeps its structure."""
    (day,) = lumas(scene(seed))
    rng = np.random.default_rng(seed)
    night = 25 + 0.4 * day.astype(float)
    rows, columns = np.mgrid[: day.shape[0], : day.shape[1]]
    for _ in range(130):
        y, x = rng.uniform(0, 1, 2) * day.shape
        night += 190 * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 30.0)
    night = noisy(np.clip(night, 0, 255).astype(np.uint8), seed, 3)
    assert scene_event(day, night) is SceneEvent.LIGHT
