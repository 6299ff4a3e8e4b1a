"""RTSP cameras, against GStreamer's server, and a relay that loses and forges packets."""

import gc
import itertools
import socket
import threading
import time
import tracemalloc
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice, pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from encoded_footage import encode
from raw_server import raw_server
from waiting import LIMIT_S, until

from pipeline.sources import Clock, ConnectionState, SourceError, SourceOptions, open_source, rtsp
from pipeline.sources.decode import Screen, video_stream
from pipeline.sources.frame import ERRORS_KEPT, Frame, RecordedSource, boot_time_s, seconds_between
from pipeline.sources.rtsp import LENT, Connection, RtspSource, open_camera
from pipeline.sources.video import open_container

PATIENT = SourceOptions(sample_hz=10, open_timeout_s=60.0, stall_timeout_s=60.0)
EVERY = replace(PATIENT, sample_hz=30)


def files_open():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_every_connection_is_closed_at_once(rtsp_server, monkeypatch):
    source = RtspSource(rtsp_server().url(), PATIENT, "yard")
    monkeypatch.setattr(source, "_put", lambda _: source.close())
    gc.disable()  # a connection that only the collector closes is one too many
    try:
        counts = []
        for _ in range(6):
            source._reading.stopped.clear()
            assert source._session() == "closed"
            counts.append(files_open())
    finally:
        gc.enable()
    assert source.report.reconnections == 5
    assert len(set(counts)) == 1


def test_a_slow_reader_gets_the_newest_frames_and_the_rest_is_counted(rtsp_server):
    with open_source(rtsp_server().url(), PATIENT) as source:
        frames = iter(source)
        first = next(frames)
        until(lambda: source.report.dropped > 3)
        dropped, late = source.report.dropped, next(frames)
    assert late.pts - first.pts > 0.09 * 90_000 * dropped


def test_between_two_frames_lies_the_time_for_which_the_machine_slept(rtsp_server, monkeypatch):
    with open_source(rtsp_server().url(), PATIENT) as source:
        frames = iter(source)
        before = next(frames)
        monkeypatch.setattr(rtsp, "boot_time_s", lambda: boot_time_s() + 8 * 3600)
        after = next(frame for frame in frames if seconds_between(before, frame) > 60)
    assert seconds_between(before, after) == pytest.approx(8 * 3600, abs=20)


def test_frames_again_after_the_server_is_killed_and_started(rtsp_server, watch, caplog):
    server = rtsp_server("admin", "s3cr3t")
    source = open_source(server.url(user="admin:s3cr3t@"), PATIENT)
    camera = watch(source)
    camera.more(5)
    server.kill()
    camera.until(lambda: source.report.errors)
    server.start()
    camera.more(5)
    camera.end()
    report, times = source.report, [frame.time for frame in camera.frames]
    assert report.reconnections == 1
    assert report.damaged
    assert report.sampled == len(times)
    assert times == sorted(set(times))
    assert abs(times[0] - datetime.now(UTC)) < timedelta(minutes=1)
    assert {frame.clock for frame in camera.frames} <= {Clock.RECEIVE, Clock.RTCP}
    assert all(frame.steady_s is not None for frame in camera.frames)
    assert camera.frames[-1].image.shape == (240, 320, 3)
    told = "".join(report.errors) + caplog.text + source.camera
    assert "s3cr3t" not in told
    assert "admin" not in told


def test_a_camera_that_was_away_for_five_seconds_is_asked_again_within_three():
    backoff, away_s = RtspSource("rtsp://127.0.0.1/a", PATIENT, "yard")._backoff, 0.0
    while away_s < 5:
        away_s += (pause_s := backoff.next_s("refused"))
    assert pause_s <= 3


