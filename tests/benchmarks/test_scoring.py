"""What `make bench-quality` works out by itself, beside the benchmark's scorer."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BOX = [0.2, 0.2, 0.2, 0.4]
ELSEWHERE = [0.7, 0.7, 0.2, 0.2]


def pair(**change: Any) -> dict[str, Any]:
    label = {
        "type": "appeared",
        "object": "person",
        "count": 1,
        "box_before": None,
        "box_after": BOX,
        "salient": True,
        "identity": "certain",
    }
    return {
        "id": "yard1",
        "camera": "yard",
        "conditions": {"scene": "lot", "gap": "2-10 s"},
        "changes": [label | change],
        "ignore": [],
    }


def said(text: str, box: list[float] | None = BOX, confidence: float | None = 0.9) -> list[dict[str, Any]]:
    return [{"text": text, "box": box, "confidence": confidence}]


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
    assert scoring.verdicts(scorer, pair(), told) == [(0.9, true)]
    assert scorer.score_pair(pair(), told)["full_right"] == true


@pytest.mark.footage
def test_what_does_not_count_is_not_judged(scoring: ModuleType, scorer: ModuleType) -> None:
    far = pair() | {"ignore": [ELSEWHERE]}
    told = [*said("A car has appeared.", ELSEWHERE), *said("Nothing has changed."), *said("A car is gone.")]
    assert scoring.verdicts(scorer, far, told) == [(0.9, False)]
    assert scoring.verdicts(scorer, far, said("A person has appeared.", confidence=None)) == []


@pytest.mark.footage
def test_verdicts_agree_with_the_scorer_on_the_benchmark(
    scoring: ModuleType, predictors: ModuleType, scorer: ModuleType
) -> None:
    pairs = predictors.unseen_pairs()
    assert len(pairs) == 126
    told = said("A car has appeared on the left.", None) + said("Two people are gone.", [0.3, 0.3, 0.4, 0.4])
    for one in pairs[::5]:
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


def test_the_benchmark_is_reached_beside_the_checkout_only(predictors: ModuleType) -> None:
    root = Path(__file__).resolve().parents[2]
    assert root.parent / "shared" == predictors.SHARED


@pytest.mark.footage
def test_a_row_says_how_right_a_predictor_is(scoring: ModuleType) -> None:
    pairs = [pair() | {"id": str(k)} for k in range(10)]
    told = {p["id"]: said("A person has appeared.") for p in pairs[:5]}
    text = scoring.report(pairs, {"half": told})
    assert "| half | .667 [.667, .667] | .667 | .667 (lot, 2-10 s) | 1.000 | .500 | - | .500 |" in text
    assert "| appeared | half | 5 | 0 | 0 |" in text
    assert "| half | 5 | 1.000 | .900 | .100 | - |" in text
