"""When a frame was taken: the camera's clock while it is sane, else this machine's."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import pytest

from pipeline.sources import Clock, SourceOptions, open_source
from pipeline.sources.times import SANE, TRUST_PACKETS, CaptureClock

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
TICK = Fraction(1, 90_000)
EVERY = SourceOptions(sample_hz=15, open_timeout_s=60.0, stall_timeout_s=60.0)


class Camera:
    """Packets at 15 a second, some way after they were taken, by a clock that may be wrong."""

    def __init__(self, behind_s=0.0, delay_s=0.05):
        self.clock = CaptureClock()
        self.behind_s, self.delay_s, self.number, self.stamp = behind_s, delay_s, 0, 0
        self.times = []

    def send(self, count=1, *, told=True, delay_s=None):
        """Packets and their frames; the times that were given, None for frames left out."""
        given = []
        for _ in range(count):
            taken = NOW + timedelta(seconds=self.number / 15)
            received = taken + timedelta(seconds=self.delay_s if delay_s is None else delay_s)
            if told:
                clock_us = round((taken.timestamp() - self.behind_s) * 1_000_000)
                self.clock.note_capture(clock_us, self.stamp, TICK, received)
            given.append(self.clock.time_of(self.stamp, TICK, received))
            self.number, self.stamp = self.number + 1, self.stamp + 6000
        self.times += [time for time in given if time]
        return given


@pytest.mark.parametrize("behind_s", [3600.0, -3600.0, 6.0, 4e9, -1e12])
def test_a_clock_that_is_far_off_is_not_believed(behind_s):
    camera = Camera(behind_s=behind_s)
    assert None not in camera.send(100)
    assert camera.clock.clock is Clock.RECEIVE


@pytest.mark.parametrize("stamp", [2**62, -(2**62)])
def test_a_stamp_from_nowhere_has_the_time_of_its_receipt(stamp):
    camera = Camera()
    camera.send(20)
    assert camera.clock.clock is Clock.RTCP
    received = NOW + timedelta(seconds=2)
    assert camera.clock.time_of(stamp, TICK, received) == received
    assert camera.clock.clock is Clock.RECEIVE


def test_a_camera_whose_clock_runs_back_is_given_up_until_it_is_steady():
    camera = Camera()
    camera.send(60)
    camera.behind_s = 1.5
    assert camera.send(1) == [camera.times[-1]]
    assert camera.clock.clock is Clock.RECEIVE
    camera.send(60)
    assert camera.clock.clock is Clock.RTCP
    assert camera.times == sorted(set(camera.times))


def test_the_cameras_own_clock_is_used_until_it_goes_wrong(rtsp_server, rtsp_relay, watch):
    relay = rtsp_relay(rtsp_server())
    source = open_source(relay.url(), EVERY, "yard")
    camera = watch(source)
    camera.until(lambda: camera.frames and camera.frames[-1].clock is Clock.RTCP)
    clocks = [frame.clock for frame in camera.frames]
    assert clocks[0] is Clock.RECEIVE
    assert clocks == sorted(clocks, key=lambda clock: clock is Clock.RTCP), "from the first report on"
    frame = camera.more(2)[1]
    assert frame.clock is Clock.RTCP
    assert abs(frame.time - datetime.now(UTC)) < SANE
    assert -SANE.total_seconds() < source.report.skew_s < 0.5
    steps = [b.time - a.time for a, b in pairwise(camera.more(8))]
    whole = [abs(step.total_seconds() * 30 % 1 - 0.5) > 0.45 for step in steps]
    assert (
        sum(whole) > len(steps) / 2
    )  # frame intervals, whatever the way took; a sender report may shift one
    relay.clock_shift_s = 3600.0
    camera.until(lambda: camera.frames[-1].clock is Clock.RECEIVE)
    camera.until(lambda: source.report.skew_s > 3500)
    assert abs(camera.more(1)[0].time - datetime.now(UTC)) < SANE


@pytest.mark.parametrize("behind_s", [0.0, 3.0, -3.0])
def test_receive_time_until_the_camera_has_told_its_own_for_a_while(behind_s):
    camera = Camera(behind_s=behind_s)
    camera.send(30, told=False)
    assert camera.clock.clock is Clock.RECEIVE
    assert camera.clock.skew_s is None
    camera.send(TRUST_PACKETS + 2 if not behind_s else 200)
    assert camera.clock.clock is Clock.RTCP
    assert camera.clock.skew_s == pytest.approx(-behind_s - 0.05, abs=0.001)
    assert camera.times == sorted(set(camera.times))
    if not behind_s:
        last = NOW + timedelta(seconds=46 / 15)
        assert camera.times[-1] == pytest.approx(last, abs=timedelta(milliseconds=1))
        camera.clock.connected()
        camera.stamp = 0
        camera.send(1, told=False)
        assert camera.clock.clock is Clock.RECEIVE
