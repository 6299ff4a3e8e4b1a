"""Fitting decisions: labels find their observations, and the fit tells moves from arrivals."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from rectangles import COLOURS, GREY, see_rectangles

from models.grounded.association import CHANGE_COLUMNS, probability
from train.checkpoints import TrainError
from train.grounded.decisions import IGNORED, NONE, UNKNOWN, DecisionExample, examples, fit

WIDTH, HEIGHT = 512, 448
STANDS, LEFT, RIGHT = (40, 300, 80, 60), (150, 100, 80, 60), (370, 100, 80, 60)
Place = tuple[int, int, int, int]


def still(path: Path, *places: Place) -> None:
    picture = np.full((HEIGHT, WIDTH, 3), GREY, np.uint8)
    for x, y, w, h in places:
        picture[y : y + h, x : x + w] = COLOURS["car"]
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), picture[..., ::-1])


def share(place: Place) -> list[float]:
    x, y, w, h = place
    return [x / WIDTH, y / HEIGHT, w / WIDTH, h / HEIGHT]


@pytest.fixture
def labels(tmp_path) -> Path:
    """A car moves, and within the same time one appears; another stands there in all stills."""
    rows = []
    for name, before, after, change in (
        ("moved", (STANDS, LEFT), (STANDS, RIGHT), {"box_before": share(LEFT), "box_after": share(RIGHT)}),
        ("appeared", (STANDS,), (STANDS, RIGHT), {"box_before": None, "box_after": share(RIGHT)}),
        ("unsure", (STANDS, LEFT), (STANDS, RIGHT), {"box_before": share(LEFT), "box_after": share(RIGHT)}),
    ):
        for side, places in (("before", before), ("after", after)):
            still(tmp_path / "footage" / "yard" / f"{name}_{side}.png", *places)
        kind = {"type": "appeared" if name == "appeared" else "moved", "object": "car"}
        kind["identity"] = "unsure" if name == "unsure" else "certain"
        clips = {side: {"clip": f"{name}_{side}.png", "frame": 0} for side in ("before", "after")}
        rows.append({"id": name, "camera": "yard", "gap_s": 2.0, **clips, "changes": [{**kind, **change}]})
    rows[2]["ignore"] = [share(STANDS)]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def known(labels) -> list[DecisionExample]:
    captioner = see_rectangles()
    return examples(captioner, [labels], labels.parent / "footage")


def test_labels_find_their_observations(known):
    moved, appeared, unsure = known
    assert [sorted(side.tolist()) for side in moved.labels] == [[NONE, 0], [NONE, 0]]
    assert [sorted(side.tolist()) for side in appeared.labels] == [[NONE], [NONE, 0]]
    assert [sorted(side.tolist()) for side in unsure.labels] == [[IGNORED, 0], [IGNORED, 0]]
    assert [each.moved for each in known] == [(True,), (False,), (None,)]


def test_the_fit_mentions_changes_from_what_stands_and_moves_from_arrivals(known):
    weights = fit(known)
    for each, moves in zip(known[:2], (True, False), strict=True):
        _, after = each.association.outcome_signs(each.association.match(weights.match))
        changed = each.labels[1] == 0
        change = probability(after[:, CHANGE_COLUMNS], weights.change)
        assert change[changed].min() > 0.5 > change[~changed].max()
        assert (probability(after[changed], weights.move)[0] > 0.5) == moves


def test_what_nobody_can_tell_speaks_against_a_change(known):
    moved, appeared, _ = known
    stands = moved.labels[1] == NONE

    def chance(label: int) -> float:
        """That the car that stands there is a change, where it is labelled so."""
        before, after = moved.labels
        weights = fit([replace(moved, labels=(before, np.where(stands, label, after))), appeared])
        _, after = moved.association.outcome_signs(moved.association.match(weights.match))
        return float(probability(after[:, CHANGE_COLUMNS], weights.change)[stands][0])

    against, little, nothing = (chance(label) for label in (NONE, IGNORED, UNKNOWN))
    assert against < (against + nothing) / 2 < little < nothing, "less than what is no change"


def test_labels_of_one_kind_teach_nothing(known):
    with pytest.raises(TrainError, match="changes of every type"):
        fit(known[1:2])


def test_footage_that_is_not_there_is_named(labels, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    captioner = see_rectangles()
    with pytest.raises(TrainError, match=r"0 files moved_before\.png of camera yard"):
        examples(captioner, [labels], tmp_path / "elsewhere")
