"""What lies in a privacy area is in nothing that comes out; what lies in a mask is told by nobody."""

import re
import shutil
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from encoded_footage import encode

from pipeline.record import read_record

SECRET = (0.05, 0.25, 0.45, 0.8)
"""Left, top, right and bottom of the area, in shares of the frame."""

AREA = "[[0.05, 0.25], [0.45, 0.25], [0.45, 0.8], [0.05, 0.8]]"
BLACK = 40
"""A grey level that lossy coding leaves of black at most, away from edges."""


def room(second: float, secret: str) -> np.ndarray:
    """RGB; a box stands on the right from second 6 to 14, and on the left is what nobody may see."""
    rows, columns = np.mgrid[0:240, 0:320]
    grey = (80 + 20 * ((rows // 24 + columns // 32) % 2)).astype(np.uint8)
    rgb = np.repeat(grey[..., None], 3, axis=2)
    if 6 <= second < 14:
        rgb[100:180, 200:270] = 230
    left, top, right, bottom = np.multiply(SECRET, (320, 240, 320, 240)).astype(int)
    inside = rgb[top:bottom, left:right]
    if secret == "noise":
        inside[:] = np.random.default_rng(int(second * 10)).integers(0, 256, inside.shape, np.uint8)
    if secret == "box" and second >= 9:
        inside[30:100, 20:90] = (255, 0, 255)
    return rgb


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> dict[str, Path]:
    """Clips that differ in the area alone: lossless, or coding would carry traces of it beyond."""
    paths = {}
    for secret in ("noise", "box"):
        frames = (room(index / 5, secret) for index in range(100))
        path = tmp_path_factory.mktemp(secret) / "yard.mp4"
        paths[secret] = encode(path, "libx264", 0, frames, gop=250, rate=5, qp="0")
    return paths


@pytest.fixture
def told(narrated, clips, checkpoint, tmp_path) -> Callable[[str, str], dict[str, bytes]]:
    """Replays a clip by a camera's settings; everything that was written, by path."""

    def replay(secret: str, areas: str) -> dict[str, bytes]:
        clip, configuration, out = tmp_path / "yard.mp4", tmp_path / "yard.yaml", tmp_path / "out"
        shutil.copyfile(clips[secret], clip)  # one path for all: the page tells it
        configuration.write_text(
            f"version: 1\ncameras:\n  yard:\n    url: {clip}\n    evidence: {{keep: all}}\n{areas}"
        )
        done = narrated(
            *("replay", clip, "-c", configuration, "--camera", "yard", "--out", out, "--force"),
            *("--captioner-file", checkpoint),
        )
        assert done.code == 0, done.err
        files = [path for path in sorted(out.rglob("*")) if path.is_file() and path.suffix != ".writer"]
        return {str(path.relative_to(out)): path.read_bytes() for path in files}

    return replay


def pictures(written: dict[str, bytes]) -> list[np.ndarray]:
    """Every picture of the evidence and of the page; an overlay shows the frame twice and has words on it."""
    kept = [raw for path, raw in written.items() if path.startswith("evidence/")]
    shown = re.findall(rb"data:image/jpeg;base64,([^\"\s)]+)", written["report.html"])
    assert len(kept) >= 4
    assert len(shown) >= 4
    found = [cv2.imdecode(np.frombuffer(raw, np.uint8), 1) for raw in [*kept, *map(b64decode, shown)]]
    return [image for image in found if image.shape[1] < 1.5 * image.shape[0]]


def inside(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    left, top, right, bottom = np.multiply(SECRET, (width, height, width, height)).round().astype(int)
    return image[top + 8 : bottom - 8, left + 8 : right - 8]


def test_nothing_that_comes_out_depends_on_a_privacy_area_and_a_mask_is_shown_but_not_told(told):
    noise, box = (told(secret, f"    privacy: {{neighbour: {AREA}}}\n") for secret in ("noise", "box"))
    assert noise == box  # journal, record, hashes of pixels, evidence, report, subtitles: every byte
    assert all(inside(image).mean() < BLACK for image in pictures(noise))
    unguarded, masked = told("box", ""), told("box", f"    masks: {{street: {AREA}}}\n")
    assert all(inside(image).mean() > BLACK for image in pictures(unguarded))
    assert max(inside(image).max() for image in pictures(masked)) > 200
    assert len(unguarded["narrations.jsonl"].splitlines()) > 2
    for written in (noise, masked):
        records = [read_record(line) for line in written["narrations.jsonl"].splitlines()]
        assert [record.text for record in records] == ["A box has appeared.", "The box is gone."]


def test_a_replay_that_might_forget_a_privacy_area_is_refused(narrated, clips, tmp_path):
    configuration = tmp_path / "yard.yaml"
    configuration.write_text(
        f"version: 1\ncameras:\n  yard:\n    url: x\n    privacy: {{neighbour: {AREA}}}\n"
    )
    done = narrated("replay", clips["box"], "-c", configuration)
    assert done.code == 2
    assert "--camera" in done.err