@pytest.mark.parametrize(
    ("path", "user", "word"),
    [
        ("nowhere", "admin:s3cr3t@", "404"),
        ("stream", "admin:wr0ng@", "401"),
        (None, "u:s3cr3t@", "no answer within 2 s"),
    ],
)
def test_why_a_camera_cannot_be_opened_is_told_without_the_password(rtsp_server, watch, path, user, word):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rtsp://{user}127.0.0.1:{silent.getsockname()[1]}/a"
        if path:
            url = rtsp_server("admin", "s3cr3t").url(path, user=user)
        options = PATIENT if path else replace(PATIENT, open_timeout_s=2.0)
        source, began = open_source(url, options), time.monotonic()
        camera = watch(source)
        camera.until(lambda: source.report.errors)
        assert path or time.monotonic() - began > 1.8
        if path:
            time.sleep(1.5)
        else:
            source._options = PATIENT
            until(lambda: source.report.state is ConnectionState.CONNECTING)
        camera.end()
    assert camera.frames == []
    assert len(source.report.errors) <= 7  # it does not spin
    assert word in source.report.errors[0]
    assert user.rstrip("@").partition(":")[2] not in source.report.errors[0]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "no video by RTSP: check the port"),
        (b"RTSP/1.0 503 Service Unavailable\r\nCSeq: 1\r\n\r\n", "a fault of its own"),
    ],
)
def test_what_is_no_camera_or_has_a_fault_is_named(answer, words):
    with raw_server(answer) as address, pytest.raises(SourceError, match=words):
        open_camera(address.replace("http", "rtsp"), PATIENT)


def test_a_camera_that_is_away_fills_no_memory_and_no_file_descriptors(monkeypatch, watch, caplog):
    tries = itertools.count()

    def opened(*arguments):
        next(tries)
        return open_camera(*arguments)

    monkeypatch.setattr(rtsp, "open_camera", opened)
    monkeypatch.setattr(rtsp, "BACKOFF_S", (0.001, 0.001))
    with socket.socket() as probe:  # bound, but nobody listens
        probe.bind(("127.0.0.1", 0))
        source = open_source(f"rtsp://127.0.0.1:{probe.getsockname()[1]}/a", PATIENT)
        camera, held = watch(source), []
        for number in (200, 700):
            camera.until(lambda number=number: next(tries) > number)
            tracemalloc.start()
            gc.collect()
            held.append((tracemalloc.get_traced_memory()[0], files_open(), len(source.report.errors)))
        tracemalloc.stop()
        camera.end()
    assert held[1][0] - held[0][0] < 100_000
    assert abs(held[1][1] - held[0][1]) <= 2  # one try may be under way
    assert held[1][2] == ERRORS_KEPT
    assert "refused" in source.report.errors[0]
    assert len(caplog.records) == 1  # told once


@pytest.mark.parametrize("part", ["yard", "yard: sub-stream"])
@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_what_ends_a_reading_thread_reaches_who_reads(rtsp_server, monkeypatch, error, part):
    def broken(*_):
        raise error("rtsp://me:s3cr3t@127.0.0.1/a: a bug")

    screen = None
    if part == "yard":
        monkeypatch.setattr(rtsp, "open_camera", broken)
    else:
        screen = Screen(RecordedSource(part, broken, None))
    url = rtsp_server().url("still") if screen else "rtsp://127.0.0.1/a"
    with RtspSource(url, PATIENT, "yard", screen=screen) as source:
        silent = threading.Timer(LIMIT_S, source.close)
        silent.start()
        with pytest.raises(SourceError, match=f"{part}: {error.__name__}: .*a bug") as caught:
            list(source)
        silent.cancel()
    assert "s3cr3t" not in str(caught.value)


def test_few_frames_lie_in_the_decoders_memory_and_further_ones_are_copied(tmp_path):
    moving = (np.roll(np.arange(128 * 160 * 3, dtype=np.uint8).reshape(128, 160, 3), n, 1) for n in range(30))
    path = encode(tmp_path / "film.mp4", "libx264", 0, moving, gop=30)
    source = RtspSource("rtsp://nowhere/1", SourceOptions(), "yard")
    held, are_copied = list[Frame](), list[bool]()

    def hand_out(frame: av.VideoFrame) -> None:
        place = frame.planes[0].buffer_ptr
        source._hand_out(frame, datetime.now(UTC))
        are_copied.append(frame.planes[0].buffer_ptr != place)
        held.append(source._frames.get_nowait())

    with closing(open_container(path)) as container:
        frames = container.decode(video_stream(container))
        for frame in islice(frames, LENT + 3):
            hand_out(frame)
        assert are_copied == [False] * LENT + [True] * 3
        del held[:2]
        for frame in islice(frames, 3):
            hand_out(frame)
        assert are_copied[-3:] == [False, False, True]


