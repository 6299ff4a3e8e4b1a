"""Who hangs: by real progress, not by being alive."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.config.plan import CameraPlan
from daemon.service.health import Health
from daemon.threads import camera_thread
from daemon.threads.cameras import Cameras
from daemon.threads.narrator import Narrator
from daemon.threads.narrator_thread import LOOP, NarratorThread
from daemon.threads.publication import Publishing
from daemon.threads.work_queue import WorkQueue
from models.captioner import Captioner
from pipeline.journal import Journal
from pipeline.loop import Heartbeats
from pipeline.record import Record
from pipeline.sources import SourceOptions


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def health_of(cameras: Cameras, clock: Callable[[], float] = time.monotonic) -> Health:
    return Health(cameras, {}, Publishing({}, None), Heartbeats(clock))


def test_a_loop_is_overdue_after_what_its_last_beat_allowed() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    heartbeats.beat("a", 5)
    heartbeats.beat("b", 50)
    clock.now += 6
    assert heartbeats.overdue() == {"a": 6}
    heartbeats.beat("a", 5)
    assert heartbeats.overdue() == {}
    clock.now += 60
    heartbeats.forget("a")
    assert heartbeats.ages_s() == {"b": 66}


def test_a_narrator_that_hangs_is_noticed_and_not_waited_for(
    captioner: Captioner, clip: Path, tmp_path: Path
) -> None:
    plan, clock = CameraPlan("room", str(clip), tracked=False), Clock()
    free, reached = threading.Event(), threading.Event()
    queue = WorkQueue([plan.name], capacity=8)
    cameras = Cameras([plan], queue)
    health = health_of(cameras, clock)

    def hang(_: Record) -> None:
        reached.set()
        free.wait(60)

    with Journal(tmp_path / "journal", plan.name) as journal:
        narrator = Narrator(captioner, [plan], {plan.name: journal}, live=True)
        thread = NarratorThread(narrator, queue, health.heartbeats, hang)
        cameras.start()
        thread.loop.start()
        assert reached.wait(60)
        clock.now += 600
        assert set(health.stuck()) == {LOOP}
        told = health.liveness()
        assert (told["ok"], told["hanging"]) == (False, [LOOP])
        queue.close()
        began = time.monotonic()
        assert not thread.finish(began + 0.3)
        assert time.monotonic() - began < 5
        free.set()
        assert thread.finish(time.monotonic() + 30)
        assert not health.stuck()
    cameras.stop()
    assert cameras.join(time.monotonic() + 10)


@pytest.mark.parametrize("screened", [False, True])
def test_a_reader_that_hangs_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, screened: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        url = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/s"
        options = SourceOptions(open_timeout_s=5.0)
        plan = CameraPlan("yard", url, options, screening=url if screened else None, lower=20, upper=250)
        cameras = Cameras([plan], WorkQueue(["yard"], 8))
        health = health_of(cameras)
        cameras.start()
        waiting, _ = silent.accept()  # for an answer
        assert health.liveness()["ok"]
        assert not health.stuck()  # its own time-out has not run out
        monkeypatch.setattr(camera_thread.CameraThread, "_longest_wait_s", 0.0)  # as if it had
        end = time.monotonic() + 10
        while "camera yard" not in health.stuck():
            assert time.monotonic() < end
            time.sleep(0.02)
        waiting.close()
        cameras.stop()
        cameras.join(time.monotonic() + 10)
