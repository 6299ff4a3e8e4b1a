"""Privacy areas and masks: which pixels they cover, and that nothing of them is handed out."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from still import shown

from pipeline.changes import ChangeOptions, find_changes
from pipeline.pairs import candidate_pairs
from pipeline.sources import SourceOptions, open_source, polygon_mask, read_still
from pipeline.thresholds import PairThresholds

EVERY = SourceOptions(sample_hz=1000)
LEFT_HALF = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))
TRIANGLE = ((0.1, 0.1), (0.6, 0.2), (0.3, 0.9))
shares = st.floats(0, 1, width=32)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(shares, shares), min_size=3, max_size=3), st.integers(4, 40), st.integers(4, 40))
def test_every_pixel_that_a_triangle_touches_is_covered(corners, height, width):
    mask = polygon_mask((tuple(corners),), (height, width))
    weights = np.random.default_rng(0).dirichlet((0.5, 0.5, 0.5), 2000)
    x, y = (weights @ np.array(corners)).T.clip(0, 1 - 1e-9)
    assert mask[(y * height).astype(int), (x * width).astype(int)].all()
    left = polygon_mask((LEFT_HALF,), (100, 200))
    assert left[:, :100].all()
    assert not left[:, 104:].any()


def black(frame, polygon):
    """Whether all of a polygon is black in both the plane and the picture of a frame, and the rest is not."""
    plane, image = frame.luma, frame.image
    assert plane.mean() > 10
    assert image.mean() > 10
    return (
        not plane[polygon_mask((polygon,), plane.shape)].any()
        and not image[polygon_mask((polygon,), image.shape[:2])].any()
    )


def test_a_privacy_area_is_black_in_stills(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.full((60, 80, 3), 200, np.uint8))
    options = SourceOptions(analysis_width=40, privacy=(LEFT_HALF,))
    assert black(read_still(tmp_path / "a.png", options), LEFT_HALF)
    with open_source(str(tmp_path), options) as source:
        assert black(next(iter(source)), LEFT_HALF)


def test_a_mask_is_black_where_frames_are_screened_and_visible_in_the_picture(make_clip):
    with open_source(str(make_clip()), replace(EVERY, masks=(LEFT_HALF,))) as source:
        frame = next(iter(source))
    assert not frame.luma[:, : frame.luma.shape[1] // 2].any()
    assert frame.image[:, :100].mean() > 50


def frames_of(*images):
    return [shown(image, 5 * i) for i, image in enumerate(images)]


@pytest.mark.parametrize("shift", [(0, 0), (3, -2), (-2, 1)])
def test_no_pixel_of_a_mask_is_in_a_cluster_and_none_counts(shift):
    rng = np.random.default_rng(1)
    ground = rng.integers(40, 90, (15, 20, 3), np.uint8).repeat(16, axis=0).repeat(16, axis=1)
    before = ground.copy()
    after = np.roll(ground, shift, axis=(1, 0))  # the camera shook
    after[60:200, 40:158] = 250  # most of it in the mask
    after[100:150, 220:280] = 250
    for box in ((60, 200, 40, 158), (100, 150, 220, 280)):
        assert not np.array_equal(
            before[box[0] : box[1], box[2] : box[3]], after[box[0] : box[1], box[2] : box[3]]
        )
    mask = ((0.1, 0.2), (0.5, 0.2), (0.5, 0.9), (0.1, 0.9))
    options = ChangeOptions(size=(240, 320), eps=3, min_samples=5)
    outcome = {}
    for masks in ((), (mask,)):
        pair = next(candidate_pairs(frames_of(before, after), PairThresholds(), masks))
        outcome[masks] = pair.l2, find_changes([pair], options)[0].clusters
    inside = polygon_mask((mask,), options.size)
    l2, clusters = outcome[(mask,)]
    assert clusters
    assert not any((cluster.mask & inside).any() for cluster in clusters)
    assert any((cluster.mask & inside).any() for cluster in outcome[()][1])
    assert l2 < outcome[()][0]
    hidden = before.copy()
    hidden[polygon_mask((mask,), options.size)] = 7
    pair = next(candidate_pairs(frames_of(hidden, after), PairThresholds(), (mask,)))
    assert pair.l2 == l2


@pytest.mark.parametrize(
    ("codec", "pix_fmt"),
    [("libx264", "yuv420p"), ("libx264", "yuv444p"), ("libx264", "yuv420p10le"), ("ffv1", "bgr0")],
)
def test_a_privacy_area_is_black_in_video(make_clip, codec, pix_fmt):
    path = make_clip("clip.mkv", stamps=range(12), codec=codec, pix_fmt=pix_fmt)
    with open_source(str(path), replace(EVERY, privacy=(TRIANGLE,))) as source:
        frames = list(source)
    with open_source(str(path), EVERY) as source:
        seen = list(source)
    assert all(black(frame, TRIANGLE) for frame in frames)
    assert not any(black(frame, TRIANGLE) for frame in seen)
    small, open_small = (each[-1].picture.small(40) for each in (frames, seen))
    inside = polygon_mask((TRIANGLE,), small.shape[:2], 2)  # the scaler looks two pixels around
    assert small.shape[1] == 40
    assert open_small[inside].any()
    assert small.any()
    assert not small[inside].any()
    # Frames are predicted from one another: what is blackened is a copy, not the decoder's picture.
    outside = ~polygon_mask((TRIANGLE,), frames[-1].image.shape[:2], 6)
    assert np.array_equal(frames[-1].image[outside], seen[-1].image[outside])
