"""`narrated probe`."""

import re

import cv2
import pytest

from daemon.commands import probe


@pytest.fixture
def camera(free_port, rtsp_server) -> str:
    """URL of a real RTSP server that asks for a password."""
    rtsp_server("user", "secret", port=free_port)
    return f"rtsp://user:secret@127.0.0.1:{free_port}/stream"


def test_probe_tells_what_a_camera_sends(camera, narrated):
    done = narrated("probe", camera)
    assert done.code == 0, done.err
    assert "320 x 240, h264" in done.out
    keyframes = re.search(r"keyframes +every ([\d.]+) s", done.out)
    assert keyframes
    assert float(keyframes[1]) == pytest.approx(0.5, abs=0.2)
    assert "secret" not in done.out
    wrong = narrated("probe", camera.replace("secret", "other"))
    assert wrong.code == 1
    assert "(401)" in wrong.err
    assert narrated("probe", "film.mp4").code == 2


def test_probe_says_which_cameras_there_are_and_how_a_password_is_written(narrated, tmp_path):
    config = tmp_path / "n.yaml"
    config.write_text("version: 1\ncameras: {yard: {url: 'rtsp://h/1'}, hall: {url: 'rtsp://h/2'}}\n")
    assert "cameras: yard, hall" in narrated("probe", "nosuch", "-c", config).err
    assert "@ is %40" in narrated("probe", "rtsp://me:pa/ss@nowhere.invalid/s").err


def test_probe_tells_of_the_sub_stream_as_well(camera, narrated, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "SECONDS", 0.5)
    config = tmp_path / "narrated.yaml"
    small, lost = camera.replace("/stream", "/small"), camera.replace("/stream", "/nowhere")
    config.write_text(
        f"version: 1\ncameras:\n  yard: {{url: '{camera}', screening: '{small}'}}\n"
        f"  gate: {{url: '{camera}', screening: '{lost}'}}\n"
    )
    done = narrated("probe", "yard", "-c", config)
    assert done.code == 0, done.err
    assert re.findall(r"(\d+) x \d+", done.out) == ["320", "160"]
    done = narrated("probe", "gate", "-c", config)
    assert done.code == 3
    assert re.findall(r"(\d+) x \d+", done.out) == ["320"]
    assert "sub-stream: rtsp://***@" in done.err
    assert "(404)" in done.err
    assert "secret" not in done.out + done.err


def test_a_picture_is_black_where_nobody_may_look(camera, narrated, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "SECONDS", 0.5)
    config, out = tmp_path / "narrated.yaml", tmp_path / "room.png"
    config.write_text(
        f"version: 1\ncameras:\n  room:\n    url: '{camera.replace('/stream', '/still')}'\n"
        "    privacy: {window: [[0, 0], [0.5, 0], [0.5, 0.5], [0, 0.5]]}\n"
    )
    done = narrated("probe", "room", "-c", config, "--out", out)
    assert done.code == 0, done.err
    image = cv2.imread(str(out))
    assert image is not None
    assert image.shape == (240, 320, 3)
    assert not image[:118, :158].any()
    assert image[130:150, 170:].any(axis=2).all()
    assert narrated("probe", "room", "-c", config, "--out", tmp_path / "room.txt").code == 2
