"""Keyframes only while nothing moves, without a frame whose references were not decoded."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime

import av
import numpy as np
import pytest

from pipeline.sources import SourceOptions, SourceReport
from pipeline.sources.decode import IntactFrames, video_stream
from pipeline.sources.gate import Gate
from pipeline.sources.picture import View
from pipeline.sources.rtsp import RtspSource

VIEW = View(SourceOptions())
GOP = 12
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
CODECS = [("libx264", 0), ("libx264", 3), ("libx265", 0), ("libx265", 3), ("mpeg4", 0)]


def encoded(path, codec, b_frames, pictures):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 160, 128, "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.gop_size = GOP
        parameters = {"bf": str(b_frames), "preset": "ultrafast", "x265-params": "log-level=none:pools=1"}
        stream.options = {} if codec == "mpeg4" else parameters | {"sc_threshold": "0", "g": str(GOP)}
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def scene(index, *, moving):
    """A room in which, from some frame on, a block goes from left to right."""
    rows, columns = np.mgrid[0:128, 0:160]
    rgb = np.stack([columns, rows, (rows // 16 + columns // 16) % 2 * 60 + 60], axis=-1).astype(np.uint8)
    if moving:
        x = index * 5 % 120
        rgb[40:80, x : x + 40] = 240
    return rgb


def true_frames(path):
    with av.open(str(path)) as container:
        return {f.pts: f.to_ndarray(format="gray") for f in container.decode(video=0)}


def right(frame, truth):
    return np.array_equal(frame.to_ndarray(format="gray"), truth[frame.pts])


@pytest.mark.parametrize(("codec", "b_frames"), CODECS)
def test_idle_decodes_keyframes_alone_and_wakes_without_a_wrong_frame(tmp_path, codec, b_frames):
    pictures = [scene(i, moving=i >= 80) for i in range(160)]
    path = encoded(tmp_path / "clip.mkv", codec, b_frames, pictures)
    truth = true_frames(path)
    gate, counts, idle, given = Gate(still_s=0.0, first_s=0.0), SourceReport(), [], []
    with closing(av.open(str(path))) as container:
        intact = IntactFrames(counts)
        for packet in container.demux(video_stream(container, 1)):
            if not packet.size:
                break
            for due, _ in gate.due(packet, NOW):
                for frame in gate.decode(due, intact):
                    gate.look(VIEW.of_frame(frame)[0])
                    given.append(frame)
            idle.append(gate.idle)
    stamps = sorted(truth)
    number = {stamp: index for index, stamp in enumerate(stamps)}
    order = [number[frame.pts] for frame in given]
    assert all(right(frame, truth) for frame in given)
    assert order == sorted(set(order))
    quiet = [n for n in order if 2 * GOP < n < 80]
    assert 3 <= len(quiet) <= 6  # keyframes
    moving = [n for n in order if n >= 80]
    assert len(moving) >= 160 - 80 - GOP - b_frames - 1  # all, from the first keyframe that shows it
    assert any(idle)
    assert not any(idle[-40:])
    assert counts.corrupt == 0


def test_a_camera_is_idle_until_something_moves(rtsp_server, watch):
    server = rtsp_server()
    gate = Gate(still_s=0.5, first_s=0.0)
    source = RtspSource(server.url("still"), SourceOptions(sample_hz=15), "yard", gate=gate)
    camera = watch(source)
    camera.until(lambda: gate.idle)
    camera.more(1)
    decoded = source.report.decoded
    camera.more(2)
    assert source.report.decoded - decoded <= 4  # the server sends 15 for each
    server.tell("move")
    camera.until(lambda: not gate.idle)
    decoded = source.report.decoded
    camera.more(10)
    assert source.report.decoded - decoded >= 10
    assert source.report.corrupt == 0
    assert source.report.errors == ()


def test_what_leans_on_a_damaged_frame_is_not_handed_out(tmp_path):
    path = encoded(tmp_path / "clip.mkv", "libx265", 0, [scene(i, moving=True) for i in range(120)])
    truth, chance = true_frames(path), random.Random(3)
    counts, given = SourceReport(), []
    with closing(av.open(str(path))) as container:
        intact = IntactFrames(counts)
        for packet in container.demux(video_stream(container, 1)):
            if packet.size and packet.pts and chance.random() < 0.05:
                continue
            given += [(frame.pts, right(frame, truth)) for frame in intact.decode(packet)]
    assert all(good for _, good in given)
    assert len(given) > 30
