"""`narrated probe`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from daemon.commands.overlay import LINE, ZONE, draw_areas
from daemon.config.settings import Camera


@pytest.fixture
def camera(free_port: int, rtsp_server: Callable[..., Any]) -> str:
    """URL of a real RTSP server that asks for a password."""
    rtsp_server("user", "secret", port=free_port)
    return f"rtsp://user:secret@127.0.0.1:{free_port}/stream"


def test_probe_tells_what_a_camera_sends(camera: str, narrated: Callable[..., Any]) -> None:
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


def test_probe_tells_of_the_sub_stream_as_well(
    camera: str, narrated: Callable[..., Any], tmp_path: Path
) -> None:
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


def test_a_picture_shows_the_areas_and_is_black_where_nobody_may_look(
    camera: str, narrated: Callable[..., Any], tmp_path: Path
) -> None:
    config, out = tmp_path / "narrated.yaml", tmp_path / "room.png"
    config.write_text(
        f"version: 1\ncameras:\n  room:\n    url: '{camera.replace('/stream', '/still')}'\n"
        "    privacy: {window: [[0, 0], [0.5, 0], [0.5, 0.5], [0, 0.5]]}\n"
        "    zones: [{name: at the door, polygon: [[0.1, 0.6], [0.4, 0.6], [0.4, 0.9]]}]\n"
    )
    done = narrated("probe", "room", "-c", config, "--out", out)
    assert done.code == 0, done.err
    image = cv2.imread(str(out))
    assert image is not None
    assert image.shape == (240, 320, 3)
    assert not image[80:90, 100:120].any()  # between the lines of the ruler
    assert image[130:150, 170:].any(axis=2).all()
    assert (image == ZONE[::-1]).all(axis=2).any()
    assert narrated("probe", "room", "-c", config, "--out", tmp_path / "room.txt").code == 2


@pytest.mark.parametrize("shape", [(240, 320), (60, 200)])
@pytest.mark.parametrize("corner", [(0.0, 0.0), (0.97, 0.0), (0.97, 0.97), (0.0, 0.97)])
def test_a_label_stays_inside_the_picture(shape: tuple[int, int], corner: tuple[float, float]) -> None:
    """An area in a corner is labelled with as many pixels of ground as one in the middle."""

    def ground(x: float, y: float) -> int:
        polygon = [[x, y], [x + 0.03, y], [x + 0.03, y + 0.03]]
        named = Camera.model_validate(
            {"url": "a.mp4", "zones": [{"name": "at the gate", "polygon": polygon}]}, strict=False
        )
        drawn = draw_areas(np.zeros((*shape, 3), np.uint8), named)
        return int((drawn == ZONE).all(axis=2).sum())

    assert ground(*corner) >= 0.9 * ground(0.3, 0.45)


def test_a_line_is_drawn_open() -> None:
    line = {"name": "the gate line", "points": [[0.1, 0.9], [0.7, 0.9], [0.7, 0.2]]}
    camera = Camera.model_validate({"url": "a.mp4", "lines": [line]}, strict=False)
    picture = draw_areas(np.zeros((480, 640, 3), np.uint8), camera).astype(int)
    drawn = np.abs(picture - LINE).max(axis=2) < 30  # its edges are smooth
    assert drawn[428:436, 100:400].any(axis=0).all()
    assert not drawn[200:300, 150:350].any()  # an area would be closed here
