"""Learning from what people say: it helps on their camera, harms no other, and else is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import cv2
import numpy as np
import pytest
from narrations import narration

from models import SHIPPED, load_captioner
from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.feedback import FILE, Correction, Feedback, FeedbackStore, Opinion
from pipeline.journal import Journal
from pipeline.narration.lessons import SIGNS
from pipeline.record import Evidence
from pipeline.record_members import RecordSentence
from train.grounded.lessons import FEWEST, fitted, learnt, validation_sentences, weighing
from train.grounded.remarks import Remarked, is_right

Run = Callable[..., tuple[int, str, str]]
LEAST = 0.4948
"""The packaged captioner's."""


@pytest.fixture(scope="module")
def sentences() -> Remarked:
    return validation_sentences()


@pytest.fixture(scope="module")
def late() -> np.ndarray:
    """Which of them are of the last quarter of their camera's footage."""
    with (
        resources.files("train.grounded").joinpath("validation.npz").open("rb") as file,
        np.load(file) as held,
    ):
        return np.asarray(held["held"])


def halves(sentences: Remarked, camera: str) -> tuple[Remarked, Remarked]:
    """The other cameras, dealt out in two."""
    names = [name for name in np.unique(sentences.camera) if name != camera]
    one, two = (np.isin(sentences.camera, names[n::2]) for n in (0, 1))
    return sentences.rows(one), sentences.rows(two)


def test_fifty_corrections_help_on_their_camera_and_do_not_hurt_elsewhere(sentences, late) -> None:
    """Real sentences about footage that the captioner did not learn from, judged by its teachers.

    Fifty of the first three quarters of a camera are corrected; what is counted is the last quarter, and
    cameras that were neither corrected nor learnt beside, as if they had the same weights.
    """
    here, elsewhere = [], []
    for camera in np.unique(sentences.camera):
        early = np.flatnonzero((sentences.camera == camera) & ~late)
        held = sentences.rows((sentences.camera == camera) & late)
        if len(held) < 20:
            continue
        beside, others = halves(sentences, str(camera))
        for seed in range(3):
            chosen = np.sort(np.random.default_rng(seed).choice(early, 50, replace=False))
            weights = fitted(sentences.rows(chosen), beside)
            for rows, into in ((held, here), (others, elsewhere)):
                before, after = weighing(rows, None, LEAST), weighing(rows, rows.signs @ weights, LEAST)
                into.append((after.loss - before.loss, after.false - before.false, after.kept))
    loss, false, kept = np.mean(here, axis=0)
    assert len(here) >= 15
    assert loss < -0.04
    assert false < 0.0
    assert kept > 0.98
    loss, false, kept = np.mean(elsewhere, axis=0)
    assert loss < 0.0
    assert false <= 0.0
    assert kept > 0.98


def test_what_contradicts_all_other_cameras_is_refused(sentences: Remarked) -> None:
    """Here whatever has appeared is wrong, and all else right, again and again."""
    appeared = sentences.signs[:, SIGNS.index("appeared")] > 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        chosen = [rng.choice(np.flatnonzero(appeared == here), 160, replace=False) for here in (True, False)]
        rows = rng.permutation(np.concatenate(chosen))
        own = sentences.rows(rows)
        turned = learnt(Remarked(own.signs, own.odds, ~appeared[rows], own.camera), sentences, LEAST)
        assert turned.refused == "it contradicts what is true of other cameras"
        assert not turned.weights


def test_what_does_not_hold_from_one_quarter_to_the_next_is_refused(sentences: Remarked) -> None:
    """What differs is right in one quarter and wrong in the next: the others foretell each wrongly."""
    differs = np.random.default_rng(2).choice([-1.0, 1.0], 80)
    signs = np.zeros((80, len(SIGNS)))
    signs[:, SIGNS.index("share of its box that differs")] = differs
    right = (differs > 0) == np.repeat(np.arange(4) % 2 == 0, 20)
    lesson = learnt(Remarked(signs, np.zeros(80), right, np.full(80, "yard")), sentences, LEAST)
    assert lesson.refused == "it is worse on the corrections that were held out"
    steady = Remarked(signs, np.zeros(80), differs > 0, np.full(80, "yard"))
    assert learnt(steady, sentences, LEAST).weights


def test_too_little_is_refused(sentences) -> None:
    few = sentences.rows(np.arange(FEWEST - 1))
    assert "at least" in learnt(few, sentences, LEAST).refused
    right = sentences.rows(np.flatnonzero(sentences.right)[:60])
    assert "as many wrong" in learnt(right, sentences, LEAST).refused


