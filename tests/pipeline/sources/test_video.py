"""Video files: time from time stamps, sampling, order of segments, damage; and reading them fast."""

import shutil
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from itertools import pairwise

import av
import cv2
import numpy as np
import pytest
from encoded_footage import CODECS, encode, true_frames

from pipeline.sources import SourceError, SourceOptions, SourceReport, open_source
from pipeline.sources.decode import KEYFRAME_WAIT_S, video_stream
from pipeline.sources.frame import View, luma_of
from pipeline.sources.times import parse_creation_time
from pipeline.sources.video import AFTER_S, BEFORE_S, FastReader

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVERY = SourceOptions(sample_hz=1000)


def seconds(frames, origin=EPOCH):
    return [(frame.time - origin).total_seconds() for frame in frames]


def read(path, options=EVERY, camera=None):
    with open_source(str(path), options, camera) as source:
        return list(source), source


def test_variable_rate_with_b_frames(make_clip):
    stamps = [0, 30, 70, 900, 1000, 1033, 4000, 4500, 4501, 9000]
    path = make_clip(stamps=stamps, time_base=Fraction(1, 1000), b_frames=2)
    frames, source = read(path)
    assert seconds(frames) == [s / 1000 for s in stamps]
    assert not source.report.damaged
    frames, _ = read(path, SourceOptions(sample_hz=2))
    assert seconds(frames) == [0.0, 0.9, 1.0, 4.0, 4.5, 9.0]


@pytest.mark.parametrize("sample_hz", [2, 3, 4])
def test_frames_that_nobody_looks_at_are_not_decoded_and_the_others_are_the_same(make_clip, sample_hz):
    path = make_clip(b_frames=3, gop=20)
    decoded, _ = read(path)
    frames, source = read(path, SourceOptions(sample_hz=sample_hz))
    nearest = {(round(10 * slot / sample_hz - 0.01)) / 10 for slot in range(5 * sample_hz)}
    assert seconds(frames) == sorted(nearest)
    by_time = {frame.time: frame.luma for frame in decoded}
    assert all(np.array_equal(frame.luma, by_time[frame.time]) for frame in frames)
    assert source.report.decoded < 0.9 * len(decoded)


def test_stamps_that_jump_back_do_not_turn_time_back(make_clip, tmp_path):
    one = make_clip("one.ts", range(20))
    joined = tmp_path / "joined.ts"
    joined.write_bytes(one.read_bytes() * 2)
    frames, source = read(joined)
    times = seconds(frames)
    assert times == sorted(set(times))
    assert 36 <= len(frames) <= 40
    assert times[-1] == pytest.approx(3.9, abs=0.3)
    assert any("jump back" in error for error in source.report.errors)


@pytest.mark.parametrize("fast", [False, True])
def test_a_stamp_that_lies_centuries_ahead_is_damaged(make_clip, fast):
    stamps = [*range(20), *(2**45 + n for n in range(20, 40))]
    path = make_clip("far.nut", stamps=stamps, time_base=Fraction(1, 10))
    frames, _ = read(path, SourceOptions(sample_hz=10, fast=fast))
    assert seconds(frames) == [n / 10 for n in range(40)]


def test_stamps_in_nanoseconds_since_1970_fit_a_record(make_clip):
    stamps = [1_700_000_000_000_000_000 + n * 100_000_000 for n in range(20)]
    frames, _ = read(make_clip("late.nut", stamps=stamps, time_base=Fraction(1, 10**9)))
    assert seconds(frames) == [n / 10 for n in range(20)]
    assert max(frame.pts for frame in frames) < 2**53


def test_avi_with_b_frames_has_no_pts_but_times(make_clip):
    frames, _ = read(make_clip("b.avi", range(30), b_frames=2))
    assert seconds(frames) == [round(i / 10, 6) for i in range(30)]
    columns = [np.flatnonzero(f.image[120, :, 2] < 70).mean() for f in frames]
    assert columns == sorted(columns)  # the block moves right: pictures are in order too


