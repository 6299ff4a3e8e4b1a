"""Pairs of real footage: labelled frames in, pairs with captions out."""

import json
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import pytest

from train.footage.labels import FRAMES, LabelledFrame
from train.footage.votes import Vote
from train.papers.datasets import load_pairs
from train.papers.footage_pairs import write_footage_pairs
from train.samples import SampleError

PLACES = {"left": 0.1, "right": 0.7}


def write_frames(folder: Path, cameras: int = 3) -> Path:
    """Of every camera an empty frame, and one with a bright car on either side; one more car is unsure."""
    lines = []
    for camera in range(cameras):
        for number, places in enumerate(((), ("left",), ("right",))):
            image = np.full((240, 320, 3), 90, np.uint8)
            votes = []
            for place in places:
                x = PLACES[place]
                image[120:168, int(320 * x) : int(320 * x) + 64] = (30, 30, 230)
                votes.append(Vote("vehicle", (x, 0.5, 0.2, 0.2), 0.95, (("car", 1.0),), 2))
            path = folder / "images" / f"cam{camera}" / f"clip_{number:06d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(path), image)
            name = str(path.relative_to(folder))
            frame = LabelledFrame(f"cam{camera}", "clip.mp4", float(number), name, 320, 240, tuple(votes))
            lines.append(json.dumps(asdict(frame)))
    (folder / FRAMES).write_text("\n".join(lines) + "\n")
    return folder


def test_captions_say_what_the_labels_and_the_pixels_show(tmp_path):
    written = write_footage_pairs(write_frames(tmp_path / "frames"), tmp_path / "out", pairs=20, seed=3)
    assert written == {"train": 20, "val": 2}
    train, val = (load_pairs(tmp_path / "out", split) for split in ("train", "val"))
    assert not {s.camera for s in train} & {s.camera for s in val}
    said = {sentence for sample in train for sentence in sample.sentences}
    assert said == {
        "there is now a car on the left",
        "there is now a car on the right",
        "the car on the left is gone",
        "the car on the right is gone",
    }
    for sample in train:
        assert sample.kind == "changed"
        assert {c.type for c in sample.changes} <= {"appeared", "disappeared"}


def test_a_change_that_no_label_explains_is_left_out(tmp_path):
    folder = write_frames(tmp_path / "frames")
    rows = [json.loads(line) for line in (folder / FRAMES).read_text().splitlines()]
    for row in rows:
        row["votes"] = []
    (folder / FRAMES).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SampleError, match="label more footage"):
        write_footage_pairs(folder, tmp_path / "out", pairs=5)
