"""A recording of a live stream, made as `ffmpeg -c copy` makes it, against what was narrated live."""

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import av
import pytest
from running_daemon import until

from pipeline.journal import JournalError, read_camera

SEGMENT_S = 20.0
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
    start, narrated, rtsp_server, visited_clip, tmp_path
):
    camera, journal = rtsp_server(), tmp_path / "state" / "journal"
    camera.tell(f"play {visited_clip}")
    pairs, narrate = "{lower: 20, upper: 250}", "{merge: 0s, cooldown: 0s, max_per_hour: null}"
    process = start(f"  room: {{url: '{camera.url('film')}', pairs: {pairs}, narrate: {narrate}}}\n")
    until(process, lambda: "room: streaming" in process._files[1].read_text())
    with recording(camera.url("film"), tmp_path / "recorded"):
        until(process, lambda: events(journal) >= 2 * VISITS)
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    footage = sorted((tmp_path / "recorded").glob("*.mp4"))
    assert len(footage) > 2
    config = ["-c", tmp_path / "narrated.yaml", "--camera", "room", "--limits"]
    done = narrated("replay", *footage, *config, "--out", tmp_path / "again")
    assert done.code == 0, done.err
    compared = narrated("verify", journal / "room.jsonl", "--against", tmp_path / "again", "--json")
    found = json.loads(compared.out)
    same, named = found["same"]["room"], found["differences"]
    agreed, total = same["records"] + same["events"], same["records"] + same["of_events"]
    assert total >= 2 * VISITS
    assert agreed >= 0.9 * total, found
    assert len(named) >= total - agreed
    assert compared.code == bool(named)


def events(journal: Path) -> int:
    """How many sentences there are by now."""
    with suppress(JournalError):
        return sum(len(record.sentences) for record in read_camera(journal, "room"))
    return 0
