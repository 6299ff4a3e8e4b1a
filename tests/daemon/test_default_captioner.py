"""What ships, on a scene that it was not trained on."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from daemon.plan import CameraPlan
from models import load_captioner
from pipeline.changes import find_changes
from pipeline.narration import narrate
from pipeline.pairs import candidate_pairs
from pipeline.sources import open_source
from pipeline.thresholds import calibrate


@pytest.mark.footage
def test_people_on_the_path_are_told_as_people(clips: Path) -> None:
    """In vtest nothing but people moves: what is told is about people, somewhere in the picture."""
    plan, captioner = CameraPlan("vtest", str(clips / "opencv_vtest.avi")), load_captioner()
    with open_source(plan.url, plan.source, plan.name) as source:
        thresholds = calibrate(source).thresholds
        pairs = list(itertools.islice(candidate_pairs(source, thresholds, plan.pairs), 8))
    changes = find_changes(pairs, plan.change_options(captioner), captioner.salience)
    narrations = narrate(changes, captioner, plan.describe)
    sentences = [s for narration in narrations for s in narration.sentences]
    assert sum(bool(n.sentences) for n in narrations) >= 7
    people = [s for s in sentences if s.object == "person"]
    assert len(people) >= 0.8 * len(sentences)
    assert {"appeared", "disappeared"} <= {s.type for s in people}
    for sentence in sentences:
        assert sentence.box is not None
        x, y, width, height = sentence.box
        assert 0 <= x < x + width <= 1 + 1e-6
        assert 0 <= y < y + height <= 1 + 1e-6
