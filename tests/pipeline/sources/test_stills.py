"""Folders of stills, and single ones."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import cv2
import numpy as np
import pytest

from pipeline.sources import Clock, SourceError, SourceOptions, open_source, read_still

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write(path: Path, grey: int = 100, size: tuple[int, int] = (48, 64)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((*size, 3), grey, np.uint8)
    image[:, :8] = (200, 40, 10)  # BGR: the left is blue
    assert cv2.imwrite(str(path), image)
    return path


def test_stills_are_in_natural_order_one_second_apart(tmp_path):
    for index in (10, 9, 2, 1):
        write(tmp_path / "door" / f"s{index}.png", index)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with open_source(str(tmp_path / "door"), SourceOptions(start=start)) as source:
        frames = list(source)
        assert source.camera == "door"
        assert source.duration_s == 3.0
        assert source.report.sampled == 4
    assert [int(f.image[0, 40, 0]) for f in frames] == [1, 2, 9, 10]
    assert [f.time for f in frames] == [start + timedelta(seconds=i) for i in range(4)]
    assert [f.pts for f in frames] == [0, 1, 2, 3]


def test_stamps_in_all_names_give_times_and_sampling(tmp_path):
    for name in ("b_20170721T141000", "a_2017-07-21_14-10-30", "c_20170721T141031", "d_20170721T141100"):
        write(tmp_path / f"{name}.jpg")
    options = SourceOptions(sample_hz=0.5)
    with open_source(str(tmp_path / "*.jpg"), options) as source:
        times = [f.time for f in source]
    assert [(t - times[0]).total_seconds() for t in times] == [0, 30, 60]
    assert times[0] == datetime(2017, 7, 21, 14, 10, tzinfo=UTC)
    write(tmp_path / "e.jpg")
    with open_source(str(tmp_path), SourceOptions()) as source:
        assert [f.time for f in source] == [EPOCH + timedelta(seconds=i) for i in range(5)]


def test_damaged_stills_are_counted_and_skipped(tmp_path):
    for index in range(6):
        write(tmp_path / f"{index}.jpg", size=(240, 320))
    write(tmp_path / "6.png")
    (tmp_path / "1.jpg").write_bytes(b"")
    (tmp_path / "2.jpg").write_bytes(b"no picture")
    for name in ("3.jpg", "6.png"):
        cut = tmp_path / name
        cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    with open_source(str(tmp_path)) as source:
        assert [f.pts for f in source] == [0, 4, 5]
        report = source.report
    assert (report.corrupt, report.sampled, report.damaged) == (4, 3, True)
    assert [e for e in report.errors if "cut off" in e]
    assert [e for e in report.errors if "0 bytes" in e]


def test_a_still_that_is_far_too_tall_is_damaged(tmp_path):
    for name, height in (("1", 24), ("2", 3000)):
        cv2.imwrite(str(tmp_path / f"{name}.png"), np.zeros((height, 32, 3), np.uint8))
    with open_source(str(tmp_path)) as source:
        assert [frame.luma.shape for frame in source] == [(360, 480)]
    assert source.report.errors == ("no camera has pictures of 32 x 3000 pixels",)
    with pytest.raises(SourceError, match="no camera"):
        read_still(tmp_path / "2.png")


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp", "tif"])
def test_read_still(tmp_path, suffix):
    frame = read_still(write(tmp_path / f"2020-01-02_03-04-05.{suffix}"))
    assert frame.image.shape == (48, 64, 3)
    assert frame.image.dtype == np.uint8
    assert frame.image[:, :4, 2].mean() > 150  # RGB: blue is last
    assert frame.luma.shape == (360, 480)
    assert (frame.clock, frame.camera) == (Clock.FILE, "2020-01-02_03-04-05")
    assert frame.time == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    write(tmp_path / f"2020-01-02_03-04-05_again.{suffix}")  # one stamp on all names is no time
    for place, count in ((tmp_path / f"2020-01-02_03-04-05.{suffix}", 1), (tmp_path, 2)):
        with open_source(str(place)) as source:
            assert len(list(source)) == count
    with pytest.raises(SourceError, match="check the path"):
        read_still(tmp_path)
