"""`narrated run` on a disk of its own, which is full or read-only: a real camera, a real server, SIGKILL."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from embedded_redis import EmbeddedServer
from forked_commands import Forked
from running_daemon import page, unused_port

from pipeline.journal import read_camera
from pipeline.journal.verification import verify
from pipeline.publisher import stream_key
from pipeline.record import Record, read_record

SIZE = "size=2m"


class Disk:
    """A small disk, mounted where nobody but the daemon and this test sees it; it goes with its process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        mount = 'mount -t tmpfs -o "$2" none "$1" && echo mounted && exec cat'
        self._holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", mount, "sh", folder, SIZE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"mounted\n":
            pytest.skip(f"this machine lets nobody mount: {self._holder.communicate()[1].decode().strip()}")

    @property
    def _mounts(self) -> str:
        """The mounts among which it is."""
        return f"/proc/{self._holder.pid}/ns/mnt"

    @property
    def enter(self) -> str:
        """What a process does that shall see the disk."""
        mounts = f"os.open('{self._mounts}', os.O_RDONLY)"
        return f"import ctypes, os; assert not ctypes.CDLL(None).setns({mounts}, 0); os.chdir('/')"

    @property
    def path(self) -> Path:
        """The disk, as it is seen from outside."""
        return Path(f"/proc/{self._holder.pid}/root{self._folder}")

    def fill(self) -> None:
        with (self.path / "filler").open("wb", buffering=0) as file:
            for block in (4096, 1):
                try:
                    while file.write(bytes(block)):
                        pass
                except OSError:
                    continue

    def empty(self) -> None:
        (self.path / "filler").unlink()

    def remount(self, how: str) -> None:
        subprocess.run(
            ["nsenter", f"--mount={self._mounts}", "mount", "-o", f"remount,{how}", self._folder], check=True
        )

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("mounting a small disk needs root, unshare and nsenter")
    mounted = Disk(tmp_path / "state")
    yield mounted
    mounted.close()


class Narrated:
    """The daemon before a ball that never stops, told of several times a second; what it says is kept."""

    def __init__(
        self,
        forked: Callable[..., Forked],
        folder: Path,
        disk: Disk,
        checkpoint: Path,
        still: Path,
        camera: str,
        redis_url: str,
    ) -> None:
        self.port = unused_port()
        self._folder, self._disk, self._client = folder, disk, redis.Redis.from_url(redis_url)
        self._forked = forked
        self._process: Forked | None = None
        pairs = "{sample: 10/s, lower: 20, upper: 250}"
        narrate = "{merge: 0s, cooldown: 0s, max_per_hour: null}"
        (folder / "narrated.yaml").write_text(
            f"version: 1\nstate: {folder}/state\nredis: {{url: '{redis_url}'}}\n"
            f"http: {{listen: '127.0.0.1:{self.port}'}}\n"
            f"captioner: {{model: {checkpoint}, device: cpu}}\n"
            f"cameras:\n  lot: {{url: {still}}}\n"
            f"  ball: {{url: '{camera}', pairs: {pairs}, narrate: {narrate}}}\n"
        )

    def start(self) -> None:
        notify = str(self._folder / "notify")
        with (self._folder / "log").open("ab") as log:
            self._process = self._forked(
                *("run", "-c", self._folder / "narrated.yaml"),
                out=log.fileno(),
                err=log.fileno(),
                first=self._disk.enter,
                OMP_NUM_THREADS="1",
                NOTIFY_SOCKET=notify,
            )

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def stream(self) -> list[Record]:
        entries: Any = self._client.xrange(stream_key("ball"))
        return [read_record(fields[b"json"]) for _, fields in entries]

    def health(self) -> dict[str, Any]:
        """What `/healthz` says; nothing is unwritten where it does not answer yet."""
        text = page(self.port, "/healthz")[1]
        return dict(json.loads(text)) if text else {"unwritten": {}}

    def until(self, reached: Callable[[], object], limit_s: float = 300) -> None:
        end = time.monotonic() + limit_s
        while not reached():
            assert self._process is not None
            assert self._process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.1)

    def tells(self, more: int) -> None:
        """Waits until so many further narrations are on the stream."""
        have = len(self.stream())
        self.until(lambda: len(self.stream()) >= have + more)

    def reload(self) -> None:
        """Lets it read its configuration again, whereupon it tells systemd how it is."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(120)

    def close(self) -> None:
        self.end(signal.SIGKILL)
        self._client.close()


@pytest.fixture
def narrated_run(
    forked: Callable[..., Forked],
    tmp_path: Path,
    disk: Disk,
    checkpoint: Path,
    still: Path,
    server: EmbeddedServer,
    rtsp_server: Callable[..., Any],
    free_port: int,
) -> Iterator[Narrated]:
    rtsp_server(port=free_port)
    with redis.Redis.from_url(server.url) as client:
        client.delete(stream_key("ball"))
    running = Narrated(
        forked, tmp_path, disk, checkpoint, still, f"rtsp://127.0.0.1:{free_port}/stream", server.url
    )
    yield running
    running.close()


def test_a_disk_that_takes_nothing(disk: Disk, narrated_run: Narrated, notify: Any) -> None:
    """Read-only from the start, full, and full when the daemon is killed: one run costs less than three."""
    running = narrated_run

    # What is open for writing keeps a disk from becoming read-only: so it is before the daemon starts.
    disk.remount("ro")
    running.start()
    running.until(lambda: "ball.jsonl cannot be used" in running.log)
    running.until(lambda: "; narrations held in memory: 2" in str(running.health()["unwritten"].get("ball")))
    assert "Read-only file system" in running.health()["unwritten"]["ball"]
    assert running.stream() == []  # there is no journal yet whose chain they could continue
    assert list(disk.path.iterdir()) == []
    disk.remount("rw")
    running.until(lambda: not running.health()["unwritten"])
    running.tells(1)
    assert running.log.count("ball.jsonl is written again") == 1

    disk.fill()
    running.until(lambda: "; narrations held in memory: 2" in str(running.health()["unwritten"].get("ball")))
    health = running.health()
    assert health["ok"]  # who restarts it for that would lose what is in memory
    assert "No space left on device" in health["unwritten"]["ball"]
    assert "narrations held in memory" in health["unwritten"]["ball"]
    running.reload()
    notify.wait_for("not written: ball (No space left on device")
    assert len(re.findall("ball.jsonl cannot be used: .* are held in memory", running.log)) == 2
    disk.empty()
    running.until(lambda: not running.health()["unwritten"])
    running.until(lambda: running.log.count("ball.jsonl is written again") == 2)
    # Those held in memory meanwhile have no pictures; those narrated since then have.
    running.until(lambda: running.stream()[-1].evidence is not None)

    disk.fill()
    running.until(lambda: running.health()["unwritten"])
    running.end(signal.SIGKILL)
    disk.empty()
    running.start()
    running.tells(1)
    running.end()
    verification = verify([disk.path / "journal"])
    assert verification.ok, verification.problems
    assert list(read_camera(disk.path / "journal", "ball")) == running.stream()
    assert [record.seq for record in running.stream()] == list(range(1, verification.lines + 1))
