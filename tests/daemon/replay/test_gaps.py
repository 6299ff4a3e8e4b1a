"""The time between two pictures: from the caller, from names, or not known; and where it goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from daemon.config.plan import camera_plan
from daemon.config.settings import CameraDefaults
from daemon.replay.description import PairError, PairPaths, read_gap, read_pair, read_pairs
from pipeline.sources.times import moment_in_name

Run = Callable[..., Any]


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[Path, Path]:
    """An empty room, and the same with a bright box on the left."""
    empty = np.full((240, 320, 3), 90, np.uint8)
    full = empty.copy()
    full[90:160, 30:100] = 230
    cv2.imwrite(str(tmp_path / "before.png"), empty)
    cv2.imwrite(str(tmp_path / "after.png"), full)
    return tmp_path / "before.png", tmp_path / "after.png"


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("20171027_131028", datetime(2017, 10, 27, 13, 10, 28, tzinfo=UTC)),
        ("10.0.0.7_01_20230613031146123_MOTION", datetime(2023, 6, 13, 3, 11, 46, tzinfo=UTC)),
        ("625_201707211410", datetime(2017, 7, 21, 14, 10, tzinfo=UTC)),
        ("front-1686625906.52-ab12", datetime(2023, 6, 13, 3, 11, 46, tzinfo=UTC)),
        ("camera_4713_00-11-26", None),
        ("209913451799", None),
    ],
)
def test_a_moment_in_a_name(name: str, time: datetime | None) -> None:
    assert moment_in_name(Path(f"{name}.jpg")) == time


def test_names_have_the_gap_and_equal_stamps_are_ignored() -> None:
    one, two = Path("20240506_070809.jpg"), Path("20240507_070809.jpg")
    assert read_gap(one, two) == read_gap(two, one) == 86400.0
    assert read_gap(one, one) is read_gap(Path("a.jpg"), two) is None


def test_a_line_of_pairs_has_its_gap(tmp_path: Path) -> None:
    lines = [{"gap_s": 12}, {"gap_s": None}, {}, {"gap_s": -1}, {"gap_s": "12"}, {"gap_s": True}]
    file = tmp_path / "pairs.jsonl"
    file.write_text(
        "\n".join(json.dumps({"id": 1, "before": "a.png", "after": "b.png", **line}) for line in lines)
    )
    found = list(read_pairs(file))
    assert [pair.gap_s for pair in found[:3] if isinstance(pair, PairPaths)] == [12.0, None, None]
    assert [isinstance(pair, PairError) for pair in found[3:]] == [True] * 3
    assert "gap_s" in str(found[3])


@pytest.mark.parametrize(("gap_s", "known"), [(90.0, 90.0), (None, None), (1e12, 10 * 365 * 86400.0)])
def test_the_gap_reaches_the_pair(
    pictures: tuple[Path, Path], gap_s: float | None, known: float | None
) -> None:
    plan = camera_plan("describe", "", CameraDefaults())
    assert read_pair(PairPaths("", *pictures), gap_s, plan).gap_s == known


@pytest.mark.parametrize(
    ("names", "options", "gap_s"),
    [
        (("a.png", "b.png"), (), None),
        (("a.png", "b.png"), ("--gap", "90s"), 90.0),
        (("x_20240506_070809.png", "x_20240507_010809.png"), (), 64800.0),
    ],
)
def test_describe_states_the_gap(
    narrated: Run,
    pictures: tuple[Path, Path],
    checkpoint: Path,
    tmp_path: Path,
    names: Sequence[str],
    options: Sequence[str],
    gap_s: float | None,
) -> None:
    paths = [tmp_path / name for name in names]
    for source, path in zip(pictures, paths, strict=True):
        path.write_bytes(source.read_bytes())
    done = narrated("describe", *paths, *options, "--json", "--captioner-file", checkpoint)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["gap_s"] == gap_s
    assert narrated("describe", *paths, "--gap", "soon", "--captioner-file", checkpoint).code == 2


def test_describe_states_the_gaps_of_many(
    narrated: Run, pictures: tuple[Path, Path], checkpoint: Path, tmp_path: Path
) -> None:
    pair = {"before": str(pictures[0]), "after": str(pictures[1])}
    file = tmp_path / "pairs.jsonl"
    file.write_text(f"{json.dumps({'id': 1, **pair, 'gap_s': 5})}\n{json.dumps({'id': 2, **pair})}\n")
    done = narrated("describe", "--pairs", file, "--gap", "2h", "--captioner-file", checkpoint)
    assert done.code == 0, done.err
    assert [json.loads(line)["gap_s"] for line in done.out.splitlines()] == [5.0, 7200.0]
