"""Captioners of every kind of input through the one loop: trained, measured, loaded; and what they get."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from models import CAPTIONERS
from models.papers.captioner import Sees
from models.papers.vocabulary import PAD, Vocabulary
from train.checkpoints import TrainError
from train.papers.batches import by_pair, epoch_batches, find_twins
from train.papers.config import load_config
from train.papers.training import TrainOptions, evaluate_on_folder, train, train_on_folder

CONFIGS = {path.stem: path for path in (Path(__file__).parents[3] / "configs" / "train").glob("*.yaml")}
del CONFIGS["grounded"]  # learns from labelled frames: test_chain
ATTENDING = {"features": 32, "words": 16, "hidden": 48, "attention": 16, "dropout": 0.1}
SMALL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("capt-masked", "capt-multi", "ddla"), ATTENDING),
    "capt-pix-diff": {"convolved": 16, "visual": 32, "words": 16, "hidden": 48, "dropout": 0.1},
    "duda": {"attention": 16, "groups": 4, "visual": 32, "words": 16, "hidden": 48, "dropout": 0.1},
    "idc-pcl": {"size": 32, "inner": 32, "heads": 2, "layers": 1},
    "nn": {"pool": 2},
    "spot-it": {"features": 32, "hidden": 48},
}


def small(content: dict[str, Any]) -> dict[str, Any]:
    """A training configuration with the toy encoder, two epochs long and without further images."""
    short = {"epochs": 2, "batch": 5, "learning_rate": 0.01, "warmup": 3, "seed": 2, "max_words": 24}
    sizes = {
        "encoder": "toy",
        "min_count": 1,
        "changes": {"eps": 3.0},
        "arguments": SMALL[content["captioner"]],
    }
    content = {**content, **sizes, "training": content.get("training", {}) | short}
    if "objective" in content:
        content["objective"]["arguments"] |= {
            "candidates": 4,
            "network": {"size": 24, "words": 12, "cells": 8},
        }
    if "pretraining" in content:
        content["pretraining"]["training"] |= {**short, "seed": 0}
        tasks = {"mlm": 8, "mvcl": 1, "fda": 2}
        content["pretraining"]["objective"]["arguments"] = {"tasks": tasks}
    return content


@pytest.fixture
def folder(make_samples) -> Path:
    """Twelve training pairs, of which two do not differ at all, and four validation pairs, of which one."""
    folder = make_samples(train=12, val=4)
    for name in ("train001", "train005", "val002"):
        (folder / f"{name}_2.png").write_bytes((folder / f"{name}.png").read_bytes())
    return folder


@pytest.mark.parametrize("name", [*CONFIGS, "capt-masked", "capt-multi", "capt-pix-diff"])
def test_it_is_trained_and_measured(name, folder, toy_encoder, tmp_path):
    """Every shipped configuration, made small, and further captioners of their families."""
    content = {"version": 1, "captioner": name}
    if name in CONFIGS:
        load_config(CONFIGS[name])
        content = yaml.safe_load(CONFIGS[name].read_text())
    config, out = tmp_path / "config.yaml", tmp_path / "some.safetensors"
    config.write_text(yaml.safe_dump(small(content)))
    trained, evaluation, _ = train_on_folder(folder, out, load_config(config))
    memorised = content["captioner"] == "nn"
    assert len(trained.curves) == (1 if memorised else 2)
    assert (evaluation.figures["perplexity"] is None) is memorised
    assert evaluation.figures["single"]["pairs"] == 4
    captioner, again, _ = evaluate_on_folder(folder, out)
    assert captioner.name == content["captioner"]
    assert again == evaluation
    known = 12 if captioner.whole else 10  # two pairs have no cluster, which is no hindrance to most
    assert captioner.record["train_annotations"] == known
    assert captioner.record["best_epoch"] == trained.best_epoch
    assert captioner.record["scores"]["val"].items() >= evaluation.figures.items()
    assert ("objective" in content) == (tmp_path / "some.tirg.safetensors").exists()
    assert ("pretraining" in content) == (tmp_path / "some-pretrained.safetensors").exists()


@pytest.mark.parametrize("name", ["capt", "ddla", "idc-pcl"])
def test_a_pair_is_looked_at_once_for_all_annotators(folder, load, toy_encoder, tmp_path, name):
    torch.manual_seed(0)
    arguments = SMALL.get(name, ATTENDING)
    captioner = CAPTIONERS[name]()(Vocabulary(["red", "car", "has", "moved"]), toy_encoder, **arguments)
    split, _ = load(folder, captioner.sees())
    further = tuple((position, ("a red car has moved", "no")) for position, _ in split.annotations[:3])
    split = replace(split, annotations=(*split.annotations, *further))
    together = by_pair(split)
    assert [position for position, _ in together.annotations] == sorted({p for p, _ in split.annotations})
    assert together.annotations[0][1] == (*split.annotations[0][1], "a red car has moved", "no")
    captioner.eval()
    sums = []
    for each in (split, together):
        batches = epoch_batches(each, captioner.vocabulary, 4, seed=0, epoch=0, max_words=24)
        with torch.inference_mode():
            sums.append(sum(float(captioner.log_likelihood(*batch).sum()) for batch in batches))
    assert sums[0] == pytest.approx(sums[1], rel=1e-5), "and is as likely to be told as it was"
    out = tmp_path / "by-pair.safetensors"
    trained = train(captioner, split, split, TrainOptions(epochs=1, batch=4, by_pair=True), out)
    assert (len(trained.curves), captioner.record["training"]["by_pair"]) == (1, True)


def test_views_of_a_scene_change_places(folder, load, toy_encoder, tmp_path):
    """Six scenes as in CLEVR-Change: a changed pair, and a distractor with the same before frame."""
    entries = json.loads((folder / "train.json").read_text())
    for k in range(0, 12, 2):
        name, other = entries[k]["img_id"], entries[k + 1]["img_id"]
        entries[k] |= {"before": f"{name}.png", "after": f"{name}_2.png"}
        entries[k + 1] |= {"before": f"{name}.png", "after": f"{other}_2.png", "kind": "distractor"}
    (folder / "train.json").write_text(json.dumps([*entries, entries[0] | {"sentences": ["the car"]}]))
    split, _ = load(folder, Sees(whole=True, images=True))
    assert find_twins(split.samples) == {k: k | 1 for k in range(12)}
    plain, words = split.features.batch(range(12), whole=True), Vocabulary.build(["the car"], 1)
    views = [(side, k) for k in range(12) for side in (0, 1)]

    def view_of(maps: torch.Tensor) -> tuple[int, int]:
        """Whether it is a before or an after frame, and of which pair."""
        return next((side, k) for side, k in views if torch.equal(plain.maps[side][k], maps))

    for epoch, swapped, few, many in ((0, 1.0, 13, 13), (1, 0.5, 1, 12), (2, 0.0, 0, 0)):
        swaps = rows = 0
        for pairs, _ in epoch_batches(split, words, 5, seed=0, epoch=epoch, max_words=9, swapped=swapped):
            for first, second, picture in zip(*pairs.maps, pairs.before, strict=True):
                (side, k), after = view_of(first), view_of(second)
                assert torch.equal(picture, (plain.before, plain.after)[side][k])
                rows += 1
                if side == 1:  # the other view is first: then comes what changed, or the scene itself
                    swaps += 1
                    assert k % 2 == 1
                    assert after in ((1, k - 1), (0, k - 1), (0, k))
        assert rows == 13
        assert few <= swaps <= many
    captioner = CAPTIONERS["capt-masked"]()(words, toy_encoder, **ATTENDING)
    options = TrainOptions(epochs=1, swapped=0.5)
    with pytest.raises(TrainError, match=r"capt-masked looks at masks.* leave out training\.swapped"):
        train(captioner, split, split, options, tmp_path / "x.safetensors")


def test_an_epoch_can_draw_one_annotation_of_each_pair(splits):
    split, words = splits[0], Vocabulary.build(["red", "the car"], 1)
    more = tuple((position, ("red",)) for position, _ in split.annotations)
    split = replace(split, annotations=(*split.annotations, *more))
    told = set()
    for epoch in range(4):
        batches = list(epoch_batches(split, words, 5, seed=0, epoch=epoch, max_words=9, drawn=True))
        assert sum(len(tokens) for _, tokens in batches) == len(split.samples)
        told.add(tuple(int((tokens != PAD).sum()) for _, tokens in batches))
    assert len(told) > 1, "drawn anew"
    with pytest.raises(ValueError, match="choose"):
        TrainOptions(drawn=True, by_pair=True)
