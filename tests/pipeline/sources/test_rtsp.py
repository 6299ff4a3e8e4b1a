"""RTSP cameras, against GStreamer's server."""

from __future__ import annotations

import gc
import itertools
import logging
import socket
import threading
import time
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.sources import Clock, SourceError, SourceOptions, open_source, rtsp
from pipeline.sources.frame import ERRORS_KEPT
from pipeline.sources.rtsp import RtspSource, open_camera

QUICK = SourceOptions(sample_hz=10, open_timeout_s=2.0, stall_timeout_s=2.0)


def read_in_thread(source):
    """Iterates in a thread, as the daemon does; the list grows as frames come."""
    frames = []

    def collect():
        for frame in source:
            frames.append(frame)  # noqa: PERF402 - they are looked at while they come

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    return frames, thread


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def first_error(url, options=QUICK, seconds=6.0):
    """The first interruption that the report tells, and how long it took."""
    with open_source(url, options) as source:
        began = time.monotonic()
        frames, thread = read_in_thread(source)
        assert wait_for(lambda: source.report.errors, seconds)
        took = time.monotonic() - began
        source.close()
        thread.join(1.0)
        assert not thread.is_alive()
        assert frames == []
        return source.report.errors[0], took


def files_open():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_frames_again_after_the_server_is_killed_and_started(rtsp_server, caplog):
    server = rtsp_server("admin", "s3cr3t")
    url = server.url(user="admin:s3cr3t@")
    with open_source(url, QUICK) as source:
        frames, thread = read_in_thread(source)
        assert wait_for(lambda: len(frames) >= 5, 120)
        away_s = []

        def more(count, before):
            return wait_for(lambda: len(frames) >= before + count, 120)

        while min(away_s, default=4) > 3 and len(away_s) < 3:  # a busy machine gets another chance
            server.kill()
            assert wait_for(lambda: len(source.report.errors) > len(away_s), 60)
            server.start()
            before, began = len(frames), time.monotonic()
            assert more(1, before)
            away_s.append(time.monotonic() - began)
            assert more(5, before)
        assert min(away_s) <= 3  # frames again within 3 s of the server's return
        assert thread.is_alive()
        source.close()
        thread.join(1.5)
        assert not thread.is_alive()
    report = source.report
    assert report.reconnections == len(away_s)
    assert report.damaged
    assert report.sampled == len(frames)
    times = [f.time for f in frames]
    assert times == sorted(set(times))
    assert abs(times[0] - datetime.now(UTC)) < timedelta(minutes=1)
    assert {f.clock for f in frames} <= {Clock.RECEIVE, Clock.RTCP}
    assert all(frame.steady_s is not None for frame in frames)
    assert frames[-1].image.shape == (240, 320, 3)
    told = "".join(report.errors) + caplog.text + source.camera
    assert "s3cr3t" not in told
    assert "admin" not in told


def test_wrong_path_and_wrong_password_are_told_without_the_password(rtsp_server):
    server = rtsp_server("admin", "s3cr3t")
    error, _ = first_error(server.url("nowhere", user="admin:s3cr3t@"))
    assert "404" in error
    assert "s3cr3t" not in error
    error, _ = first_error(server.url(user="admin:wr0ng@"))
    assert "401" in error
    assert "wr0ng" not in error


def test_a_silent_host_is_given_up_after_the_time_out():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rtsp://u:pw@127.0.0.1:{silent.getsockname()[1]}/a"
        error, took = first_error(url, replace(QUICK, open_timeout_s=1.0))
    assert "no answer within 1 s" in error
    assert 0.8 < took < 15


def test_refusal_does_not_spin_and_is_told_once(caplog):
    with socket.socket() as probe:  # bound, but nobody listens
        probe.bind(("127.0.0.1", 0))
        caplog.set_level(logging.WARNING)
        with open_source(f"rtsp://127.0.0.1:{probe.getsockname()[1]}/a", QUICK) as source:
            _, thread = read_in_thread(source)
            time.sleep(1.5)
            source.close()
            thread.join(1.0)
    assert 2 <= len(source.report.errors) <= 5
    assert "refused" in source.report.errors[0]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_what_ends_the_reading_thread_reaches_who_reads(monkeypatch, error):
    def broken(*_):
        raise error("rtsp://me:s3cr3t@127.0.0.1/a: a bug")

    monkeypatch.setattr(rtsp, "open_camera", broken)
    with open_source("rtsp://127.0.0.1/a", QUICK, "yard") as source:
        silent = threading.Timer(60, source.close)
        silent.start()
        with pytest.raises(SourceError, match=f"yard: {error.__name__}: .*a bug") as caught:
            next(iter(source))
        silent.cancel()
    assert "s3cr3t" not in str(caught.value)


def test_a_camera_that_is_away_fills_no_memory_and_no_file_descriptors(monkeypatch, caplog):
    caplog.set_level(logging.ERROR)
    tries = itertools.count()

    def opened(*arguments):
        next(tries)
        return open_camera(*arguments)

    monkeypatch.setattr(rtsp, "open_camera", opened)
    monkeypatch.setattr(rtsp, "BACKOFF_S", (0.001, 0.001))
    with socket.socket() as probe:  # bound, but nobody listens
        probe.bind(("127.0.0.1", 0))
        with open_source(f"rtsp://127.0.0.1:{probe.getsockname()[1]}/a", QUICK) as source:
            _, thread = read_in_thread(source)
            held = []
            for number in (200, 700):
                assert wait_for(lambda number=number: next(tries) > number, 120)
                tracemalloc.start()
                gc.collect()
                held.append((tracemalloc.get_traced_memory()[0], files_open(), len(source.report.errors)))
            tracemalloc.stop()
            source.close()
            thread.join(1.0)
    assert held[1][0] - held[0][0] < 100_000
    assert abs(held[1][1] - held[0][1]) <= 2  # one try may be under way
    assert held[1][2] == ERRORS_KEPT


def test_every_connection_is_closed_at_once(rtsp_server, monkeypatch):
    source = RtspSource(rtsp_server().url(), QUICK, "yard")
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


def test_five_frames_a_second_are_five(rtsp_server, watch):
    source = open_source(rtsp_server().url(), replace(QUICK, sample_hz=5.0), "yard")
    frames = watch(source).more(16)
    assert 15 / ((frames[-1].pts - frames[0].pts) / 90_000) == pytest.approx(5.0, rel=0.1)


def test_close_during_opening_ends_iteration_at_once():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/a"
        with open_source(url, SourceOptions(open_timeout_s=3.0)) as source:
            _, thread = read_in_thread(source)
            time.sleep(0.3)
            source.close()
            thread.join(1.0)
            assert not thread.is_alive()


def test_a_slow_reader_gets_the_newest_frames_and_the_rest_is_counted(rtsp_server):
    with open_source(rtsp_server().url(), QUICK) as source:
        frames = iter(source)
        next(frames)
        time.sleep(1.5)
        late = next(frames)
        assert source.report.dropped > 3
        assert datetime.now(UTC) - late.time < timedelta(seconds=1.2)
