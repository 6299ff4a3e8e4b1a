"""Nothing is decoded in vain: keyframes while nothing moves, or nothing at all; and no frame is wrong."""

import logging
import math
import random
from contextlib import closing

import av
import numpy as np
import pytest
from encoded_footage import CODECS, encode, gated, true_frames
from waiting import until

from pipeline.sources import ConnectionState, SourceOptions, SourceReport, decode, open_source
from pipeline.sources.decode import HELD_BYTES, KEYFRAME_GAP_S, DecodeGate, IntactFrames, Screen, video_stream
from pipeline.sources.frame import luma_of
from pipeline.sources.rtsp import RtspSource

GOP, FRAMES = 12, 120
NEVER, ALWAYS = -math.inf, math.inf
EVERYWHERE = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
PATIENT = SourceOptions(sample_hz=15, open_timeout_s=60.0, stall_timeout_s=60.0)


class Told:
    """What a gate asks its screen, set by the test."""

    def __init__(self):
        self.is_current, self.moved_s = True, NEVER


@pytest.fixture(scope="module", params=CODECS, ids=str)
def clip(request, tmp_path_factory):
    """A file and the stamps of its frames: faint noise makes each frame another, but none shows movement."""
    codec, b_frames = request.param
    path = tmp_path_factory.mktemp("screening") / "clip.mkv"
    rows, columns = np.mgrid[0:64, 0:96]
    ground = np.stack([columns, rows, (rows // 16 + columns // 16) % 2 * 60 + 60], -1).astype(np.uint8)
    noise = np.random.default_rng(1)
    squares = (noise.integers(0, 10, (8, 12, 1), np.uint8) for _ in range(FRAMES))
    pictures = (ground + each.repeat(8, axis=0).repeat(8, axis=1) for each in squares)
    encode(path, codec, b_frames, pictures, gop=GOP, bit_rate=2_000_000)
    truth = true_frames(path)
    assert len({frame.tobytes() for frame in truth.values()}) == FRAMES
    return path, sorted(truth)


@pytest.mark.parametrize(
    ("moved", "lag_s", "fresh_s"),
    [(47, 0.0, 0.0), (48, 0.0, math.inf), (48, math.inf, math.inf), (53, 0.0, math.inf)],
)
def test_movement_anywhere_in_a_group_of_pictures_is_decoded_from_its_keyframe(
    clip, monkeypatch, moved, lag_s, fresh_s
):
    monkeypatch.setattr(decode, "LAG_S", lag_s)
    monkeypatch.setattr(decode, "FRESH_S", fresh_s)
    gate = DecodeGate(told := Told(), keyframes=False, still_s=0.0, first_s=0.0)
    idle, keyframe = {}, 0
    stamps = clip[1]

    def at(index, packet):
        nonlocal keyframe
        idle[index] = gate.idle
        if packet.is_keyframe and index <= moved:
            keyframe = stamps.index(packet.pts)
        if index == moved:
            told.moved_s = ALWAYS
        elif index == 90:
            told.moved_s = NEVER

    given = gated(clip[0], gate, at)
    assert idle[moved]
    assert not idle[moved + 1]
    assert idle[FRAMES - 1]  # quiet again
    first = next(n for n in given if n > 2 * GOP and n + 1 in given)
    assert first <= keyframe + 1  # where it was given already, the next one
    held_back = 4  # frames that a decoder keeps for reordering
    assert set(range(first, 90 - held_back)) <= set(given)
    quiet = [n for n in given if 2 * GOP < n < first]
    assert len(quiet) <= 3  # keyframes
    if math.isinf(fresh_s) and lag_s == 0:
        assert quiet == []


def test_what_cannot_be_held_is_decoded(clip, monkeypatch):
    for name, value in (("HELD_BYTES", 500), ("KEYFRAME_GAP_S", 0.0)):
        gate = DecodeGate(told := Told(), keyframes=False, still_s=0.0, first_s=0.0)

        def at(index, _, name=name, value=value, gate=gate):
            if gate.idle and index > 50:
                monkeypatch.setattr(decode, name, value)

        given = gated(clip[0], gate, at)
        assert told.moved_s == NEVER
        assert len([n for n in given if n >= 60]) > 50
        monkeypatch.setattr(decode, name, {"HELD_BYTES": HELD_BYTES}.get(name, KEYFRAME_GAP_S))


@pytest.mark.parametrize("keyframes", [False, True])
def test_without_the_small_stream_the_large_one_is_screened(clip, keyframes):
    gate = DecodeGate(told := Told(), keyframes=keyframes, still_s=0.0, first_s=0.0)
    modes = []

    def at(index, _):
        told.is_current = not 60 <= index < 100
        modes.append(gate.idle)

    given = gated(clip[0], gate, at)
    away = [n for n in given if 62 <= n < 96]
    assert len(away) <= 3 if keyframes else len(away) == 34
    assert all(modes[62:99]) if keyframes else not any(modes[62:99])
    assert modes[50]
    assert modes[-1]


def test_a_camera_is_held_while_its_small_stream_is_quiet_and_screened_itself_without(
    rtsp_server, rtsp_relay, watch, clean, caplog, monkeypatch
):
    caplog.set_level(logging.INFO)
    # GStreamer's server may jam where several come at once: each has its own, and one watches it already.
    server, small_server = rtsp_server(), rtsp_server()
    small = rtsp_relay(small_server)
    address = small.url("small").replace("://", "://me:s3cr3t@")
    everything = clean(server.url("still"))
    private = SourceOptions(privacy=(EVERYWHERE,))
    blind = Screen(RtspSource(small_server.url("small"), private, "blind"))
    source = open_source(server.url("still"), PATIENT, "yard", screening=address)
    source._gate = gate = DecodeGate(source._screen, keyframes=False, still_s=0.7, first_s=0.0)
    monkeypatch.setattr(decode, "LATE_S", 60.0)
    blind.loop.start()
    until(lambda: blind.source.report.sampled)
    camera = watch(source)
    camera.until(lambda: gate.idle and blind.is_current)
    decoded, nothing = source.report.decoded, blind.moved_s
    seen, own = blind.source.report.sampled, source.report.screening.sampled
    camera.until(lambda: blind.source.report.sampled >= seen + 2)  # 1 s: 30 packets of the large stream
    assert source.report.decoded - decoded <= 2
    assert source.report.state is ConnectionState.STREAMING
    assert source.report.screening.state is ConnectionState.STREAMING
    assert source.report.screening.sampled > own
    for each in (server, small_server):
        each.tell("move")
    camera.until(lambda: not gate.idle)
    assert {frame.image.shape for frame in camera.more(10)} == {(240, 320, 3)}
    for each in (server, small_server):
        each.tell("rest")
    camera.until(lambda: gate.idle)
    small.__exit__()
    monkeypatch.setattr(decode, "LATE_S", 1.0)
    camera.until(lambda: not gate.idle)
    camera.more(5)
    camera.until(lambda: source.report.screening.state is ConnectionState.BACKING_OFF)
    assert "yard: sub-stream: " in caplog.text
    assert not {"s3cr3t", "me:"} & set(caplog.text.split())
    assert blind.moved_s == nothing  # all of it is a privacy area
    blind.close()
    camera.end()
    camera.until(lambda: everything.holds(camera.frames))
    assert [frame.time for frame in camera.frames] == sorted({frame.time for frame in camera.frames})
    assert source.report.errors == ()
    assert "s3cr3t" not in caplog.text


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
