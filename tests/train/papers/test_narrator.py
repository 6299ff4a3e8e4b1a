"""The daemon's narrator as a row of the tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models import load_captioner
from models.captioner import Sentence
from models.language.wording import read
from train.compose.grammar import caption
from train.learning.batches import load_split
from train.learning.config import build_encoder, checked_config
from train.papers.generated import GenerateOptions, StageOptions, generate
from train.papers.narrator import narrated, narrator_result, spoken, spoken_as_composed
from train.samples import SampleChange

LEFT, MIDDLE = (0.1, 0.4, 0.1, 0.1), (0.45, 0.45, 0.1, 0.1)


def said(text: str, kind: str, name: str, **more: object) -> Sentence:
    return replace(Sentence(text, kind, name, None, 1.0, 0.9), **more)  # type: ignore[arg-type]


def test_facts_are_spoken_in_the_benchmarks_grammar() -> None:
    gone = said("The red car on the left has driven off.", "disappeared", "car", before=LEFT)
    assert spoken(gone) == "the red car on the left is gone"
    came = said("Two people have walked in.", "appeared", "person", count=2, after=MIDDLE)
    assert spoken(came) == "there are now two people"
    for kind in ("appeared", "disappeared", "moved", "more", "fewer", "replaced"):
        told = read(spoken(said("", kind, "truck", after=LEFT)))
        assert (told.type, told.object) == (kind, "truck")
    assert spoken(said("", "unknown", "gondola")).startswith("there is now")


@pytest.mark.parametrize("kind", ["appeared", "disappeared", "moved", "more", "fewer", "replaced"])
def test_facts_of_composed_pairs_are_spoken_as_those_are_captioned(kind: str) -> None:
    before, after = None if kind == "appeared" else LEFT, None if kind == "disappeared" else MIDDLE
    told = said("The truck has driven off.", kind, "truck", before=before, after=after)
    change = SampleChange(kind, "truck", 1, before, after)
    assert spoken_as_composed(told) == caption(change, "plain", np.random.default_rng(0))
    unplaced = said("", kind, "truck", box=LEFT)
    assert read(spoken_as_composed(unplaced)).object == "truck"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("generated") / "set"
    stage = StageOptions(balanced=True, ignored=0.0)
    generate(GenerateOptions(20, seed=6, side=448, cameras=10, stage=stage), out)
    return out


@pytest.mark.slow
def test_the_row_is_scored_as_the_others(folder: Path, tmp_path: Path) -> None:
    config = checked_config({"version": 1, "captioner": "nn", "encoder": "none"}, "here")
    captioner = load_captioner()
    split = load_split(folder, "test", build_encoder(config), config.changes, cache=tmp_path, whole=True)
    result = narrator_result(split, [("nothing has changed",)], captioner)
    assert len(result.single) == len(result.multi) == len(split.samples)
    assert result.value("single.cider") is not None
    assert result.value("truth.type") is not None
    told = narrated(split.samples, captioner)
    assert any(told), "it sees some of these drawings"
    seen = next(sample for sample, sentences in zip(split.samples, told, strict=True) if sentences)
    composed = narrated([replace(seen, kind="pasted")], captioner)[0]
    drawn = told[split.samples.index(seen)]
    assert [read(text).type for text in composed] == [read(text).type for text in drawn]
    assert composed != drawn
    assert [one or ["nothing has changed"] for one in told] == [
        [text] if len(one) < 2 else one for one, text in zip(told, result.single, strict=True)
    ]
