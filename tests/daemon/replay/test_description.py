"""Two pictures: the time between them, and that noise, shake and compression change nothing."""

import json
from datetime import UTC, datetime
from pathlib import Path

import cv2
import numpy as np
import pytest
from made_scenes import real_frames
from still import shown

from daemon.config.plan import CameraPlan, camera_plan
from daemon.config.settings import CameraDefaults
from daemon.replay.description import PairError, PairPaths, read_gap, read_pair, read_pairs
from models import load_captioner
from pipeline.changes import find_changes
from pipeline.narration.narration import narrate
from pipeline.pairs import FramePair
from pipeline.sources.times import moment_in_name


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("20171027_131028", datetime(2017, 10, 27, 13, 10, 28, tzinfo=UTC)),
        ("10.0.0.7_01_20230613031146123_MOTION", datetime(2023, 6, 13, 3, 11, 46, tzinfo=UTC)),
        ("625_201707211410", datetime(2017, 7, 21, 14, 10, tzinfo=UTC)),
        ("front-1686625906.52-ab12", datetime(2023, 6, 13, 3, 11, 46, tzinfo=UTC)),
        ("camera_4713_00-11-26", None),
        ("209913451799", None),
    ],
)
def test_a_moment_in_a_name(name, time):
    assert moment_in_name(Path(f"{name}.jpg")) == time


def test_names_have_the_gap_and_equal_stamps_are_ignored():
    one, two = Path("20240506_070809.jpg"), Path("20240507_070809.jpg")
    assert read_gap(one, two) == read_gap(two, one) == 86400.0
    assert read_gap(one, one) is read_gap(Path("a.jpg"), two) is None


def test_a_line_of_pairs_has_its_gap(tmp_path):
    lines = [{"gap_s": 12}, {"gap_s": None}, {}, {"gap_s": -1}, {"gap_s": "12"}, {"gap_s": True}]
    file = tmp_path / "pairs.jsonl"
    file.write_text(
        "\n".join(json.dumps({"id": 1, "before": "a.png", "after": "b.png", **line}) for line in lines)
    )
    found = list(read_pairs(file))
    assert [pair.gap_s for pair in found[:3] if isinstance(pair, PairPaths)] == [12.0, None, None]
    assert [isinstance(pair, PairError) for pair in found[3:]] == [True] * 3
    assert "gap_s" in str(found[3])


@pytest.mark.parametrize(("gap_s", "known"), [(90.0, 90.0), (None, None), (1e12, 10 * 365 * 86400.0)])
def test_the_gap_reaches_the_pair(pictures, gap_s, known):
    plan = camera_plan("describe", "", CameraDefaults())
    assert read_pair(PairPaths("", *pictures), gap_s, plan).gap_s == known


def test_nothing_is_reported_of_noise_shake_and_compression(clips):
    """Noise, a small shift and another compression."""
    shipped = load_captioner()
    options = CameraPlan("yard", "").change_options(shipped)
    for clip in ("opencv_vtest.avi", "tfl_elephant-castle-walworth.mp4"):
        scene = real_frames(clips / clip, 30)[-1]
        noise = np.random.default_rng(1).normal(0, 8, scene.shape)
        noisy = np.asarray(np.clip(scene + noise, 0, 255), np.uint8)
        shaken = np.roll(scene, (2, -3), axis=(0, 1))
        _, jpeg = cv2.imencode(".jpg", scene, [cv2.IMWRITE_JPEG_QUALITY, 12])
        squeezed = cv2.imdecode(jpeg, cv2.IMREAD_COLOR)
        others = (np.asarray(other, np.uint8) for other in (noisy, shaken, squeezed))
        pairs = [FramePair(shown(scene), shown(other, 4), 9.0, beyond_upper=False) for other in others]
        assert [n.text for n in narrate(find_changes(pairs, options), shipped)] == ["", "", ""]
