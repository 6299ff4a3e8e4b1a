"""The contract of every source, what opening refuses, and stills."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import cv2
import numpy as np
import pytest

from pipeline.sources import Clock, SourceError, SourceOptions, open_source, read_still, redact


@pytest.fixture(params=["video", "glob", "stills", "rtsp"])
def opened(request, tmp_path, make_clip):
    """A source of each kind that gives six frames or more."""
    if request.param == "video":
        url = str(make_clip("yard.mp4"))
    elif request.param == "glob":
        url = str(make_clip("yard/a1.mp4").parent / "*.mp4")
        make_clip("yard/a2.mp4")
    elif request.param == "stills":
        url = str(tmp_path / "yard")
        Path(url).mkdir()
        for index in range(8):
            cv2.imwrite(f"{url}/{index}.png", np.full((48, 64, 3), index * 20, np.uint8))
    else:
        url = request.getfixturevalue("rtsp_server")().url()
    with open_source(url, SourceOptions(sample_hz=5), camera="yard") as source:
        yield source


def test_every_source_gives_frames_in_time_order_and_ends_at_close(opened):
    frames, closing = [], threading.Thread(target=opened.close)
    for frame in opened:
        frames.append(frame)
        if len(frames) == 5:
            closing.start()
            closing.join()
    assert len(frames) == 5
    times = [frame.time for frame in frames]
    assert times == sorted(set(times))
    assert {frame.camera for frame in frames} == {"yard"} == {opened.camera}
    assert all(t.tzinfo is UTC for t in times)
    clocks = {Clock.RECEIVE, Clock.RTCP} if opened.live else {Clock.FILE}
    assert {frame.clock for frame in frames} <= clocks
    assert all(frame.luma.shape == (360, 480) and frame.luma.dtype == np.uint8 for frame in frames)
    assert all(frame.image.ndim == 3 and frame.image is frame.image for frame in frames)
    report = opened.report
    assert report.sampled == len(frames)
    assert report.decoded >= report.sampled
    assert not report.damaged
    assert (opened.duration_s is None) == opened.live
    assert list(opened) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.mp4", None, "no such file"),
        ("missing-*.mp4", None, "no video and no still image"),
        ("empty.mp4", b"", "0 bytes"),
        ("noise.mp4", bytes(range(256)) * 64, "cannot be read as video"),
        ("readme.txt", b"not a video at all\n" * 50, "video"),
        ("empty.jpg", b"", "0 bytes"),
        ("noise.jpg", b"no picture", "damaged or not an image"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_do(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError, match=message):
        open_source(str(path))


@pytest.mark.parametrize(
    "url",
    ["http://u:geheim@host/x.mp4", "rtsp://u:geheim@:554", "rtsp://[u:geheim@x", "RTSP://u:geheim@host"],
)
def test_urls_that_cannot_be_used_are_refused_without_their_secret(url):
    with pytest.raises(SourceError) as refused:
        open_source(url)
    assert "geheim" not in str(refused.value)
    with open_source("rtsp://admin:p/w@10.0.0.5:554/Streaming/101?token=abc") as source:
        assert source.camera == "10.0.0.5_554_Streaming_101"


@pytest.mark.parametrize("url", ["rtsp:/cam:geheim@10.0.0.5/x", "cam:geheim@10.0.0.5/x", "rtsp:10.0.0.5/x"])
def test_a_malformed_address_is_refused_with_the_right_one_and_without_its_secret(url):
    with pytest.raises(SourceError, match="write rtsp://user:password@host") as refused:
        open_source(url)
    assert "geheim" not in str(refused.value)
    assert redact(refused.value) == str(refused.value)


def test_an_empty_folder_and_a_mixed_glob_are_refused(tmp_path, make_clip):
    (tmp_path / "mixed").mkdir()
    with pytest.raises(SourceError, match="no video and no still image"):
        open_source(str(tmp_path / "mixed"))
    make_clip("mixed/a.mp4", range(3))
    with open_source(str(tmp_path / "mixed")) as source:
        assert (source.camera, len(list(source))) == ("mixed", 1)
    cv2.imwrite(str(tmp_path / "mixed/a.png"), np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(SourceError, match="both still images and videos"):
        open_source(str(tmp_path / "mixed/*"))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("rtsp://admin:s3cr3t@10.0.0.5/a", "rtsp://***@10.0.0.5/a"),
        ("failed: 'rtsp://admin:p@ss/w?rd@cam:554/a' gone", "failed: 'rtsp://***@cam:554/a' gone"),
        ("rtsp://cam:554/a", "rtsp://cam:554/a"),
        ("rtsp:/admin:s3cr3t@cam/a", "rtsp:/***@cam/a"),
        ("'admin:p@ss/w@cam:554/a' gone", "'***@cam:554/a' gone"),
        ("the URL redis//:s3cr3t@cam is malformed", "the URL redis//***@cam is malformed"),
        ("n.yaml: file:/srv/a@home.mp4: gone", "n.yaml: file:/srv/a@home.mp4: gone"),
        ("http://cam/x?user=me&password=s3cr3t&ch=1", "http://cam/x?user=***&password=***&ch=1"),
    ],
)
def test_credentials_are_redacted(text, clean):
    assert redact(text) == clean
    assert redact(redact(text)) == clean


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
        assert [f.time for f in source] == [datetime.fromtimestamp(i, UTC) for i in range(5)]


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