def test_start_creation_time_and_epoch(make_clip):
    told = {"creation_time": "2020-05-06T07:08:09.000000Z", "title": "South"}
    made = make_clip("made.mp4", range(5), metadata=told)
    made.write_bytes(made.read_bytes().replace(b"South", b"S\xfcden"))  # recorders write Latin-1
    assert read(made)[0][0].time == datetime(2020, 5, 6, 7, 8, 9, tzinfo=UTC)
    start = datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert read(made, SourceOptions(start=start))[0][0].time == start
    stamped = made.rename(made.with_name("cam_20210203-040506.mp4"))
    assert read(stamped)[0][0].time.year == 2020
    assert read(make_clip("2021-02-03_04-05-06.mp4", range(5)))[0][0].time == datetime(
        2021, 2, 3, 4, 5, 6, tzinfo=UTC
    )
    assert parse_creation_time("0001-01-01T00:00:00+05:00") is None


def test_a_stream_that_begins_on_the_way_ends_nothing(make_clip):
    """One packet of MPEG-TS has another id, as by a bit that was flipped."""
    path = make_clip("a.ts", range(60))
    content = bytearray(path.read_bytes())
    begins = [k for k in range(0, len(content), 188) if content[k + 1 : k + 3] == b"\x41\x00"]
    content[begins[30] + 2] = 1
    path.write_bytes(content)
    make_clip("b.ts", range(60))
    frames, _ = read(path.parent / "*.ts")
    assert seconds(frames)[-1] > 11


def test_a_codec_that_nobody_knows_is_refused(make_clip):
    path = make_clip()
    path.write_bytes(path.read_bytes().replace(b"avc1", b"svac"))
    with pytest.raises(SourceError, match="no video stream"):
        open_source(str(path))


def test_segments_keep_their_gaps_and_never_overlap_and_a_second_is_none(make_clip, tmp_path):
    """Each is of two seconds; names and clocks of recorders are a second off."""
    for name, second in (("a", 30), ("b", 0), ("c", 1), ("d", 33)):
        at = {"creation_time": f"2020-01-01T00:00:{second:02d}.000000Z"}
        make_clip(f"{name}.mp4", range(20), metadata=at)
    origin = datetime(2020, 1, 1, tzinfo=UTC)
    frames, _ = read(tmp_path / "*.mp4", SourceOptions(sample_hz=1))
    assert seconds(frames, origin) == [0, 1, 2, 3, 30, 31, 32, 33]


def test_luma_is_the_y_plane_resized_by_area(make_clip):
    path = make_clip(size=(644, 364), stamps=range(3))  # 644 is padded to a longer line
    frames, _ = read(path, SourceOptions(sample_hz=1000, analysis_width=160))
    with av.open(str(path)) as container:
        decoded = next(container.decode(video=0))
        plane = decoded.to_ndarray()[:364, :644]
    assert np.array_equal(luma_of(decoded), plane)
    assert frames[0].luma.shape == (90, 160)
    assert np.array_equal(frames[0].luma, cv2.resize(plane, (160, 90), interpolation=cv2.INTER_AREA))


@pytest.mark.parametrize("name", ["cut.mp4", "cut.avi", "cut.mkv"])
def test_a_truncated_file_gives_what_it_has(make_clip, name):
    options = {"movflags": "faststart"} if name.endswith("mp4") else {}
    path = make_clip(name, range(100), container_options=options)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 6 // 10])
    frames, source = read(path)
    assert 20 < len(frames) < 90
    assert source.report.damaged
    assert any("ends early" in error for error in source.report.errors)


def damage(path, places):
    """Flip the byte at each place."""
    raw = bytearray(path.read_bytes())
    for place in places:
        raw[int(place)] ^= 0xFF
    path.write_bytes(raw)


