"""Keyframes only while nothing moves, without a frame whose references were not decoded."""

import random
from contextlib import closing

import av
import numpy as np
import pytest
from encoded_footage import CODECS, encode, gated, true_frames

from pipeline.sources import SourceReport
from pipeline.sources.decode import DecodeGate, IntactFrames, video_stream
from pipeline.sources.frame import luma_of

GOP = 12


def scene(index, *, moving):
    """A room in which, from some frame on, a block goes from left to right."""
    rows, columns = np.mgrid[0:128, 0:160]
    rgb = np.stack([columns, rows, (rows // 16 + columns // 16) % 2 * 60 + 60], axis=-1).astype(np.uint8)
    if moving:
        x = index * 5 % 120
        rgb[40:80, x : x + 40] = 240
    return rgb


@pytest.mark.parametrize(("codec", "b_frames"), CODECS)
def test_idle_decodes_keyframes_alone_and_wakes_without_a_wrong_frame(tmp_path, codec, b_frames):
    pictures = [scene(i, moving=i >= 80) for i in range(160)]
    path = encode(tmp_path / "clip.mkv", codec, b_frames, pictures, gop=GOP)
    gate, idle = DecodeGate(still_s=0.0, first_s=0.0), []
    given = gated(path, gate, lambda *_: idle.append(gate.idle))
    assert 3 <= len([n for n in given if 2 * GOP < n < 80]) <= 6  # keyframes
    moving = [n for n in given if n >= 80]
    assert len(moving) >= 160 - 80 - GOP - b_frames - 1  # all, from the first keyframe that shows it
    assert any(idle)
    assert not any(idle[-40:])


def test_what_leans_on_a_damaged_frame_is_not_handed_out(tmp_path):
    pictures = [scene(i, moving=True) for i in range(120)]
    path = encode(tmp_path / "clip.mkv", "libx265", 0, pictures, gop=GOP)
    truth, chance, given = true_frames(path), random.Random(3), []
    with closing(av.open(str(path))) as container:
        intact = IntactFrames(SourceReport())
        for packet in container.demux(video_stream(container)):
            if not (packet.size and packet.pts and chance.random() < 0.05):
                given += intact.decode(packet)
    assert all(np.array_equal(luma_of(frame), truth[frame.pts]) for frame in given)
    assert len(given) > 30
