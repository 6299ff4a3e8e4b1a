"""The contract of every source, and what opening refuses."""

import threading
from datetime import UTC
from pathlib import Path

import cv2
import numpy as np
import pytest

from pipeline.sources import Clock, SourceError, SourceOptions, open_source, redact


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
