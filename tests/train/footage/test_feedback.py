"""Opinions of the page become labels that `narrated-train adapt` learns from."""

from contextlib import closing
from pathlib import Path

import cv2
import numpy as np
import pytest
from drawn_footage import Painted
from narrations import narration

import train.footage.feedback
from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.feedback import FILE, FeedbackStore
from pipeline.journal import Journal
from pipeline.record import Evidence
from train.footage.cameras import FootageError
from train.footage.feedback import export_labels
from train.footage.labels import read_frames, read_labels, write_camera
from train.footage.teachers import Teachers

CAR, GHOST = (0.5, 0.5, 0.25, 0.25), (0.0, 0.0, 0.25, 0.25)


@pytest.fixture(autouse=True)
def painted(monkeypatch) -> None:
    monkeypatch.setattr(train.footage.feedback, "teachers", lambda _files: Teachers({"net": Painted()}))


@pytest.fixture
def feedback(tmp_path) -> Path:
    """Two red rectangles in each after frame: one is a van, of the other it is said that nothing is there."""
    store = EvidenceStore(tmp_path / "evidence", fsync=False)
    wall = np.full((192, 256, 3), 90, np.uint8)
    painted = wall.copy()
    for x, y, width, height in (CAR, GHOST):
        top, left = int(y * 192), int(x * 256)
        painted[top : top + int(height * 192), left : left + int(width * 256)] = (200, 40, 40)
    sentences = tuple(
        Sentence("A car has appeared.", "appeared", "car", box, 0.7, 0.8, after=box) for box in (CAR, GHOST)
    )
    path = tmp_path / "journal" / FILE
    with Journal(tmp_path / "journal", "yard", fsync=False) as journal, closing(FeedbackStore(path)) as said:
        for n in range(4):
            painted[0, 0] = n
            evidence = Evidence(before=_put(store, wall), after=_put(store, painted))
            record = journal.append(narration(n, sentences=sentences), evidence=evidence)
            said.set_opinion(record.id, 0, "corrected", object="van")
            said.set_opinion(record.id, 1, "wrong")
        said.set_opinion("yard-of-old", 0, "wrong")
    return path


def _put(store: EvidenceStore, image: np.ndarray) -> str:
    return store.put(cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes(), "webp")


def test_opinions_replace_what_the_teachers_say_there(feedback, tmp_path):
    out = tmp_path / "out"
    left_out = export_labels(feedback, (), out)
    assert left_out == {"its record is in no journal here": 1}
    rows = read_labels(out / "labels" / "yard.jsonl.gz")
    assert len({row["file"] for row in rows}) == 4
    assert [row["detections"] for row in rows] == [[["people", "full", "van", 1.0, *CAR]]] * 4
    pictures = out / "pictures" / "yard"
    write_camera(tmp_path / "frames", "yard", pictures, rows)
    frames = read_frames(tmp_path / "frames")
    assert [[(v.family, v.kinds, v.sure) for v in f.votes] for f in frames] == [
        [("vehicle", (("van", 1.0),), True)]
    ] * 4


def test_pictures_that_retention_deleted_are_counted(feedback, tmp_path):
    for path in (tmp_path / "evidence").rglob("*.webp"):
        path.unlink()
    with pytest.raises(FootageError, match=r"has no opinion .*'its picture is gone': 8"):
        export_labels(feedback, (), tmp_path / "out")


def test_adapt_learns_from_them(run, feedback, tmp_path):
    """So few are refused, with the reason; what is learnt from enough of them is `adapt`'s own matter."""
    net = tmp_path / "net.onnx"
    net.write_bytes(b"weights")
    out = tmp_path / "mine.safetensors"
    code, _, said = run("adapt", "--feedback", feedback, "--teacher", net, "--out", out)
    assert code == 1
    assert "1 opinions are left out: its record is in no journal here" in said
    assert "the teachers are sure of an object only 3 times" in said
    code, _, said = run("adapt", "--feedback", tmp_path / "none", "--teacher", net, "--out", out)
    assert code == 1
    assert "there is no feedback" in said
