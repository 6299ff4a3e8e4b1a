"""Which files are one camera, and what each camera is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.replay.inputs import find_footage
from pipeline.record import RecordError, check_camera
from pipeline.sources import SourceError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def cameras(*places: object, camera: str | None = None) -> dict[str, list[str]]:
    found = find_footage([str(place) for place in places], camera)
    return {each.camera: [path.name for path in each.paths] for each in found}


def test_every_video_is_a_camera_and_named_once(tmp_path: Path) -> None:
    touch(tmp_path, "b.mp4", "a 1.AVI", "notes.txt", "sub/c.mkv")
    assert cameras(tmp_path) == {"a_1": ["a 1.AVI"], "b": ["b.mp4"], "c": ["c.mkv"]}
    assert cameras(tmp_path / "b.mp4", tmp_path, tmp_path / "*.mp4")["b"] == ["b.mp4"]


def test_namesakes_are_told_apart(tmp_path: Path) -> None:
    touch(tmp_path, "hall/cam.mp4", "yard/cam.mp4", "x/y/cam.mp4", "z/y/cam.mp4")
    assert list(cameras(tmp_path)) == ["hall_cam", "y_cam", "yard_cam", "y_cam_2"]


def test_scenes_of_virat_are_cameras(tmp_path: Path) -> None:
    names = ["VIRAT_S_010204_05_000856_000890.mp4", "VIRAT_S_010204_07_001000_001036.mp4"]
    touch(tmp_path, *names, "VIRAT_S_000001_00_000000_000010.mp4")
    found = cameras(tmp_path)
    assert found["VIRAT_S_0102"] == names
    assert len(found) == 2


def test_names_with_a_time_stamp_are_cameras_by_the_rest(tmp_path: Path) -> None:
    names = ["625_201708101101.mp4", "625_201708101116.mp4", "626_2017-08-10_11-01-30.mp4"]
    touch(tmp_path, *names, "yard/20170810T110100Z.mp4", "yard/20170810T111600Z.mp4", "clip_123456789012.mp4")
    assert cameras(tmp_path) == {
        "625": names[:2],
        "626": names[2:],
        "clip_123456789012": ["clip_123456789012.mp4"],
        "yard": ["20170810T110100Z.mp4", "20170810T111600Z.mp4"],
    }


def test_a_name_makes_segments_of_all(tmp_path: Path) -> None:
    touch(tmp_path, "day10.mp4", "day9.mp4")
    assert cameras(tmp_path, camera="gate") == {"gate": ["day9.mp4", "day10.mp4"]}
    with pytest.raises(RecordError):
        cameras(tmp_path, camera="../gate")


def test_stills_are_one_camera(tmp_path: Path) -> None:
    touch(tmp_path, "lot/2.jpg", "lot/10.jpg")
    assert cameras(tmp_path / "lot") == {"lot": ["2.jpg", "10.jpg"]}


def test_odd_names_become_names(tmp_path: Path) -> None:
    touch(tmp_path, "-_.mp4", "Überwachung.mp4", "x" * 100 + ".mp4")
    for name in cameras(tmp_path):
        check_camera(name)


def test_a_camera_is_no_footage_and_its_password_not_shown() -> None:
    with pytest.raises(SourceError, match="narrated run") as caught:
        cameras("rtsp://me:hunter2@host/s")
    assert "hunter2" not in str(caught.value)


def test_nothing_found_is_an_error_and_an_absent_file_is_left_to_its_opening(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "*.mp4"):
        with pytest.raises(SourceError):
            cameras(place)
    assert cameras(tmp_path / "absent.mp4") == {"absent": ["absent.mp4"]}
