"""What cameras and networks do wrong, against a real server and a relay that loses and forges packets."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise

import pytest

from pipeline.sources import ConnectionState, SourceOptions, open_source
from pipeline.sources.rtsp import Connection

PATIENT = SourceOptions(sample_hz=30, open_timeout_s=60.0, stall_timeout_s=60.0)


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
    source = open_source(server.url(), replace(PATIENT, stall_timeout_s=4.0), "yard")
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
    source = open_source(server.url(), PATIENT)
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
    source = open_source(server.url(), PATIENT)
    camera = watch(source)
    camera.more(3)
    server.tell("codec h265")
    camera.until(lambda: source.report.reconnections)
    assert fresh(camera.more(3))
    assert camera.frames[-1].image.shape == (240, 320, 3)


@pytest.mark.parametrize("path", ["stream", "bframes", "h265"])
def test_time_stamps_that_jump(rtsp_server, rtsp_relay, watch, path):
    relay = rtsp_relay(rtsp_server())
    source = open_source(relay.url(path), PATIENT)
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
    source = open_source(relay.url(), PATIENT)
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