@pytest.mark.parametrize(
    ("opinion", "correction", "right"),
    [
        (Opinion.RIGHT, None, True),
        (Opinion.WRONG, None, False),
        (Opinion.CORRECTED, Correction(object="van"), False),
        (Opinion.CORRECTED, Correction(object="car"), True),
        (Opinion.CORRECTED, Correction(type="moved"), False),
        (Opinion.CORRECTED, Correction(box=(0.41, 0.21, 0.1, 0.5)), True),
        (Opinion.CORRECTED, Correction(box=(0.7, 0.2, 0.1, 0.5)), False),
    ],
)
def test_what_counts_as_right(opinion, correction, right) -> None:
    box = (0.4, 0.2, 0.1, 0.5)
    told = RecordSentence(text="x", type="appeared", object="car", box=box, salience=0.5, confidence=0.8)
    said = Feedback("yard-1", 0, opinion, correction, "", datetime(2026, 5, 1, tzinfo=UTC))
    assert is_right(said, told) is right


GHOST, CAR = (0.05, 0.05, 0.06, 0.1), (0.5, 0.5, 0.3, 0.3)


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """A journal with pictures: cars that come, and a lamp in the corner that is taken for one."""
    wall = np.kron(
        np.random.default_rng(7).integers(60, 110, (24, 32, 3), np.uint8), np.ones((8, 8, 1), np.uint8)
    )
    store = EvidenceStore(tmp_path / "evidence", fsync=False)
    before = png(store, wall)
    opinions = np.random.default_rng(1).permutation([True] * 34 + [False] * 26)
    with (
        Journal(tmp_path / "journal", "yard", fsync=False) as journal,
        FeedbackStore(tmp_path / FILE) as said,
    ):
        for n, right in enumerate(opinions):
            image, box = wall.copy(), CAR if right else GHOST
            x, y, w, h = (round(v * s) for v, s in zip(box, (256, 192, 256, 192), strict=True))
            image[y : y + h, x : x + w] = (200, 40 + n, 40) if right else image[y : y + h, x : x + w] + 3
            told = Sentence("A car has appeared.", "appeared", "car", box, 0.7, 0.8, after=box)
            evidence = Evidence(before=before, after=png(store, image))
            record = journal.append(narration(n, sentences=(told,)), evidence=evidence)
            said.say(record.id, 0, Opinion.RIGHT if right else Opinion.WRONG, who="ann")
        said.say("yard-of-old", 0, Opinion.WRONG)
    return tmp_path


def png(store: EvidenceStore, image: np.ndarray) -> str:
    done, content = cv2.imencode(".webp", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    assert done
    return store.put(content.tobytes(), "webp")


def test_the_command_learns_from_the_store_and_tells_what_it_gained(run: Run, watched: Path) -> None:
    out = watched / "mine.safetensors"
    asked = ("adapt", "--feedback", watched / FILE, "--journal", watched / "journal", "--out", out)
    code, shown, said = run(*asked)
    assert code == 0, said
    assert "yard: 60 corrections, 34 of them say it was right" in shown
    assert "43.3% of what is told was wrong, " in shown
    assert "100.0% of what was right is still told" in shown
    assert "shipped validation pairs" in shown
    assert "left out: 1 corrections: its record is in no journal here" in shown
    record = load_captioner(out).record
    assert list(record["lessons"]) == ["yard"]
    assert record["taught"]["cameras"]["yard"]["corrections"] == 60
    assert str(watched) not in json.dumps(record)
    code, shown, _ = run(*asked, "--checkpoint", out, "--json")
    assert code == 0
    yard = json.loads(shown)["cameras"]["yard"]
    assert yard["after"]["false"] < yard["before"]["false"] / 2
    assert yard["after"]["loss"] < yard["before"]["loss"]


def test_pictures_that_are_gone_and_files_that_are_none_are_told(run: Run, watched: Path) -> None:
    out = watched / "mine.safetensors"
    asked = ("adapt", "--journal", watched / "journal", "--checkpoint", SHIPPED["ddla"], "--out", out)
    code, shown, said = run(*asked, "--feedback", watched / FILE, "--evidence", watched / "nowhere")
    assert code == 0
    assert "left out: 60 corrections: its pictures are gone" in shown
    assert "nothing is written" in said
    assert not out.exists()
    code, _, said = run(*asked, "--feedback", watched / "none.sqlite3")
    assert code == 1
    assert "there is no feedback" in said
    assert run(*asked, "--feedback", watched / FILE, "--clips", watched)[0] == 2
    assert run("adapt", "--out", out)[0] == 2
