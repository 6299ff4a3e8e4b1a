"""`narrated run` on a disk of its own, which is full or read-only: a real camera, a real server, SIGKILL."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from narrations import narration
from running_daemon import page, until, unused_port

from daemon.config.settings import RetentionSettings
from daemon.threads import retention
from pipeline.evidence import EvidenceStore
from pipeline.journal import DAILY, Journal, read_camera
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
def disk(tmp_path) -> Iterator[Disk]:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("mounting a small disk needs root, unshare and nsenter")
    mounted = Disk(tmp_path / "state")
    yield mounted
    mounted.close()


def test_a_disk_that_takes_nothing(  # noqa: PLR0915 - one run costs less than three
    start, disk, still, server, rtsp_server, free_port, notify
):
    """Read-only from the start, full, and full when the daemon is killed: one run costs less than three."""
    rtsp_server(port=free_port)
    port = unused_port()
    settings = "pairs: {sample: 10/s, lower: 20, upper: 250}, narrate: {cooldown: 0s, max_per_hour: null}"
    cameras = f"  lot: {{url: {still}}}\n  ball: {{url: 'rtsp://127.0.0.1:{free_port}/stream', {settings}}}\n"
    http = f"http: {{listen: '127.0.0.1:{port}'}}\n"
    client = redis.Redis.from_url(server.url)
    client.delete(stream_key("ball"))

    def run(notified: Any = None) -> Any:
        return start(cameras, server.url, notified, more=http, first=disk.enter)

    def stream() -> list[Record]:
        entries: Any = client.xrange(stream_key("ball"))
        return [read_record(fields[b"json"]) for _, fields in entries]

    def health() -> dict[str, Any]:
        """What `/healthz` says; nothing is unwritten where it does not answer yet."""
        text = page(port, "/healthz")[1]
        return dict(json.loads(text)) if text else {"unwritten": {}}

    def holds(reason: str) -> bool:
        unwritten = str(health()["unwritten"].get("ball"))
        return unwritten.startswith(reason) and "; narrations held in memory: 2" in unwritten

    def reports(process: Any, more: int) -> None:
        have = len(stream())
        until(process, lambda: len(stream()) >= have + more)

    # What is open for writing keeps a disk from becoming read-only: so it is before the daemon starts.
    disk.remount("ro")
    process = run(notify)
    log = process._files[1].read_text
    until(process, lambda: holds("Read-only file system"))
    assert stream() == []  # there is no journal yet whose chain they could continue
    assert list(disk.path.iterdir()) == []
    disk.remount("rw")
    until(process, lambda: not health()["unwritten"])
    reports(process, 1)
    assert log().count("ball.jsonl is writable again") == 1

    disk.fill()
    until(process, lambda: holds("No space left on device"))
    assert health()["ok"]  # who restarts it for that would lose what is in memory
    process.send_signal(signal.SIGHUP)  # whereupon it tells systemd how it is
    notify.wait_for("not written: ball (No space left on device")
    assert len(re.findall("ball.jsonl cannot be used: .* are held in memory", log())) == 2
    disk.empty()
    until(process, lambda: log().count("ball.jsonl is writable again") == 2)
    # Those held in memory meanwhile have no pictures; those narrated since then have.
    until(process, lambda: stream()[-1].evidence is not None)

    disk.fill()
    until(process, lambda: health()["unwritten"])
    process.send_signal(signal.SIGKILL)
    process.wait(120)
    disk.empty()
    process = run()
    reports(process, 1)
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    verification = verify([disk.path / "journal"])
    assert verification.ok, verification.problems
    records = list(read_camera(disk.path / "journal", "ball"))
    assert [record.seq for record in records] == list(range(1, verification.lines + 1))
    assert records[: len(stream())] == stream()
    client.close()


@pytest.mark.logs_errors
def test_retention_frees_a_disk_that_is_full(disk, monkeypatch):
    monkeypatch.setattr(retention, "RESERVE_BYTES", 50_000)
    limits = RetentionSettings.model_construct(age=None, size=None, free=10**9)
    with Journal(disk.path / "journal", "yard", limits=DAILY, hold=99) as journal:
        for second in (0, 1, 86_400):
            journal.append(narration(second))
        journal.acknowledge(journal.end)
        looking = retention.Retention(limits, {"yard": journal}, EvidenceStore(disk.path / "evidence"))
        looking.run()
        disk.fill()
        while journal.append(narration(86_401)):
            pass
        for second in range(98):  # more than the reserve
            journal.append(narration(86_402 + second))
        looking.run()
        assert looking.segments["yard", "free"] == 1
        disk.empty()
        assert journal.flush()
    assert verify([disk.path / "journal"]).ok
