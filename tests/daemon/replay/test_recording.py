"""A recording of a live stream, made as `ffmpeg -c copy` makes it, against what was narrated live."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import av
import pytest
from running_daemon import until

from pipeline.journal import read_camera

SEGMENT_S = 12.0
VISITS = 5


@contextmanager
def recording(url: str, folder: Path) -> Iterator[None]:
    """Copies packets into files of some seconds named by the time, as docs/operations.md has ffmpeg do it."""
    stop, began = threading.Event(), threading.Event()
    folder.mkdir()

    def copy() -> None:
        with av.open(url, options={"rtsp_transport": "tcp"}) as source:
            stream, target, offset, due, last = source.streams.video[0], None, 0, 0.0, -1
            for packet in source.demux(stream):
                if packet.dts is None or packet.pts is None or packet.dts <= last:
                    continue
                last = packet.dts
                if packet.is_keyframe and (target is None or time.monotonic() > due):
                    if target is not None:
                        target.close()
                    path = folder / f"room-{datetime.now(UTC):%Y%m%dT%H%M%S}.mp4"
                    target, due = av.open(str(path), "w"), time.monotonic() + SEGMENT_S
                    copied, offset = target.add_stream_from_template(stream), packet.dts
                    began.set()
                if target is not None:
                    packet.pts, packet.dts = packet.pts - offset, packet.dts - offset
                    packet.stream = copied
                    target.mux(packet)
                if stop.is_set():
                    break
            target.close()

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        assert began.wait(60)
        yield
    finally:
        stop.set()
        thread.join(30)


@pytest.mark.logs_errors
def test_at_least_nine_of_ten_events_agree_and_the_rest_is_named(
    start: Callable[..., Any],
    narrated: Callable[..., Any],
    rtsp_server: Callable[..., Any],
    free_port: int,
    tmp_path: Path,
) -> None:
    server, url = rtsp_server(free_port), f"rtsp://127.0.0.1:{free_port}/still"

    def show(command: str) -> None:
        server.stdin.write(command.encode() + b"\n")
        server.stdin.flush()
        assert server.stdout.readline() == b"done\n"

    with recording(url, tmp_path / "recorded"):
        pairs = "{sample: 2/s, lower: 20, upper: 250}"
        process = start(f"  room: {{url: '{url}', pairs: {pairs}}}\n")
        log = process._files[1]
        until(process, lambda: "room: streaming" in log.read_text(), 120)
        time.sleep(4)
        for _ in range(VISITS):
            for command in ("move", "rest"):
                show(command)
                time.sleep(8)
        journal = tmp_path / "state" / "journal"
        until(process, lambda: len(list(read_camera(journal, "room"))) >= VISITS, 60)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    footage = sorted((tmp_path / "recorded").glob("*.mp4"))
    assert len(footage) > 2
    config = ["-c", tmp_path / "narrated.yaml", "--camera", "room", "--limits"]
    done = narrated("replay", *footage, *config, "--out", tmp_path / "again")
    assert done.code == 0, done.err
    compared = narrated("verify", journal / "room.jsonl", "--against", tmp_path / "again")
    agreed, events = map(
        int, re.search(r"of the others (\d+) of (\d+) events agree within 5 s", compared.out).groups()
    )
    assert events >= VISITS
    assert agreed >= 0.9 * events, compared.out + compared.err
    named = [line for line in compared.err.splitlines() if "only in" in line]
    assert (compared.code == 0) == (not named)
