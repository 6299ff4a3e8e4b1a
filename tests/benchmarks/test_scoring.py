"""What `make bench-quality` counts by itself, beside the benchmark's scorer."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BOX = [0.2, 0.2, 0.2, 0.4]
ELSEWHERE = [0.7, 0.7, 0.2, 0.2]


def pair(count: int = 2, camera: str = "yard", gap: str = "2-10 s", **change: Any) -> dict[str, Any]:
    label = {
        "type": "appeared",
        "object": "person",
        "count": count,
        "box_before": None,
        "box_after": BOX,
        "salient": True,
        "identity": "certain",
    }
    return {
        "id": f"{camera}{count}{gap}",
        "camera": camera,
        "conditions": {"scene": "lot", "gap": gap},
        "changes": [label | change],
        "ignore": [],
    }


def said(text: str, box: list[float] | None = BOX, confidence: float | None = 0.9) -> list[dict[str, Any]]:
    return [{"text": text, "box": box, "confidence": confidence}]


@pytest.mark.footage
@pytest.mark.parametrize(
    ("texts", "right"),
    [
        (["Two people have appeared on the left."], 1),
        (["2 people have appeared on the left."], 1),
        (["A person has appeared.", "A person has appeared."], 1),
        (["Three people have appeared on the left."], 0),
        (["A person has appeared on the left."], 0),
        (["Several people have appeared on the left."], 0),
    ],
)
def test_all_sentences_about_a_label_together_tell_its_number(
    scoring: ModuleType, scorer: ModuleType, texts: list[str], right: int
) -> None:
    counts = scoring.counted(scorer, pair(), [s for text in texts for s in said(text)])
    assert (counts["numbers"], counts["number_right"]) == (1, right)
    assert (counts["groups"], counts["group_right"]) == (1, right)
    assert counts["matched"] == len(texts)


@pytest.mark.footage
def test_what_is_told_of_a_single_object_is_counted_but_no_group(
    scoring: ModuleType, scorer: ModuleType
) -> None:
    alone = scoring.counted(scorer, pair(1), said("A person has appeared."))
    assert (alone["numbers"], alone["number_right"], alone["groups"]) == (1, 1, 0)
    assert scoring.counted(scorer, pair(1), said("Two people have appeared."))["number_right"] == 0
    assert scoring.counted(scorer, pair(), said("Nothing has changed."))["numbers"] == 0


@pytest.mark.footage
def test_one_who_left_here_and_came_there_is_one(scoring: ModuleType, scorer: ModuleType) -> None:
    moved = pair(1, type="moved", identity="unsure", box_before=BOX)
    twice = [*said("The person is gone."), *said("A person has appeared.")]
    counts = scoring.counted(scorer, moved, twice)
    assert (counts["matched"], counts["numbers"], counts["number_right"]) == (2, 1, 1)


@pytest.mark.footage
def test_a_plural_that_covers_two_labels_counts_both(scoring: ModuleType, scorer: ModuleType) -> None:
    two = pair(1)
    two["changes"].append({**two["changes"][0], "box_after": [0.35, 0.2, 0.2, 0.4]})
    wide = said("Two people have appeared.", [0.2, 0.2, 0.35, 0.4])
    counts = scoring.counted(scorer, two, wide)
    assert (counts["number_right"], counts["appeared not told"]) == (1, 0)


@pytest.mark.footage
def test_certain_labels_are_told_as_something_or_not_told(scoring: ModuleType, scorer: ModuleType) -> None:
    counts = scoring.counted(scorer, pair(1), said("The person has moved."))
    counts += scoring.counted(scorer, pair(1), said("A person has appeared."))
    counts += scoring.counted(scorer, pair(1), said("There is a person walking."))
    counts += scoring.counted(scorer, pair(1), [])
    counts += scoring.counted(scorer, pair(1, identity="unsure"), [])
    counts += scoring.counted(scorer, pair(1, salient=False), [])
    told = scoring.confusion(counts)
    assert told["appeared"] == {"appeared": 1, "disappeared": 0, "moved": 1, "otherwise": 1, "not told": 1}
    assert not any(told["moved"].values())
    assert scoring.further_figures(scorer, counts)["told as moved"] == pytest.approx(1 / 3)


@pytest.mark.footage
def test_seeds_are_added_up_and_shown_apart(scoring: ModuleType, scorer: ModuleType) -> None:
    pairs = [pair(2, "yard"), pair(2, "door")]
    right = {p["id"]: said("Two people have appeared.") for p in pairs}
    line = scoring.scored(scorer, pairs, scoring.Row("half", [right, {}]))
    assert line.seeds == (1.0, 0.0)
    assert line.figures["full recall"] == 0.5
    assert line.figures["missed"] == 0.5
    assert line.figures["exact count"] == 1.0
    assert line.confusion["appeared"]["not told"] == 2
    assert [group.labels for group in line.groups] == [2]


@pytest.mark.footage
def test_cameras_count_the_same_and_the_worst_large_group_is_named(
    scoring: ModuleType, scorer: ModuleType
) -> None:
    many = [pair(1, "yard", ">= 5 min") | {"id": str(k)} for k in range(20)]
    pairs = [*many, pair(1, "door"), pair(1, "gate", "<2 s"), pair(1, "wall", salient=False)]
    told = {p["id"]: said("A person has appeared.") for p in (*many[:5], pairs[20])}
    line = scoring.scored(scorer, pairs, scoring.Row("some", [told]))
    yard = 2 * 0.25 / 1.25
    assert line.cameras == {"yard": pytest.approx(yard), "door": 1.0, "gate": 0.0}
    assert line.camera_mean == pytest.approx((yard + 1) / 3)
    assert line.groups[0].name == "lot, <2 s"
    assert line.worst == scoring.Group("lot, >= 5 min", 20, pytest.approx(yard))
    assert scoring.scored(scorer, pairs[20:], scoring.Row("few", [told])).worst is None


@pytest.mark.footage
@pytest.mark.parametrize(
    ("text", "box", "true"),
    [
        ("A person has appeared on the left.", BOX, True),
        ("A person has appeared on the left.", None, True),
        ("A person has appeared.", None, False),
        ("A car has appeared.", BOX, False),
        ("The person has moved.", BOX, False),
        ("A person has appeared.", ELSEWHERE, False),
    ],
)
def test_a_sentence_is_true_where_the_scorer_calls_it_fully_right(
    scoring: ModuleType, scorer: ModuleType, text: str, box: list[float] | None, true: bool
) -> None:
    told = said(text, box)
    assert scoring.verdicts(scorer, pair(1), told) == [(0.9, true)]
    assert scorer.score_pair(pair(1), told)["full_right"] == true


@pytest.mark.footage
def test_what_does_not_count_is_not_judged(scoring: ModuleType, scorer: ModuleType) -> None:
    far = pair(1) | {"ignore": [ELSEWHERE]}
    told = [*said("A car has appeared.", ELSEWHERE), *said("Nothing has changed."), *said("A car is gone.")]
    assert scoring.verdicts(scorer, far, told) == [(0.9, False)]
    assert scoring.verdicts(scorer, far, said("A person has appeared.", confidence=None)) == []


@pytest.mark.footage
def test_verdicts_agree_with_the_scorer_on_the_benchmark(
    scoring: ModuleType, predictors: ModuleType, scorer: ModuleType
) -> None:
    parts = predictors.parts()
    assert (len(parts["unseen"]), len(parts["seen"]), len(parts["further"])) == (126, 47, 48)
    assert {p["id"] for p in parts["further"]} < {p["id"] for p in parts["unseen"]}
    told = said("A car has appeared on the left.", None) + said("Two people are gone.", [0.3, 0.3, 0.4, 0.4])
    for one in (*parts["unseen"][::5], *parts["seen"][::5]):
        counts, judged = scorer.score_pair(one, told), scoring.verdicts(scorer, one, told)
        assert (counts["sentences"], counts["full_right"]) == (len(judged), sum(true for _, true in judged))


def test_confidence_that_is_a_probability_has_no_calibration_error(scoring: ModuleType) -> None:
    honest = scoring.calibration([(0.75, True)] * 3 + [(0.75, False)] + [(0.0, False)] * 4)
    assert (honest.sentences, honest.true, honest.confidence) == (8, 0.375, 0.375)
    assert honest.ece == pytest.approx(0.0)
    assert honest.auc == pytest.approx((12 + 1.5) / 15)
    boasting = scoring.calibration([(1.0, False), (1.0, True), (0.2, True), (0.2, True)])
    assert boasting.ece == pytest.approx((0.5 * 2 + 0.8 * 2) / 4)
    assert boasting.auc == pytest.approx((0 + 0 + 0.5) / 3)


def test_without_confidence_or_without_a_wrong_sentence_there_is_no_figure(scoring: ModuleType) -> None:
    assert scoring.calibration([]) is None
    assert math.isnan(scoring.calibration([(0.5, True)]).auc)


def test_a_label_told_without_a_verb_is_told_otherwise(scoring: ModuleType) -> None:
    counts = Counter({"moved told as None": 2, "moved told as replaced": 1, "moved told as moved": 4})
    assert scoring.confusion(counts)["moved"]["otherwise"] == 3


def test_the_benchmark_is_reached_beside_the_checkout_only(predictors: ModuleType) -> None:
    root = Path(__file__).resolve().parents[2]
    assert root.parent / "shared" == predictors.SHARED
