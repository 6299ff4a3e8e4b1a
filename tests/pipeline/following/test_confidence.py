"""How sure a fact of a track is, from what speaks for it."""

from __future__ import annotations

from math import log

import pytest

from pipeline.following.confidence import CALIBRATION, WEIGHTS, confidence
from pipeline.following.events import EVIDENCE


def odds(kind: str, **evidence: float) -> float:
    """Log odds of a fact of which only this evidence is not 0."""
    sure = confidence(kind, [evidence.get(name.replace(" ", "_"), 0.0) for name in EVIDENCE])
    return log(sure / (1 - sure))


@pytest.mark.parametrize("kind", WEIGHTS)
def test_evidence_adds_up_and_calibration_keeps_its_order(kind: str) -> None:
    slope, offset = CALIBRATION.get(kind, (1.0, 0.0))
    bias, *weights = WEIGHTS[kind]
    assert slope > 0
    assert odds(kind) == pytest.approx(slope * bias + offset)
    assert odds(kind, share_seen=1.0) - odds(kind) == pytest.approx(slope * weights[4])
    both = odds(kind, share_seen=1.0, mean_score=0.5)
    assert both - odds(kind, share_seen=1.0) == pytest.approx(slope * weights[0] / 2)


def test_an_entrance_as_well_seen_as_a_departure_is_no_longer_doubted_more() -> None:
    """Who is seen in every frame, surely and by the edge, is told whether he comes or goes."""
    seen = {"mean_score": 0.4, "score_at_the_end": 0.35, "best_score": 0.5, "share_seen": 1.0}
    seen |= {"log_of_sights": log(6), "at_the_edge": 1.0, "pixels_changed": 0.5, "log_height": -2.0}
    came, left = (odds(kind, likeness=0.9, **seen) for kind in ("appeared", "disappeared"))
    assert came > 0
    assert left > 0
