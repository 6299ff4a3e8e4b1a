"""Nothing is left on the CPU when a run is on another device, and every row trains in bfloat16.

There is no GPU here: `pretend_device` is one that tests can have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pretend_device import pretend_device

from models import CAPTIONERS
from models.captioner import PairBatch
from models.encoders.encoder import Encoder
from models.label import read_label
from models.language.vocabulary import Vocabulary
from models.papers.tirg import load_tirg
from pipeline.changes import ChangeOptions
from train.learning.batches import load_split
from train.learning.config import TrainConfig, build_captioner, build_objective, checked_config
from train.learning.objectives import Step
from train.learning.retrieval import split_recall
from train.learning.run_options import QUIET
from train.learning.runs import evaluate_on_folder, train_on_folder
from train.papers.comparison import CompareOptions, Shelf
from train.papers.side_by_side import compare_rows
from train.papers.suites import Claim, PaperTable, Suite, System

ATTENDING = {"features": 16, "words": 8, "hidden": 16, "attention": 8}
DUAL = {"attention": 8, "groups": 4, "visual": 16, "words": 8, "hidden": 16}
POOLED = {"convolved": 8, "visual": 16, "words": 8, "hidden": 16}
TRANSFORMER = {"size": 16, "inner": 16, "heads": 2, "layers": 1}
ROWS: dict[str, dict[str, Any]] = {
    "ddla": ATTENDING,
    "nn": {},
    "nn-multi": {},
    "capt": ATTENDING,
    "capt-masked": ATTENDING,
    "capt-multi": ATTENDING,
    "capt-pix-diff": POOLED,
    "capt-rep-diff": POOLED,
    "capt-att": DUAL,
    "capt-dual-att": DUAL,
    "duda": DUAL,
    "dirl": ATTENDING,
    "ccr": ATTENDING | {"common": 8},
    "scorer": ATTENDING,
    "spot-it": {"features": 16, "hidden": 16, "attention": 8},
    "idc-pcl": TRANSFORMER,
}
NETWORK = {"size": 16, "words": 8, "cells": 4}
JOINT = {"name": "joint", "arguments": {"network": NETWORK, "hard_from": 1}}
CAPTIONS = {"name": "joint", "arguments": {"network": NETWORK, "against": "captions"}}
BEFORE = {
    "objective": {"name": "pretraining", "arguments": {"tasks": {"mlm": 1, "mvcl": 1, "fda": 1}}},
    "training": {"epochs": 2, "batch": 5},
}
FURTHER: dict[str, dict[str, Any]] = {
    "duda, joint": {"captioner": "duda", "arguments": DUAL, "objective": JOINT},
    "duda, captions": {"captioner": "duda", "arguments": DUAL, "objective": CAPTIONS},
    "idc-pcl, pre-trained": {"captioner": "idc-pcl", "arguments": TRANSFORMER, "pretraining": BEFORE},
}
EVERY = {name: {"captioner": name, "arguments": small} for name, small in ROWS.items()} | FURTHER


@pytest.fixture
def folder(make_samples: Callable[..., Path]) -> Path:
    return make_samples(train=6, val=2)


def configured(content: dict[str, Any]) -> TrainConfig:
    training = {"epochs": 1, "batch": 5, "learning_rate": 0.003}
    changes = {"eps": 3.0}
    return checked_config(
        {"version": 1, "encoder": "toy", "min_count": 1, "training": training, "changes": changes} | content,
        "here",
    )


def test_every_paper_captioner_is_tried() -> None:
    assert set(ROWS) == set(CAPTIONERS) - {"grounded"}, "the grounded one has tests of its own"


@pytest.mark.slow
@pytest.mark.parametrize("row", EVERY)
def test_a_run_on_another_device_leaves_nothing_behind(
    row: str, folder: Path, toy_encoder: Encoder, tmp_path: Path
) -> None:
    config, out = configured(EVERY[row]), tmp_path / "out.safetensors"
    with pretend_device() as device:
        trained, scores = train_on_folder(folder, out, config, device=str(device))
        captioner, again = evaluate_on_folder(folder, out, device=str(device))
        assert captioner.device == device
    assert math.isfinite(trained.curves[-1].train_loss)
    assert again.plain() == scores.plain()
    _, here = evaluate_on_folder(folder, out)
    assert here.perplexity == (scores.perplexity and pytest.approx(scores.perplexity, rel=1e-3))
    if "joint" in row:
        with pretend_device() as device:
            network = load_tirg(out.with_name("out.tirg.safetensors"), device)
            split = load_split(
                folder, "val", toy_encoder, ChangeOptions(eps=3.0), cache=tmp_path / "cache", whole=True
            )
            assert split_recall(network, split).pairs == 2


@pytest.mark.slow
def test_rows_are_compared_on_another_device(folder: Path, toy_encoder: Encoder, tmp_path: Path) -> None:
    """One encoder and one cache for all rows, whichever was first."""
    common = {
        "encoder": "toy",
        "min_count": 1,
        "changes": {"eps": 3.0},
        "training": {"epochs": 1, "batch": 5},
    }
    rows = tuple(
        System(name, name, {**common, "captioner": name, "arguments": ROWS[name]})
        for name in ("capt", "ddla", "capt-pix-diff", "spot-it")
    )
    suite = Suite(
        "toy", "nobody's", "toy", rows, (PaperTable("All", (), tuple(ROWS), {}),), (Claim("", "", ""),)
    )
    with pretend_device() as device:
        options = CompareOptions(folder, tmp_path / "out", seeds=(0,), size="full", device=str(device))
        [(_, results)] = compare_rows(suite, options)
        shelf = Shelf(options, None, QUIET)
        assert shelf.encoder(configured(EVERY["capt"])).device == device, "so features are computed there"
    assert [r.row for r in results] == [row.key for row in rows]


def test_a_run_trains_in_bfloat16(folder: Path, toy_encoder: Encoder, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    trained, _ = train_on_folder(folder, out, configured(EVERY["capt"]), bf16=True)
    assert math.isfinite(trained.curves[-1].train_loss)
    assert read_label(out).record["precision"] == "bfloat16"


@pytest.mark.parametrize("row", [row for row in EVERY if not row.startswith("nn")])
def test_every_rows_loss_in_bfloat16_is_near_that_in_float32(
    row: str, folder: Path, toy_encoder: Encoder, tmp_path: Path
) -> None:
    config = configured(EVERY[row])
    torch.manual_seed(0)
    captioner = build_captioner(
        config, Vocabulary.build(["the red car has moved", "on the left"], 1), toy_encoder
    )
    split = load_split(
        folder,
        "train",
        toy_encoder,
        config.changes,
        cache=tmp_path,
        whole=captioner.whole,
        images=captioner.needs_images,
    )
    wanted = config.pretraining.objective if config.pretraining else config.objective
    objective = build_objective(wanted, captioner, split)
    tokens = captioner.vocabulary.batch([split.samples[p].sentences for p in range(4)])
    pairs = split.features.batch(range(4), whole=True)

    def loss(pairs: PairBatch) -> float:
        torch.manual_seed(1)
        captioner.eval().zero_grad()
        if objective is None:
            value = captioner.loss(pairs, tokens)
        else:
            value = objective.eval().loss(captioner, pairs, tokens, Step(1, 1, 3))
        value.backward()
        assert all(torch.isfinite(p.grad).all() for p in captioner.parameters() if p.grad is not None)
        return float(value.detach())

    exact = loss(pairs)
    with torch.autocast("cpu", torch.bfloat16):
        assert loss(pairs) == pytest.approx(exact, rel=0.05, abs=0.02)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("row", EVERY)
def test_a_run_on_a_gpu(row: str, folder: Path, toy_encoder: Encoder, tmp_path: Path) -> None:
    config, out = configured(EVERY[row]), tmp_path / "out.safetensors"
    trained, scores = train_on_folder(folder, out, config, device="cuda")
    assert math.isfinite(trained.curves[-1].train_loss)
    assert read_label(out).record["precision"] == "bfloat16"
    _, here = evaluate_on_folder(folder, out)
    assert here.perplexity == (scores.perplexity and pytest.approx(scores.perplexity, rel=0.02))
