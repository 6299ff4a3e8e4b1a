"""`narrated probe` and `narrated snapshot`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

SERVER = Path(__file__).parents[1] / "pipeline" / "rtsp_server.py"
PYTHON = "/usr/bin/python3"


@pytest.fixture
def camera(free_port: int) -> Iterator[str]:
    """URL of a real RTSP server that asks for a password."""
    check = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"
    if (
        not Path(PYTHON).exists()
        or subprocess.run([PYTHON, "-c", check], capture_output=True, check=False).returncode
    ):
        pytest.skip("no GStreamer RTSP server (apt install gir1.2-gst-rtsp-server-1.0 python3-gi)")
    with subprocess.Popen(
        [PYTHON, SERVER, str(free_port), "user", "secret"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
        yield f"rtsp://user:secret@127.0.0.1:{free_port}/stream"
        process.kill()


def test_probe_tells_what_a_camera_sends(camera: str, narrated: Callable[..., Any]) -> None:
    done = narrated("probe", camera, "--seconds", "4", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["width"], found["height"]) == (320, 240)
    assert found["codec"].startswith("h264")
    assert found["keyframe_s"] == pytest.approx(0.5, abs=0.2)
    assert found["packets"] > 0
    assert "secret" not in done.out
    wrong = narrated("probe", camera.replace("secret", "other"))
    assert wrong.code == 1
    assert "(401)" in wrong.err
    assert narrated("probe", "film.mp4").code == 2


@pytest.fixture
def config(clip: Path, tmp_path: Path) -> Path:
    path = tmp_path / "narrated.yaml"
    path.write_text(
        f"version: 1\ncameras:\n  room:\n    url: {clip}\n"
        "    privacy: {window: [[0, 0], [0.5, 0], [0.5, 0.5], [0, 0.5]]}\n"
        "    masks: {tree: [[0.6, 0.6], [0.9, 0.6], [0.9, 0.9]]}\n"
        "    zones: [{name: at the door, polygon: [[0.1, 0.6], [0.4, 0.6], [0.4, 0.9]]}]\n"
    )
    return path


def test_a_snapshot_is_black_where_nobody_may_look(
    config: Path, narrated: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "room.png"
    done = narrated("snapshot", "room", "-c", config, "--out", out)
    assert (done.code, done.err.strip()) == (0, f"wrote {out}, 320 x 240 pixels")
    image = cv2.imread(str(out))
    assert image is not None
    assert image.shape == (240, 320, 3)
    assert not image[:120, :160].any()
    assert image[130:, 170:].all()


def test_an_overlay_marks_the_areas(config: Path, narrated: Callable[..., Any], tmp_path: Path) -> None:
    plain, marked = tmp_path / "plain.png", tmp_path / "marked.png"
    assert narrated("snapshot", "room", "-c", config, "--out", plain).code == 0
    assert narrated("snapshot", "room", "-c", config, "--overlay", "--out", marked).code == 0
    differs = np.any(cv2.imread(str(plain)) != cv2.imread(str(marked)), axis=2)  # type: ignore[operator]
    for x, y in (
        (0.25, 0.6),
        (0.75, 0.6),
        (0.5, 0.25),
    ):  # an edge of each area
        row, column = round(y * 240), round(x * 320)
        assert differs[row - 3 : row + 4, column - 3 : column + 4].any()
    assert narrated("snapshot", "hall", "-c", config).code == 2


def test_a_camera_that_is_away_gives_no_snapshot(
    narrated: Callable[..., Any], tmp_path: Path, free_port: int
) -> None:
    config = tmp_path / "narrated.yaml"
    config.write_text(f"version: 1\ncameras: {{gate: {{url: 'rtsp://127.0.0.1:{free_port}/s'}}}}\n")
    done = narrated("snapshot", "gate", "-c", config, "--out", tmp_path / "gate.png")
    assert done.code == 1
    assert "refused" in done.err
    assert not (tmp_path / "gate.png").exists()
