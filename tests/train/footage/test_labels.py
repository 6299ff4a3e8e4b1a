import gzip
import json
from dataclasses import replace
from pathlib import Path

import cv2
import pytest
from drawn_footage import Painted, clip, picture

import train.footage.labels
from train.footage.cameras import FootageError, cameras_in, sample_frames
from train.footage.labels import LabelOptions, avoided_times, label_frames, read_frames, read_source
from train.footage.teachers import TeacherFile, Teachers
from train.samples import SampleError


@pytest.fixture
def painted(monkeypatch) -> Painted:
    """Two teachers of drawn footage, one of them counted, in place of any file's."""
    seen = Painted()
    loaded = Teachers({"one": seen, "two": Painted()})
    monkeypatch.setattr(train.footage.labels, "teachers", lambda _files: loaded)
    return seen


@pytest.fixture
def options(tmp_path) -> LabelOptions:
    """A camera of two clips, one of a loose clip, one of stills."""
    clips = tmp_path / "clips"
    clip(clips / "gate" / "a.mp4", seconds=4)
    clip(clips / "gate" / "b.mp4", seconds=4, seed=6)
    clip(clips / "yard_0628.mp4", seconds=4, seed=7)
    picture(clips / "lot" / "1.png")
    picture(clips / "lot" / "2.jpg")
    teacher = tmp_path / "net.onnx"
    teacher.write_bytes(b"weights")
    return LabelOptions(clips, tmp_path / "frames", (TeacherFile(teacher),))


def test_every_camera_twice_a_second_and_all_stills(options, painted):
    report = label_frames(options)
    assert report.frames == {"gate": 16, "lot": 2, "yard": 8}
    assert report.notes == ()
    frames = read_frames(options.out)
    assert {f.camera: (f.width, f.height) for f in frames} == dict.fromkeys(report.frames, (256, 192))
    clip_frames = [f for f in frames if f.camera == "yard"]
    assert [f.seconds for f in clip_frames] == [n / 2 for n in range(8)]
    assert all(f.seconds is None for f in frames if f.camera == "lot")
    for frame in frames:
        assert cv2.imread(str(options.out / frame.image)).shape == (192, 256, 3)
        families = {vote.family for vote in frame.votes if vote.sure}
        assert families == ({"vehicle"} if frame.camera == "lot" else {"person", "vehicle"})
    (car,) = [v for v in frames[-1].votes if v.family == "vehicle"]
    assert (car.kinds, car.detectors) == ((("car", 1.0),), 2)
    source = read_source(options.out, "gate")
    assert set(source["made_of"]["files"]) == {"a.mp4", "b.mp4"}
    assert [len(t["sha256"]) for t in source["made_of"]["teachers"]] == [64]
    assert source["stated"] is None


