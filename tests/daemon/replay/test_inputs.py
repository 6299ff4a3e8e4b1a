"""Which files are one camera, and what each camera is called."""

from pathlib import Path

import pytest

from daemon.replay.files import find_footage
from pipeline.record import check_camera
from pipeline.record_format import RecordError
from pipeline.sources import SourceError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def cameras(*places: object, camera: str | None = None) -> dict[str, list[str]]:
    found = find_footage([str(place) for place in places], camera)
    return {each.camera: [path.name for path in each.paths] for each in found}


def test_a_name_makes_segments_of_all(tmp_path):
    touch(tmp_path, "day10.mp4", "day9.mp4")
    assert cameras(tmp_path, camera="gate") == {"gate": ["day9.mp4", "day10.mp4"]}
    with pytest.raises(RecordError):
        cameras(tmp_path, camera="../gate")


def test_odd_names_become_names(tmp_path):
    touch(tmp_path, "-_.mp4", "Überwachung.mp4", "x" * 100 + ".mp4")
    for name in cameras(tmp_path):
        check_camera(name)


def test_a_camera_is_no_footage_and_its_password_not_shown():
    with pytest.raises(SourceError, match="narrated run") as caught:
        cameras("rtsp://me:hunter2@host/s")
    assert "hunter2" not in str(caught.value)


def test_nothing_found_is_an_error_and_an_absent_file_is_left_to_its_opening(tmp_path, monkeypatch):
    for place in (tmp_path, tmp_path / "*.mp4"):
        with pytest.raises(SourceError):
            cameras(place)
    assert cameras(tmp_path / "absent.mp4") == {"absent": ["absent.mp4"]}
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "mine.mp4")
    with pytest.raises(SourceError, match="empty path"):  # not all that is in the working directory
        cameras("")


@pytest.mark.parametrize(
    "files",
    [
        {"a_1": ["a 1.AVI"], "b": ["b.mp4"], "c": ["sub/c.mkv"], None: ["notes.txt"]},
        {
            "hall_cam": ["hall/cam.mp4"],
            "y_cam": ["x/y/cam.mp4"],
            "yard_cam": ["yard/cam.mp4"],
            "y_cam_2": ["z/y/cam.mp4"],
        },
        {
            "625": ["625_201708101101.mp4", "625_201708101116.mp4"],
            "626": ["626_2017-08-10_11-01-30.mp4"],
            "clip_123456789012": ["clip_123456789012.mp4"],
            "yard": ["yard/20170810T110100Z.mp4", "yard/20170810T111600Z.mp4"],
        },
        {"lot": ["lot/2.jpg", "lot/10.jpg"]},
    ],
    ids=["each video", "namesakes", "time stamps", "stills"],
)
def test_which_files_are_one_camera(tmp_path, files):
    touch(tmp_path, *(name for names in files.values() for name in names))
    expected = {c: [Path(name).name for name in names] for c, names in files.items() if c}
    place = tmp_path / "lot" if "lot" in files else tmp_path
    assert cameras(place) == expected
    assert cameras(place, place / "**" / "*.[mj]p*") == expected  # each is named once
