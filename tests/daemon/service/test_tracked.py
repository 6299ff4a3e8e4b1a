"""`narrated run` with the shipped captioner on real footage by RTSP: who comes and goes, also over a kill."""

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import Any

import av
import pytest
from running_daemon import until

from pipeline.camera_state import BEGUN, CameraMemory
from pipeline.journal import read_journal
from pipeline.journal.verification import verify
from pipeline.publisher import subscribe
from pipeline.record import Record
from pipeline.settings import GAP_S, SEEN_S
from pipeline.tracking.tracks import DEPARTURES, ENTRANCES

pytestmark = [pytest.mark.footage, pytest.mark.slow]

CLIP = "intel_one-by-one-person-detection.mp4"  # ten frames, one keyframe a second; people come one at a time
BEFORE = ((16, 22), (23, 27), (34, 47), (50, 60))
"""Seconds of it: one leaves, a second enters and, after the note at `SEEN_S`, leaves; a third enters.

Whatever is missed on a slow machine is shown again: the film begins anew at its end."""
AFTER = ((66, 90),)
"""The third stands there and leaves; a fourth enters."""


def cut(clip: Path, parts: tuple[tuple[int, int], ...], path: Path) -> Path:
    """Seconds of a clip, one after the other, their packets as they are."""
    with av.open(str(clip)) as source, av.open(str(path), "w") as out:
        video = source.streams.video[0]
        stream = out.add_stream_from_template(video)
        packets = [packet for packet in source.demux(video) if packet.dts is not None]
        base, shift = video.time_base or Fraction(1), 0
        groups: list[list[av.Packet]] = []
        for packet in packets:
            groups += [[]] if packet.is_keyframe else []
            groups[-1].append(packet)
        for begin, end in parts:
            wanted = [g for g in groups if begin <= float((g[0].pts or 0) * base) < end]
            first = wanted[0][0].pts or 0
            for packet in (packet for group in wanted for packet in group):
                packet.pts, packet.dts = (packet.pts or 0) - first + shift, (packet.dts or 0) - first + shift
                packet.stream = stream
                out.mux(packet)
            shift += round((end - begin) / base)
    return path


def actions(records: list[Record], kinds: tuple[str, ...]) -> list[Any]:
    """The sentences about people that came, or went."""
    found = [s for r in records if r.event == "change" for s in r.sentences]
    return [s for s in found if s.action in kinds and s.object == "person"]


def have_come_and_gone(records: list[Record]) -> bool:
    return all(actions(records, kinds) for kinds in (ENTRANCES, DEPARTURES))


def seen(memory: Path) -> datetime:
    """Of when the newest frame is that the camera noted."""
    stamp = CameraMemory(memory).seen
    assert stamp
    return stamp.time


@pytest.fixture
def heard(server) -> Iterator[list[Record]]:
    """What is on the stream of the camera, as it comes."""
    records: list[Record] = []
    stop = Event()
    published = subscribe(server.url, ["table"], "0", stop)
    listener = Thread(target=lambda: records.extend(published))
    listener.start()
    yield records
    stop.set()
    listener.join()


def test_people_are_told_of_and_a_kill_repeats_nothing(forked, rtsp_server, server, heard, clips, tmp_path):
    camera, config = rtsp_server(), tmp_path / "narrated.yaml"
    config.write_text(
        f"version: 1\nstate: {tmp_path}/state\nredis: {{url: '{server.url}'}}\ncaptioner: {{device: cpu}}\n"
        f"cameras: {{table: {{url: '{camera.url('film')}', pairs: {{sample: 3/s}}}}}}\n"
        "rules: [{name: comes, when: a person comes}]\n"
    )

    def play(parts: tuple[tuple[int, int], ...]) -> Any:
        film = cut(clips / CLIP, parts, tmp_path / f"{parts[0][0]}.mp4")
        camera.tell(f"play {film}")
        return forked("run", "-c", config, OMP_NUM_THREADS="1")

    journal, memory = (tmp_path / "state" / name for name in ("journal/table.jsonl", "cameras/table.json"))
    first = play(BEFORE)
    until(first, lambda: memory.exists() and have_come_and_gone(heard))
    first.kill()
    first.wait()
    last_seen, before = seen(memory), list(read_journal(journal))
    second = play(AFTER)
    seen_again = until(second, lambda: (now := seen(memory)) > last_seen and now)
    until(second, lambda: have_come_and_gone(heard[len(before) :]))
    second.terminate()
    assert second.wait() == 0
    assert verify([journal]).ok
    records = list(read_journal(journal))
    after = records[len(before) :]

    for record in records:
        assert record.schema_ == "narrated/2"
        assert "Something has changed" not in record.text
        if record.event == "change":
            assert 0 < (record.rate_hz or 0) <= 3  # fewer on a machine that is too slow
            assert all(s.action and s.track for s in record.sentences)
    came, went = actions(after, ENTRANCES), actions(after, DEPARTURES)
    assert all(went[0].time < sentence.time for sentence in came)  # she stood there before the kill
    assert {s.track for s in came}.isdisjoint(s.track for r in before for s in r.sentences)
    assert {s.track for s in went}.isdisjoint(s.track for s in actions(before, DEPARTURES))
    begun = sha256((memory.parent / BEGUN / memory.name).read_bytes()).hexdigest()
    assert {r.state_sha256 for r in after if r.rate_hz} == {begun}  # a replay can begin with it as well
    assert "comes" in {record.rule.name for record in records if record.rule}
    is_told = any(record.reason == "outage" for record in after)
    assert is_told == ((seen_again - last_seen).total_seconds() >= GAP_S + SEEN_S)
