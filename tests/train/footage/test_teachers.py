import sys
from pathlib import Path

import numpy as np
import pytest
from beside import beside
from small_osnet import published_osnet

from pipeline.command_line import missing_extra
from train.footage.cameras import sample_frames
from train.footage.teachers import (
    Spotted,
    TeacherError,
    TeacherFile,
    Teachers,
    open_network,
    teacher_file,
    teachers,
)
from train.footage.votes import merge_votes
from train.grounded.appearance import graph_of


@pytest.fixture(scope="module")
def street() -> np.ndarray:
    """A junction with cars and people, of a training camera."""
    path = beside("data/cameras/train/indonesia_junction_cctv/cctv.mp4")
    return next(image for number, _, image in sample_frames(path) if number > 100)


class Fixed:
    """A network that sees the same wherever it looks."""

    def __init__(self, *sights: Spotted) -> None:
        self.sights, self.sizes = list(sights), list[tuple[int, ...]]()

    def __call__(self, image: np.ndarray) -> list[Spotted]:
        self.sizes.append(image.shape)
        return self.sights


def test_frames_wide_enough_are_looked_at_in_tiles():
    net = Fixed(Spotted("car", 0.9, 0.4, 0.4, 0.6, 0.7))
    asked = Teachers({"net": net})
    assert [view for view, _ in asked(np.zeros((300, 599, 3), np.uint8))] == ["full"]
    found = asked(np.zeros((400, 600, 3), np.uint8))
    assert [view for view, _ in found] == ["full", "tile", "tile", "tile", "tile"]
    assert net.sizes[2:] == [(240, 360, 3)] * 4
    assert found[0][1].box == pytest.approx((0.4, 0.4, 0.2, 0.3))
    assert found[-1][1].box == pytest.approx((0.4 + 0.6 * 0.4, 0.4 + 0.6 * 0.4, 0.6 * 0.2, 0.6 * 0.3))


def test_what_a_tile_cuts_is_left_to_the_others():
    inner = Teachers({"net": Fixed(Spotted("car", 0.9, 0.5, 0.3, 1.0, 0.6))})
    found = inner(np.zeros((400, 600, 3), np.uint8))
    assert [raw.box[0] for _, raw in found] == pytest.approx([0.5, 0.7, 0.7]), (
        "at the frame's own edge it ends"
    )
    beyond = Teachers({"net": Fixed(Spotted("car", 0.9, -0.1, -0.2, 1.3, 1.1))})
    assert beyond(np.zeros((30, 50, 3), np.uint8))[0][1].box == (0, 0, 1, 1)


def test_teachers_as_the_user_names_them(tmp_path):
    assert teacher_file("a/net.onnx") == TeacherFile(Path("a/net.onnx"))
    assert teacher_file("a/net.xml:vehicle,person, bike") == TeacherFile(
        Path("a/net.xml"), ("vehicle", "person", "bike")
    )
    assert teacher_file("net.xml:,person").classes == ("", "person")
    assert teacher_file("c:/models/net.xml").path == Path("c:/models/net.xml")
    odd = tmp_path / "net:1.onnx"
    odd.write_bytes(b"")
    assert teacher_file(str(odd)).path == odd
    with pytest.raises(TeacherError, match="class 'horse' is unknown; there is person, vehicle"):
        teacher_file("net.xml:horse")


def test_two_of_one_name_and_none(tmp_path, monkeypatch):
    import train.footage.teachers

    monkeypatch.setattr(train.footage.teachers, "open_network", lambda _file: Fixed())
    files = [TeacherFile(Path("a/net.onnx")), TeacherFile(Path("b/net.xml"))]
    with pytest.raises(TeacherError, match="two teachers are named net"):
        teachers(files)
    with pytest.raises(TeacherError, match="--teacher"):
        teachers([])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("net.onnx", None, "no detector at"),
        ("net.onnx", b"not a network", "is not an ONNX network"),
        ("net.onnx", "osnet", "known are YOLOX"),
        ("mine.xml", b"", r"--teacher mine.xml:vehicle,person,bike"),
    ],
)
def test_what_is_no_teacher(tmp_path, name, content, says):
    if content is not None:
        content = graph_of(published_osnet()) if isinstance(content, str) else content
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TeacherError, match=says):
        open_network(TeacherFile(tmp_path / name))


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "vehicle-detection-0202.xml"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ModuleNotFoundError) as error:
        open_network(TeacherFile(path))
    assert "pip install 'narrated[openvino]'" in missing_extra(error.value)


@pytest.mark.footage
def test_onnx_networks_see_a_street(street):
    yolox = beside("data/weights/yolox_nano_416_coco.onnx")
    picodet = beside("data/models/picodet-s-onnx/picodet_s_416_coco.onnx")
    seen = teachers([TeacherFile(yolox), TeacherFile(picodet)])(street)
    found = [each for each in seen if each[0] == "full"]
    for name in (yolox.stem, picodet.stem):
        own = [raw for _, raw in found if raw.detector == name]
        assert sum(raw.score > 0.5 and raw.label in ("car", "truck", "motorcycle") for raw in own) >= 2
        assert all(min(raw.box) >= 0 for raw in own)
        assert all(raw.box[0] + raw.box[2] <= 1.0001 and raw.box[1] + raw.box[3] <= 1.0001 for raw in own)
    votes = merge_votes([raw for _, raw in found])
    assert sum(vote.sure and vote.detectors == 2 for vote in votes) >= 2, "they agree where things are"
