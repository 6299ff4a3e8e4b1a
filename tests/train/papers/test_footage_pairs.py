"""Pairs of real footage: bare ones between two thresholds, and with captions from labelled frames."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import pytest
from drawn_footage import clip
from still import shown

from pipeline.distance import l2_rgb
from pipeline.pairs import FramePair
from pipeline.sources import Frame, open_source
from pipeline.thresholds import PairThresholds
from train.footage.labels import FRAMES, LabelledFrame
from train.footage.votes import Vote
from train.papers.datasets import load_pairs
from train.papers.footage_pairs import extract, random_pairs, write_footage_pairs
from train.samples import SampleError

BAND = PairThresholds(20.0, 60.0)
WIDE, HIGH = 192, 108


def street(person: int | None = None) -> np.ndarray:
    rgb = np.repeat(np.tile(np.linspace(60, 150, WIDE), (HIGH, 1))[..., None], 3, axis=2)
    if person is not None:
        rgb[60:90, person : person + 14] = (240, 220, 190)
    return rgb.astype(np.uint8)


def frames(count: int = 40, *, still: bool = False) -> Iterator[Frame]:
    for k in range(count):
        rgb = street(None if still or k % 8 < 4 else 3 * k % 150)
        luma = np.ascontiguousarray(rgb.mean(axis=2).astype(np.uint8)[::2, ::2])
        yield shown(rgb, k / 2, pts=k, luma=luma)


@pytest.fixture
def footage(tmp_path) -> Path:
    return clip(tmp_path / "front door.mp4")


def stamps(pairs: list[FramePair]) -> list[tuple[int, int]]:
    return [(p.before.pts, p.after.pts) for p in pairs]


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]


def test_random_pairs_lie_in_the_band_and_are_distinct():
    pairs = list(random_pairs(frames(), 30, BAND, seed=3))
    assert len(pairs) == len(set(stamps(pairs))) == 30
    for pair in pairs:
        l2, blocks = l2_rgb(pair.before.image, pair.after.image, 32)
        assert pair.l2 == pytest.approx(l2)
        assert l2 <= BAND.upper
        assert blocks.max() > BAND.lower
        assert pair.before.time < pair.after.time


def test_draws_are_spread_over_footage_longer_than_the_pool():
    pairs = list(random_pairs(frames(400), 20, BAND, seed=1, pool=16))
    drawn = {f.pts for p in pairs for f in (p.before, p.after)}
    assert len(drawn) <= 16
    assert min(drawn) < 100
    assert max(drawn) > 300


@pytest.mark.parametrize(
    ("footage", "band"), [(frames(still=True), BAND), ([], BAND), (frames(), PairThresholds(20.0, 1.0))]
)
def test_outside_the_band_none_is_drawn(footage, band):
    assert list(random_pairs(footage, 5, band, seed=1)) == []


def test_what_is_written_is_what_was_found(footage, tmp_path):
    out = tmp_path / "out"
    assert extract([footage], out, 6, seed=5) == (6, [])
    records = lines(out)
    assert [r["id"] for r in records] == [f"front_door-{k:06d}" for k in range(6)]
    with open_source(str(footage)) as source:
        images = {f.pts: f.image for f in source}
    for record in records:
        assert (record["before"], record["after"]) == (f"{record['id']}.png", f"{record['id']}_2.png")
        assert str(record["before_time"]) < str(record["after_time"])
        assert record["source"] == str(footage)
        for side in ("before", "after"):
            written = cv2.imread(str(out / str(record[side])))
            assert np.array_equal(written[..., ::-1], images[record[f"{side}_pts"]])
    assert len(list(out.iterdir())) == 13
    files = [[path.read_bytes() for path in sorted(out.iterdir())]]
    for seed in (5, 6):
        extract([footage], tmp_path / f"{seed}", 6, seed=seed)
        files.append([path.read_bytes() for path in sorted((tmp_path / f"{seed}").iterdir())])
    assert files[0] == files[1] != files[2]


def test_unreadable_videos_and_too_few_pairs_are_told_and_the_others_written(footage, tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    pairs, (problem,) = extract([broken, footage], tmp_path / "out", 2)
    assert pairs == 2
    assert "broken.mp4" in problem
    assert all((tmp_path / "out" / str(r["after"])).is_file() for r in lines(tmp_path / "out"))
    pairs, problems = extract([footage], tmp_path / "many", 2000)
    assert pairs > 2
    assert problems == [f"front door.mp4: {pairs} of 2000 pairs"]


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
