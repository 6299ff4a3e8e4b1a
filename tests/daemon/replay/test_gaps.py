"""The time between two pictures: from the caller, from names, or not known; and where it goes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.config.plan import camera_plan
from daemon.config.settings import CameraDefaults
from daemon.replay.description import PairError, PairPaths, read_gap, read_pair, read_pairs
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
