"""Reading a file fast: what happens is decoded in full, be it between two keyframes, and little else."""

from contextlib import closing
from functools import cache

import av
import numpy as np
import pytest
from encoded_footage import CODECS, encode

from pipeline.sources import SourceOptions, SourceReport
from pipeline.sources.decode import video_stream
from pipeline.sources.frame import View, luma_of
from pipeline.sources.video import AFTER_S, BEFORE_S, FastReader

RATE, GOP, SECONDS = 10, 20, 72
ROOM = np.random.default_rng(1).integers(80, 110, (128, 160, 1), np.uint8)
NOISE = [np.random.default_rng(k).integers(-1, 2, (128, 160, 3)) for k in range(2, 10)]


@cache
def drawn(number, noise, there):
    """One of few pictures, as an encoder takes it: to draw each anew takes longer than to encode it."""
    picture = ROOM + noise * NOISE[number]
    if there:
        picture[40:80, 40:80] = 230
    picture = np.clip(picture, 0, 255).astype(np.uint8)
    return av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p").to_ndarray()


def film(path, codec, b_frames, visits, *, gop=GOP, noise=1):
    """A noisy room; a block is there during each visit, in seconds."""

    def frames():
        for index in range(SECONDS * RATE):
            there = any(begin <= index / RATE < end for begin, end in visits)
            yield drawn(index % len(NOISE), noise, there)

    return encode(path, codec, b_frames, frames(), gop=gop, pixels="yuv420p", crf="30")


def read(path):
    tally = SourceReport()
    with closing(av.open(str(path))) as container:
        stream = video_stream(container)
        reader = FastReader(stream, View(SourceOptions()), tally)
        start = stream.start_time or 0
        frames = [
            (float((f.pts - start) * stream.time_base), f.key_frame, luma_of(f).copy())
            for f, _ in reader.frames(container.demux(stream))
        ]
    return frames, tally


def whole(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        start = stream.start_time or 0
        pictures = {}
        for frame in container.decode(stream):
            time = round(float((frame.pts - start) * stream.time_base), 2)
            pictures[time] = luma_of(frame).copy()
        return pictures


@pytest.mark.parametrize(("codec", "b_frames"), CODECS)
def test_what_is_over_before_the_next_keyframe_is_decoded_and_the_quiet_is_not(tmp_path, codec, b_frames):
    path = film(tmp_path / "room.mkv", codec, b_frames, [(60.5, 61.3)])
    truth = whole(path)
    frames, tally = read(path)
    times = [round(time, 2) for time, _, _ in frames]
    assert times == sorted(set(times))
    assert all(np.array_equal(picture, truth[round(time, 2)]) for time, _, picture in frames)
    around = {time for time in truth if 60.5 - BEFORE_S < time < 61.3 + AFTER_S - 1}
    assert around <= set(times)
    # The first groups are learnt from.
    quiet = [key for time, key, _ in frames if 25 < time < 50]
    assert all(quiet)
    assert 11 <= len(quiet) <= 13  # a keyframe every two seconds: none is left out
    assert tally.corrupt == 0


@pytest.mark.parametrize("gop", [1, 10_000])
def test_footage_of_keyframes_alone_or_with_hardly_any_is_read_too(tmp_path, gop):
    path = film(tmp_path / "room.mkv", "libx264", 0, [(60.5, 63.5)], gop=gop)
    truth = whole(path)
    frames, tally = read(path)
    times = {round(time, 2) for time, _, _ in frames}
    assert {time for time in truth if 60 < time < 64} <= times
    assert all(np.array_equal(picture, truth[round(time, 2)]) for time, _, picture in frames)
    assert (len(frames) < len(truth) / 2) == (gop == 1)
    assert tally.corrupt == 0


def test_files_that_were_joined_are_read_as_fast_as_one(tmp_path):
    """The stamps of each begin anew: what follows on the first would be held and decoded as one group."""
    one, joined = film(tmp_path / "one.ts", "libx264", 0, []), tmp_path / "joined.ts"
    joined.write_bytes(3 * one.read_bytes())
    (alone, _), (together, tally) = read(one), read(joined)
    assert len(alone) < len(together) <= 3 * len(alone)
    assert tally.corrupt == 0


@pytest.mark.parametrize(("gop", "whole_groups"), [(20, False), (40, True)])
def test_where_noise_hides_what_happens_keyframes_must_come_often_or_all_is_decoded(
    tmp_path, gop, whole_groups
):
    path = film(tmp_path / "room.mkv", "libx264", 0, [], gop=gop, noise=8)
    truth, (frames, _) = whole(path), read(path)
    late = [time for time, _, _ in frames if time >= 40]
    assert (len(late) == sum(time >= 40 for time in truth)) == whole_groups


def test_what_a_keyframe_shows_may_have_come_at_any_moment_since_the_one_before(tmp_path):
    path = film(tmp_path / "room.mkv", "libx264", 0, [(60.5, SECONDS)], gop=20, noise=8)
    truth, (frames, _) = whole(path), read(path)
    times = {round(time, 2) for time, _, _ in frames}
    assert {time for time in truth if 60.5 - BEFORE_S < time < 62 + AFTER_S - 1} <= times
    assert len([time for time in times if 40 < time < 56]) < 10