def fresh(frames):
    """Whether frames are in the order of their time, and none is from another time than now."""
    times = [frame.time for frame in frames]
    return times == sorted(set(times)) and all(
        abs(datetime.now(UTC) - moment) < timedelta(seconds=40) for moment in times
    )


def test_states_from_connecting_over_stalled_and_backing_off_to_streaming(rtsp_server, watch, monkeypatch):
    entered, enter = list[ConnectionState](), Connection.enter
    monkeypatch.setattr(Connection, "enter", lambda self, state: (entered.append(state), enter(self, state)))
    server = rtsp_server()
    source = open_source(server.url(), replace(EVERY, stall_timeout_s=4.0), "yard")
    assert source.report.state is ConnectionState.CONNECTING
    camera = watch(source)
    camera.more(3)
    server.freeze()
    camera.until(lambda: source.report.state is ConnectionState.STALLED)
    assert source.report.errors == ()  # it is shown before the connection is given up
    camera.until(lambda: source.report.state is ConnectionState.CONNECTING)
    server.thaw()
    assert fresh(camera.more(3))
    assert "silent for 4 s" in source.report.errors[0]  # at the first time-out
    assert [state.value for state, _ in groupby(entered)] == [
        *("connecting", "streaming", "backing off", "connecting", "streaming")
    ]


def test_another_resolution_and_rate_in_mid_stream(rtsp_server, watch):
    server = rtsp_server()
    source = open_source(server.url(), EVERY)
    camera = watch(source)
    camera.more(3)
    server.tell("caps 640 360 15")
    camera.until(lambda: camera.frames[-1].image.shape == (360, 640, 3))
    assert camera.frames[-1].luma.shape == (270, 480)
    server.tell("caps 640 360 5")
    slow = camera.more(8)[3:]
    gaps = [(b.time - a.time).total_seconds() for a, b in pairwise(slow)]
    assert max(gaps) > 0.15  # 0.2 s, from the time stamps
    assert source.report.reconnections == 0
    assert source.report.errors == ()
    assert {frame.image.shape for frame in camera.frames} == {(240, 320, 3), (360, 640, 3)}
    assert fresh(camera.frames)


def test_another_codec_in_mid_stream(rtsp_server, watch):
    server = rtsp_server()
    source = open_source(server.url(), EVERY)
    camera = watch(source)
    camera.more(3)
    server.tell("codec h265")
    camera.until(lambda: source.report.reconnections)
    assert fresh(camera.more(3))
    assert camera.frames[-1].image.shape == (240, 320, 3)


@pytest.mark.parametrize("path", ["stream", "bframes", "h265"])
def test_time_stamps_that_jump(rtsp_server, rtsp_relay, watch, path):
    relay = rtsp_relay(rtsp_server())
    source = open_source(relay.url(path), EVERY)
    camera = watch(source)
    stamps = [frame.pts for frame in camera.more(10)]
    assert stamps == sorted(set(stamps))
    for seconds in (30, -30, -4000):
        relay.stamp_shift += seconds * 90_000
        camera.more(8)
    assert fresh(camera.frames)
    assert source.report.reconnections == 0
    assert source.report.errors == ()


@pytest.mark.parametrize(("loss", "lost"), [(0.01, 1), (0.1, 6)])
def test_few_smeared_frames_are_handed_out_when_packets_are_lost(
    rtsp_server, rtsp_relay, watch, clean, loss, lost
):
    server = rtsp_server()
    relay = rtsp_relay(server, seed=2302)  # its losses come early
    everything = clean(server.url())
    source = open_source(relay.url(), EVERY)
    camera = watch(source)
    camera.more(2)
    relay.loss = loss
    # Of few lost packets none may be a part of a picture: only that is noticed.
    camera.until(lambda: relay.lost >= lost and (loss < 0.1 or source.report.corrupt))
    relay.loss = 0.0
    camera.more(40)  # past a keyframe
    camera.end()
    camera.until(lambda: everything.holds(camera.frames[:1] + camera.frames[-1:]))  # clean again
    smeared = [frame for frame in camera.frames if not everything.holds([frame])]
    # Of a frame that is lost as a whole libav says nothing in H.264: what leans on it is handed out.
    assert len(smeared) <= 0.5 * len(camera.frames)
    assert source.report.reconnections == 0
