"""The checkpoints that ship: they load, say how they were made, and were not made from the test scene."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models import CAPTIONERS, DEFAULT, DEFAULT_CHECKPOINT, SHIPPED, load_captioner
from models.captioner import Captioner
from models.encoder import ENCODERS
from models.grounded.detections import OBJECTS
from models.wording import COLOURS, read

COMPOSED = sorted(DEFAULT_CHECKPOINT.parent.glob("*.compose.json"))


@pytest.fixture(scope="module", params=SHIPPED)
def shipped(request: pytest.FixtureRequest) -> Captioner:
    return load_captioner(SHIPPED[request.param])


def test_the_default_is_the_grounded_one() -> None:
    assert (DEFAULT, load_captioner().name) == ("grounded", "grounded")
    assert set(SHIPPED) <= set(CAPTIONERS)
    assert all(load_captioner(path).name == name for name, path in SHIPPED.items())


def test_the_default_loads_no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has eyes of its own."""
    for name in set(ENCODERS) - {"none"}:
        monkeypatch.setitem(ENCODERS, name, lambda *_: pytest.fail("an encoder was loaded"))
    assert load_captioner().encoder.name == "none"


def test_is_small_and_says_how_it_was_made(shipped: Captioner) -> None:
    assert SHIPPED[shipped.name].stat().st_size < 25e6
    record = shipped.record
    assert record["command"].startswith("narrated-train train --data ")
    assert record["training"]["seed"] >= 1
    assert f"--seed {record['training']['seed']}" in record["command"]
    assert all(len(record[f"{split}_sha256"]) == 64 for split in ("train", "val"))
    assert record["train_pairs"] >= 1000
    assert record["changes"]["size"]
    assert record["versions"].keys() >= {"narrated", "torch", "numpy"}
    [chosen] = [point for point in record["curves"] if point["epoch"] == record["best_epoch"]]
    metric = chosen[record["metric"]]
    assert metric in {pick(point[record["metric"]] for point in record["curves"]) for pick in (min, max)}


def test_finds_changes_as_it_was_trained_to() -> None:
    """The paper's captioner with the paper's clusters, the default with finer ones of larger pictures."""
    paper, default = (load_captioner(SHIPPED[name]).record["changes"] for name in ("ddla", "grounded"))
    assert (paper["size"], paper["eps"], paper["min_samples"]) == ([224, 224], 20.0, 9)
    assert (default["size"], default["max_shift"], default["max_clusters"]) == ([288, 384], 8, 16)
    assert default["eps"] < paper["eps"]
    assert default["min_area"] == 0.001


@pytest.mark.parametrize("path", COMPOSED, ids=lambda path: path.name)
def test_its_data_is_recorded_clip_by_clip_without_the_test_scene(path: Path) -> None:
    composed = json.loads(path.read_text())
    assert path.name.removesuffix(".compose.json") in SHIPPED
    assert composed["options"]["seed"] >= 1
    assert composed["clips"]
    assert all(len(sha256) == 64 for sha256 in composed["clips"].values())
    assert not [clip for clip in composed["clips"] if "vtest" in clip]


def test_ddla_has_its_data_recorded() -> None:
    assert SHIPPED["ddla"].with_suffix(".compose.json") in COMPOSED


def test_ddla_knows_the_words_it_needs() -> None:
    words = set(load_captioner(SHIPPED["ddla"]).vocabulary.words)
    assert {"person", "car", "appeared", "disappeared", "moved", "left", "right", "nothing"} <= words


def test_the_grounded_one_knows_words_for_its_facts() -> None:
    """Where it has none, the plain sentence steps in; it must not need to for the commonest facts."""
    words = set(load_captioner().vocabulary.words)
    assert {"person", "people", "car", "appeared", "gone", "moved"} <= words
    assert {"left", "right", "background", "foreground"} <= words
    spoken = {read(f"a {word} has appeared").object for word in words}
    assert len(spoken & set(OBJECTS)) >= 5
    assert not words & set(COLOURS), "a colour is measured, not guessed by the decoder"
