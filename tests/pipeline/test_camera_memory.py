"""What a camera keeps on disk comes back, or nothing does."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipeline import camera_state
from pipeline.camera_state import CameraMemory
from pipeline.narration.narration import FrameStamp
from pipeline.tracking.tracks import LastSeen

TRACKS = {"version": 1, "tracks": []}
SEEN = FrameStamp(datetime(2024, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC), 4711, "a" * 64)


def test_the_last_frame_comes_back(tmp_path):
    path = tmp_path / "cameras" / "yard.json"
    assert CameraMemory(path).seen is None
    memory = CameraMemory(path)
    memory.present = [LastSeen("a", "person", (0.1, 0.2, 0.3, 0.4), 1.5, False)]
    memory.save(SEEN, TRACKS)
    again = CameraMemory(path)
    assert (again.seen, again.tracks) == (SEEN, TRACKS)
    assert again.present[0][3:] == (1.5, False)
    assert again.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.stat().st_mode & 0o007 == 0  # as private as the journals


def test_the_monotonic_clock_counts_until_a_reboot(tmp_path, monkeypatch):
    path, boot = tmp_path / "yard.json", tmp_path / "boot_id"
    boot.write_text("one")
    monkeypatch.setattr(camera_state, "_BOOT_ID", boot)
    CameraMemory(path).save(replace(SEEN, steady_s=60.5), TRACKS)
    kept = []
    for boot_id in ("one", "two"):
        boot.write_text(boot_id)
        seen = CameraMemory(path).seen
        kept.append(seen.steady_s if seen else "nothing")
    assert kept == [60.5, None]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"narrated-camera/1": {}}', '{"narrated-camera/2": {}}']
)
def test_a_damaged_file_is_no_memory(tmp_path, content):
    path = tmp_path / "yard.json"
    path.write_text(content)
    assert CameraMemory(path).seen is None
    CameraMemory(path).save(SEEN, TRACKS)
    assert CameraMemory(path).seen == SEEN


@pytest.mark.parametrize("minutes", [5, [5], [None], [{"entered vehicle": "many"}]])
def test_damaged_counts_are_no_memory(tmp_path, minutes):
    path = tmp_path / "yard.json"
    memory = CameraMemory(path)
    memory.minutes = minutes
    memory.save(SEEN, TRACKS)
    assert not CameraMemory(path).sha256


@pytest.mark.logs_errors
def test_a_disk_that_fails_costs_only_the_memory(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(camera_state, "_BOOT_ID", tmp_path)  # no file, as where too many are open
    CameraMemory(tmp_path / "yard.json").save(replace(SEEN, steady_s=60.5), TRACKS)
    caplog.clear()
    (tmp_path / "file").write_text("")
    memory = CameraMemory(tmp_path / "file" / "yard.json")
    memory.save(SEEN, TRACKS)
    memory.save(SEEN, TRACKS)
    assert len(caplog.records) == 2  # one of reading, one of writing
