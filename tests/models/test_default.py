"""The checkpoint that ships: it loads, says how it was made, and was not made from the test scene."""

from __future__ import annotations

import json

import pytest

from models import DEFAULT_CHECKPOINT, load_captioner
from models.captioner import Captioner

COMPOSED = DEFAULT_CHECKPOINT.with_suffix(".compose.json")


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    return load_captioner()


def test_is_small_and_says_how_it_was_made(captioner: Captioner) -> None:
    assert DEFAULT_CHECKPOINT.stat().st_size < 25e6
    record = captioner.record
    assert record["command"].startswith("narrated-train train --data ")
    assert record["training"]["seed"] == 1
    assert record["metric"] == "val_cider"
    best = max(record["curves"], key=lambda point: point["val_cider"])
    assert record["best_epoch"] == best["epoch"]
    assert record["scores"]["val"]


def test_its_data_is_recorded_clip_by_clip_without_the_test_scene() -> None:
    composed = json.loads(COMPOSED.read_text())
    assert composed["options"]["seed"] == 1
    assert all(len(sha256) == 64 for sha256 in composed["clips"].values())
    assert "tfl_tooley-st-bermondsey-st.mp4" in composed["clips"]
    assert not [clip for clip in composed["clips"] if "vtest" in clip]


def test_knows_the_words_it_needs(captioner: Captioner) -> None:
    words = set(captioner.vocabulary.words)
    assert {"person", "car", "appeared", "disappeared", "moved", "left", "right", "nothing"} <= words