@pytest.mark.parametrize("name", ["flipped.mp4", "flipped.ts", "flipped.avi"])
def test_flipped_bytes_are_counted_and_smears_are_skipped(make_clip, name):
    path = make_clip(name, range(200))
    clean, _ = read(path)
    size = path.stat().st_size
    damage(path, np.random.default_rng(7).integers(size // 4, size // 2, 12))
    frames, source = read(path)
    assert source.report.damaged
    assert 100 <= len(frames) < 200
    by_time = {frame.time: frame for frame in clean}
    same = [f for f in frames if f.time in by_time and np.array_equal(f.luma, by_time[f.time].luma)]
    assert len(same) >= 0.9 * len(frames)
    times = seconds(frames)
    assert times == sorted(set(times))


def test_damage_in_a_long_group_costs_no_more_than_the_wait_for_a_keyframe(make_clip):
    path = make_clip("long.ts", range(300), gop=10_000)
    damage(path, np.linspace(0.3, 0.31, 40) * path.stat().st_size)
    frames, source = read(path)
    assert source.report.damaged
    times = seconds(frames)
    longest = max(later - earlier for earlier, later in pairwise(times))
    assert 0.5 < longest < KEYFRAME_WAIT_S + 2
    assert times[-1] > 29


def test_luma_of_ten_bits_is_that_of_eight(make_clip):
    (eight, *_), (ten, *_) = (
        read(make_clip(f"{pixels}.mp4", range(3), pix_fmt=pixels))[0] for pixels in ("yuv420p", "yuv420p10le")
    )
    full_range = np.clip((eight.luma - 16.0) * 255 / 219, 0, 255)  # as other formats than 8-bit ones come out
    assert np.abs(full_range - ten.luma).mean() < 2


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("rotation", [90, 180, -90])
def test_pictures_are_turned_as_the_file_says(make_clip, rotation, fast):
    options = SourceOptions(sample_hz=10, fast=fast)
    lying, _ = read(make_clip(), options)
    upright, _ = read(make_clip("upright.mp4", rotation=rotation), options)
    for one, other in zip(lying, upright, strict=True):
        assert np.array_equal(np.rot90(one.image, rotation // 90), other.image)
        height, width = other.image.shape[:2]
        assert other.luma.shape == (480 * height / width, 480)
        assert other.picture.small(100).shape[1] == 100


def test_names_that_look_like_patterns_and_protocols(make_clip, tmp_path):
    plain = make_clip()
    for name in ("a[1].mp4", "front:door.mp4", "what a name?.mp4"):
        shutil.copy(plain, tmp_path / name)
        assert len(read(tmp_path / name)[0]) == 50
    assert read(tmp_path / "what a name?.mp4")[1].camera == "what_a_name"


@pytest.mark.parametrize("rate", [10, 12, 15, 24, 25, 30])
def test_sampled_frames_are_the_nearest_to_their_moments(make_clip, rate):
    clip = make_clip(stamps=range(4 * rate), time_base=Fraction(1, rate))
    with open_source(str(clip), SourceOptions(sample_hz=5.0)) as source:
        moments = [(frame.time - EPOCH).total_seconds() for frame in source]
    assert all(abs(moment - k / 5) <= 0.5 / rate + 1e-3 for k, moment in enumerate(moments[:20]))
    assert len(moments) in {20, 21}


def test_a_bad_segment_is_told_and_the_others_are_read_in_the_order_of_their_names(make_clip, tmp_path):
    for name, length in (("p10", 10), ("p9", 20), ("p1", 30), ("p11", 10)):
        make_clip(f"gate/{name}.mp4", range(length))
    (tmp_path / "gate/p8.mp4").write_bytes(b"")
    with open_source(str(tmp_path / "gate" / "*.mp4"), SourceOptions(sample_hz=1)) as source:
        (tmp_path / "gate/p11.mp4").unlink()
        frames = list(source)
        again = list(source)  # from the start
        assert source.report.decoded == 60
    assert source.camera == "gate"
    assert seconds(frames) == seconds(again) == [0, 1, 2, 3, 4, 5]
    errors = source.report.errors
    assert len(errors) == 2
    assert "p8.mp4" in errors[0]
    assert "no such file" in errors[1]


@pytest.mark.parametrize("name", ["clip.mp4", "late.ts"])
def test_time_is_pts_times_time_base_from_the_first_frame(make_clip, name):
    frames, source = read(make_clip(name, stamps=range(14, 64) if "late" in name else range(50)))
    assert seconds(frames) == [round(i / 10, 6) for i in range(50)]
    assert source.duration_s == pytest.approx(5.0, abs=0.11)
    assert source.report.decoded == source.report.sampled == 50
    for hz, expected in ((2, [i / 2 for i in range(10)]), (0.4, [0.0, 2.5])):  # the first of each slot
        frames, source = read(make_clip(name), SourceOptions(sample_hz=hz))
        assert seconds(frames) == expected
        assert source.report.decoded == 50


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


def read_fast(path):
    """Frames in order, by second, the seconds of keyframes, and counts."""
    report = SourceReport()
    with closing(av.open(str(path))) as container:
        stream = video_stream(container)
        reader = FastReader(stream, View(SourceOptions()), report)
        read = [frame for frame, _ in reader.frames(container.demux(stream))]
        frames = by_second(stream, {frame.pts: luma_of(frame).copy() for frame in read})
        keyframes = by_second(stream, {frame.pts: frame for frame in read if frame.key_frame})
    assert [*frames] == sorted(frames)
    assert len(frames) == len(read)
    assert report.corrupt == 0
    return frames, [*keyframes]


def by_second(stream, frames):
    return {float((pts - (stream.start_time or 0)) * stream.time_base): each for pts, each in frames.items()}


def whole(path):
    with closing(av.open(str(path))) as container:
        return by_second(video_stream(container), true_frames(path))


def are_true(frames, truth):
    return all(np.array_equal(picture, truth[time]) for time, picture in frames.items())


@pytest.mark.parametrize(("codec", "b_frames"), CODECS)
def test_what_is_over_before_the_next_keyframe_is_decoded_and_the_quiet_is_not(tmp_path, codec, b_frames):
    path = film(tmp_path / "room.mkv", codec, b_frames, [(60.5, 61.3)])
    truth, (frames, keyframes) = whole(path), read_fast(path)
    assert are_true(frames, truth)
    assert {time for time in truth if 60.5 - BEFORE_S < time < 61.3 + AFTER_S - 1} <= frames.keys()
    quiet = [time for time in frames if 25 < time < 50]  # the first groups are learnt from
    assert {*quiet} <= {*keyframes}
    assert 11 <= len(quiet) <= 13  # a keyframe every two seconds: none is left out


@pytest.mark.parametrize("gop", [1, 10_000])
def test_footage_of_keyframes_alone_or_with_hardly_any_is_read_too(tmp_path, gop):
    path = film(tmp_path / "room.mkv", "libx264", 0, [(60.5, 63.5)], gop=gop)
    truth, (frames, _) = whole(path), read_fast(path)
    assert {time for time in truth if 60 < time < 64} <= frames.keys()
    assert are_true(frames, truth)
    assert (len(frames) < len(truth) / 2) == (gop == 1)


def test_files_that_were_joined_are_read_as_fast_as_one(tmp_path):
    """The stamps of each begin anew: what follows on the first would be held and decoded as one group."""
    one, joined = film(tmp_path / "one.ts", "libx264", 0, []), tmp_path / "joined.ts"
    joined.write_bytes(3 * one.read_bytes())
    counts = [read(path, SourceOptions(sample_hz=1000, fast=True))[1].report for path in (one, joined)]
    assert counts[0].decoded < counts[1].decoded <= 3 * counts[0].decoded
    assert counts[1].corrupt == 0


@pytest.mark.parametrize(("gop", "whole_groups"), [(20, False), (40, True)])
def test_where_noise_hides_what_happens_keyframes_must_come_often_or_all_is_decoded(
    tmp_path, gop, whole_groups
):
    path = film(tmp_path / "room.mkv", "libx264", 0, [], gop=gop, noise=8)
    late, truth = ([time for time in frames if time >= 40] for frames in (read_fast(path)[0], whole(path)))
    assert (late == truth) == whole_groups


def test_what_a_keyframe_shows_may_have_come_at_any_moment_since_the_one_before(tmp_path):
    path = film(tmp_path / "room.mkv", "libx264", 0, [(60.5, SECONDS)], gop=20, noise=8)
    truth, (frames, _) = whole(path), read_fast(path)
    assert {time for time in truth if 60.5 - BEFORE_S < time < 62 + AFTER_S - 1} <= frames.keys()
    assert len([time for time in frames if 40 < time < 56]) < 10