def test_a_second_run_asks_nobody_but_for_a_cache_that_is_cut(options, painted):
    label_frames(options)
    frames, labels = options.out / "frames.jsonl", options.out / "labels" / "gate.jsonl.gz"
    asked, lines, content = painted.asked, frames.read_bytes(), labels.read_bytes()
    assert sum(label_frames(options).frames.values()) == 0
    frames.unlink()
    label_frames(options)
    assert (painted.asked, frames.read_bytes()) == (asked, lines)
    labels.write_bytes(content[: len(content) // 2])
    frames.unlink()
    label_frames(options)
    assert painted.asked == asked + 16
    assert labels.read_bytes() == content


def test_goes_on_where_it_was_interrupted(options, painted, monkeypatch):
    whole = replace(options, out=options.out.with_name("whole"))
    label_frames(whole)
    real = train.footage.labels.write_camera

    def interrupted(out: Path, camera: str, *rest: object) -> int:
        if camera == "lot":
            raise KeyboardInterrupt
        return real(out, camera, *rest)

    monkeypatch.setattr(train.footage.labels, "write_camera", interrupted)
    with pytest.raises(KeyboardInterrupt):
        label_frames(options)
    monkeypatch.setattr(train.footage.labels, "write_camera", real)
    before = painted.asked
    assert label_frames(options).frames == {"gate": 0, "lot": 2, "yard": 8}
    assert painted.asked == before + 8, "only the camera that nobody had labelled yet"
    assert (options.out / "frames.jsonl").read_text() == (whole.out / "frames.jsonl").read_text()


def test_other_teachers_or_footage_do_not_mix(options, painted, tmp_path):
    label_frames(options)
    other = tmp_path / "other.onnx"
    other.write_bytes(b"other weights")
    with pytest.raises(SampleError, match="by other teachers"):
        label_frames(replace(options, teachers=(TeacherFile(other),)))
    clip(options.clips / "gate" / "c.mp4")
    with pytest.raises(SampleError, match="made of other footage"):
        label_frames(options)


def test_what_cannot_be_read_is_left_out(run, options, painted):
    broken, (teacher,) = options.clips / "gate" / "b.mp4", options.teachers
    broken.write_bytes(b"no video")
    (options.clips / "lot" / "2.jpg").write_bytes(b"no picture")
    words = ("label", "--clips", options.clips, "--teacher", teacher.path, "--out", options.out)
    code, shown, told = run(*words)
    assert (code, shown) == (3, "")
    assert told.splitlines() == [
        "narrated-train: gate: b.mp4 is left out: nothing of it can be read",
        "narrated-train: lot: 2.jpg is left out: nothing of it can be read",
        f"narrated-train: 17 new labelled frames in {options.out}, 3 cameras",
    ]
    with pytest.raises(FootageError, match="remove it or exclude it"):
        list(sample_frames(broken))
    broken.unlink()
    code, _, told = run(*words)
    assert (code, "made of other footage" in told) == (1, True)


def test_a_damaged_folder_says_what_to_do(options, painted):
    label_frames(options)
    path = options.out / "frames.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FootageError, match="delete that file and label again"):
        read_frames(options.out)
    with pytest.raises(FootageError, match="delete that file and label again"):
        label_frames(options)


def test_given_labels_take_the_teachers_place(options, painted, tmp_path):
    label_frames(options)
    given = tmp_path / "given"
    given.mkdir()
    (given / "gate.jsonl.gz").write_bytes((options.out / "labels" / "gate.jsonl.gz").read_bytes())
    again = replace(options, out=tmp_path / "again", teachers=(), labels=given)
    asked = painted.asked
    report = label_frames(again)
    assert painted.asked == asked
    assert report.frames == {"gate": 16}
    assert [note.split(":")[0] for note in report.notes] == ["lot is left out", "yard is left out"]
    gate = [f for f in read_frames(options.out) if f.camera == "gate"]
    assert read_frames(again.out) == gate
    made_of = read_source(again.out, "gate")["made_of"]  # type: ignore[index]
    assert (made_of["labels"], made_of["detectors"]) == ("gate.jsonl.gz", ["one", "two"])
    assert label_frames(replace(again, teachers=options.teachers)).frames == {"gate": 0, "lot": 2, "yard": 8}
    (given / "gate.jsonl.gz").write_bytes(b"no labels")
    with pytest.raises(FootageError, match="damaged or not a label file"):
        label_frames(again)


def test_labels_of_frames_that_the_clip_lacks(options, tmp_path):
    row = {"file": "a.mp4", "frame": 900, "seconds": 225.0, "width": 256, "height": 192, "detections": []}
    (tmp_path / "gate.jsonl.gz").write_bytes(gzip.compress((json.dumps(row) + "\n").encode()))
    with pytest.raises(FootageError, match="no frame 900"):
        label_frames(replace(options, teachers=(), labels=tmp_path))


def test_times_to_avoid(options, painted, tmp_path):
    avoid = tmp_path / "pairs.jsonl"
    avoid.write_text(json.dumps({"clip": "yard_0628.mp4", "seconds": 3.0}))
    label_frames(replace(options, avoid=avoid))
    times = [f.seconds for f in read_frames(options.out) if f.camera == "yard"]
    assert times == [n / 2 for n in range(8) if abs(n / 2 - 3) > 2]


def test_sources_are_as_stated(options, painted):
    stated = [{"name": "gate", "repo": "a/b", "licence": "CC BY 4.0", "scene": "street"}]
    (options.clips / "MANIFEST.json").write_text(json.dumps(stated))
    label_frames(options)
    source = read_source(options.out, "gate")
    assert source["stated"] == {"repo": "a/b", "licence": "CC BY 4.0"}
    (options.clips / "MANIFEST.json").write_text('{"gate": "mine"}')
    with pytest.raises(FootageError, match=r"MANIFEST.json must hold a list"):
        label_frames(options)


def test_avoided_times_are_read_from_anywhere_inside(tmp_path):
    path = tmp_path / "pairs.jsonl"
    sides = {"before": {"clip": "a.mp4", "seconds": 3.5}, "after": {"clip": "b.mp4", "seconds": None}}
    deep = {"events": [{"x": [{"clip": "folder/a.mp4", "seconds": 1}]}], "seconds": 9}
    path.write_text(f"{json.dumps(sides)}\n\n{json.dumps(deep)}\n")
    assert avoided_times(path) == {"a.mp4": (1.0, 3.5)}
    for content, says in (
        ('{"clip": "a.mp4", "seconds": null}\n', "nothing would be avoided"),
        ("{", "cannot be read as JSON Lines"),
    ):
        path.write_text(content)
        with pytest.raises(FootageError, match=says):
            avoided_times(path)
    with pytest.raises(FootageError, match="give another file"):
        avoided_times(tmp_path / "nowhere.jsonl")


def test_cameras_of_a_folder(tmp_path):
    for name in ("gate/1.mp4", "gate/deep/2.jpg", "yard_01.mp4", "yard_02.avi", "VTEST.avi", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    elsewhere = tmp_path.with_name(tmp_path.name + "-linked")
    elsewhere.mkdir()
    (elsewhere / "3.png").write_bytes(b"")
    (tmp_path / "lot").symlink_to(elsewhere)
    found = {c.name: c.files for c in cameras_in(tmp_path)}
    assert found == {
        "gate": ("1.mp4", "deep/2.jpg"),
        "lot": ("3.png",),
        "yard": ("yard_01.mp4", "yard_02.avi"),
    }
    (tmp_path / "gate_07.mp4").write_bytes(b"")
    with pytest.raises(FootageError, match="rename one"):
        cameras_in(tmp_path)
