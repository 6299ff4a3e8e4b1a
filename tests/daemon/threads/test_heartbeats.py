"""Who hangs: by real progress, not by being alive."""

import socket
import time
from types import SimpleNamespace

import pytest
from waiting import LIMIT_S, until

from daemon.config.plan import CameraPlan
from daemon.service.health import Health
from daemon.threads.cameras import Cameras
from daemon.threads.work_queue import WorkQueue
from pipeline.loop import Heartbeats
from pipeline.sources import SourceOptions


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("screened", [False, True])
def test_a_reader_that_hangs_is_noticed(screened):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/s"
        options = SourceOptions(open_timeout_s=30.0)
        plan = CameraPlan("yard", url, options, screening=url if screened else None, lower=20, upper=250)
        clock = Clock()
        heartbeats = Heartbeats(clock)
        cameras = Cameras([plan], WorkQueue(["yard"], 8), heartbeats)
        daemon = SimpleNamespace(cameras=cameras, journals={})
        health = Health(daemon, heartbeats)  # type: ignore[arg-type]
        cameras.start()
        readers = {"rtsp yard", *(["rtsp yard: sub-stream"] if screened else [])}
        until(lambda: readers <= heartbeats.ages_s().keys())
        assert health.liveness()[1]["ok"]  # their own time-outs have not run out
        clock.now += 100  # as if they had
        assert set(health.liveness()[1]["hanging"]) == readers
        cameras.stop()
    cameras.join(time.monotonic() + LIMIT_S)


def test_a_camera_that_streams_for_hours_is_never_overdue(rtsp_server, free_port):
    rtsp_server(port=free_port)
    clock = Clock()
    heartbeats = Heartbeats(clock)
    plan = CameraPlan("yard", f"rtsp://127.0.0.1:{free_port}/stream", lower=20, upper=250)
    cameras = Cameras([plan], WorkQueue(["yard"], 8), heartbeats)
    cameras.start()
    until(lambda: cameras.threads["yard"].is_watching)
    for _ in range(3):
        clock.now += 3600
        until(lambda: heartbeats.ages_s()["rtsp yard"] == heartbeats.ages_s()["camera yard"] == 0)
        assert not heartbeats.overdue()
    cameras.stop()
    assert cameras.join(time.monotonic() + LIMIT_S)
