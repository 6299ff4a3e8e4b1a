import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models import CAPTIONERS
from models.captioner import Captioner
from models.checkpoint import CheckpointError
from models.papers.captioner import PairBatch, Sees
from models.papers.ddla import DDLA
from models.papers.tirg import TIRG, load_tirg
from models.papers.vocabulary import PAD
from pipeline.changes import ChangeOptions
from train.checkpoints import TrainError
from train.papers.batches import Split, epoch_batches, load_split
from train.papers.objectives import Step
from train.papers.objectives.joint import (
    JointTraining,
    candidate_sets,
    caption_sets,
    forced_words,
    same_pictures,
    split_recall,
)
from train.papers.training import TrainOptions, train

SMALL = {"features": 24, "words": 16, "hidden": 32, "attention": 16, "dropout": 0.1}
NETWORK = {"size": 48, "words": 24, "cells": 12, "scale": 4.0}
FIRST, SECOND = Step(1, 1, 9), Step(1, 2, 9)


@pytest.fixture
def captioner(vocabulary, toy_encoder) -> Captioner:
    torch.manual_seed(2)
    return DDLA(vocabulary, toy_encoder, **SMALL)


def batch(split: Split, captioner: Captioner, positions: list[int]) -> tuple[PairBatch, torch.Tensor]:
    sentences = [split.samples[p].sentences for p in positions]
    return split.features.batch(positions), captioner.vocabulary.batch(sentences)


def test_soft_words_are_the_captioners_own(splits, captioner):
    pairs, tokens = batch(splits[0], captioner.eval(), [0, 1, 2, 3])
    words = forced_words(captioner, pairs, tokens)
    assert words.shape == (*tokens.shape, len(captioner.vocabulary))
    torch.testing.assert_close(words.sum(3), (tokens != PAD).float())
    alone = [b for b in range(4) if int(pairs.valid[b].sum()) == 1]
    assert alone  # one cluster: the mixture is that cluster's distribution
    likely = words.gather(3, tokens.unsqueeze(3))[..., 0].masked_fill(tokens == PAD, 1.0).log().sum(2)
    expected = captioner.log_likelihood(pairs, tokens)
    torch.testing.assert_close(likely[alone], expected[alone], rtol=1e-4, atol=1e-4)
    assert (likely >= expected - 1e-3).all()  # where there are more, the posterior prefers the better ones
    likely.sum().backward()
    assert captioner.next_word.weight.grad is not None  # type: ignore[union-attr]


@pytest.mark.parametrize("hard", [False, True])
def test_candidates_get_harder(hard):
    torch.manual_seed(0)
    maps = torch.rand(10, 3, 2, 2)
    maps[7] = maps[5]  # the second pair's after frame is the first one's: never wrong for either
    maps[4] = maps[9]  # nothing changes in the last pair
    sets = candidate_sets(same_pictures(maps), 4, hard=hard)
    assert sets.shape == (5, 10)
    assert sets[torch.arange(5), torch.arange(5, 10)].all()
    assert sets[:4].sum(1).tolist() == [4] * 4
    own = sets[torch.arange(5), torch.arange(5)].tolist()
    assert own == [hard] * 4 + [False]
    assert not sets[0, 7]
    assert not sets[2, 5]
    every = candidate_sets(same_pictures(torch.rand(4, 3, 2, 2)), 99, hard=False)
    assert every.tolist() == [[False, True, True, True], [True, False, True, True]]


@pytest.mark.parametrize("name", ["ddla", "duda", "capt", "capt-multi", "idc-pcl"])
def test_each_stage_trains_both_networks(splits, captioner, name):
    if name != "ddla":
        small = {"size": 32, "inner": 48, "heads": 2} if name == "idc-pcl" else {}
        captioner = CAPTIONERS[name]()(captioner.vocabulary, captioner.encoder, **small)
    objective = JointTraining(captioner, splits[0], network=NETWORK, gamma=0.5, hard_from=1)
    pairs, tokens = batch(splits[0], captioner, [0, 4, 8, 13])
    for step in (FIRST, SECOND):
        captioner.zero_grad()
        objective.zero_grad()
        objective.loss(captioner, pairs, tokens, step).backward()
        for module in (captioner, objective):
            missing = [n for n, p in module.named_parameters() if p.requires_grad and p.grad is None]
            assert [n for n in missing if not n.startswith("judge.")] == []
            assert all(torch.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None)


def test_captions_are_told_from_others():
    torch.manual_seed(0)
    tokens = torch.tensor([[[5, 2]], [[6, 2]], [[5, 2]], [[0, 0]], [[7, 2]], [[8, 2]]])
    changed = torch.tensor([True, True, True, True, False, False])
    every = caption_sets(tokens, changed, 9)
    assert every.diagonal().all()
    assert not every[0, 2], "the same words"
    assert not every[:, 3][[0, 1, 2, 4, 5]].any(), "no words"
    assert not every[4, 5], "two distractors"
    assert every[4, :3].all()
    assert every[0, 1]
    few = caption_sets(tokens, None, 2)
    assert few.sum(dim=1).tolist() == [2] * 6
    assert few.diagonal().all()


def test_a_run_keeps_both_networks_and_resumes(splits, captioner, tmp_path):
    options = TrainOptions(epochs=2, batch=6, learning_rate=3e-3, seed=1, keep="last")

    def run(out: Path, epochs: int, *, resume: bool = False) -> JointTraining:
        torch.manual_seed(7)
        fresh = DDLA(captioner.vocabulary, captioner.encoder, **SMALL)
        objective = JointTraining(fresh, splits[0], network=NETWORK, hard_from=2)
        own = replace(options, epochs=epochs)
        train(fresh, *splits, own, out, objective=objective, resume=resume)
        assert fresh.record["objective"]["gamma"] == 0.2
        return objective

    objective = run(tmp_path / "whole.safetensors", 2)
    run(tmp_path / "parts.safetensors", 1)
    run(tmp_path / "parts.safetensors", 2, resume=True)
    for suffix in (".safetensors", ".tirg.safetensors"):
        whole, parts = (tmp_path / f"{stem}{suffix}" for stem in ("whole", "parts"))
        assert whole.read_bytes() == parts.read_bytes()
    loaded = load_tirg(tmp_path / "whole.tirg.safetensors")
    assert loaded.encoder == ("toy", captioner.encoder.sha256)
    with pytest.raises(CheckpointError, match="not a retrieval network"):
        load_tirg(tmp_path / "whole.safetensors")
    assert split_recall(loaded, splits[1]) == split_recall(objective.network, splits[1])
    other = JointTraining(captioner, splits[0], network=NETWORK, gamma=0.3)
    out = tmp_path / "parts.safetensors"
    with pytest.raises(TrainError, match="another run"):
        train(captioner, *splits, options, out, objective=other, resume=True)


def test_the_retrieval_network_learns_to_find_the_frame(splits, captioner):
    objective = JointTraining(captioner, splits[0], network=NETWORK, gamma=1.0, candidates=12, hard_from=1)
    untrained = split_recall(objective.network, splits[0])
    optimizer = torch.optim.Adam(objective.parameters(), lr=5e-3)
    objective.train()
    for epoch in range(1, 21):
        words = captioner.vocabulary
        for pairs, tokens in epoch_batches(splits[0], words, 12, seed=0, epoch=epoch, max_words=24):
            optimizer.zero_grad()
            objective.loss(captioner, pairs, tokens, Step(epoch, 2, 2)).backward()  # the stage of true words
            optimizer.step()
    objective.eval()
    recall = split_recall(objective.network, splits[0])
    assert recall["candidates"] == 37
    assert recall["chance_at_1"] == pytest.approx(1 / 37)
    assert recall["at_1"] > max(0.2, untrained["at_1"])
    assert recall["at_1"] <= recall["at_5"] <= recall["at_10"]


@pytest.mark.parametrize("reads", [True, False])
def test_siblings_are_told_apart_by_their_captions(reads, make_samples, captioner, tmp_path):
    folder = make_samples(train=3, val=4)
    entries = json.loads((folder / "val.json").read_text())
    entries[1]["before"], entries[1]["after"] = "val000.png", "val001_2.png"
    (folder / "val.json").write_text(json.dumps(entries))
    options = ChangeOptions(eps=3.0, max_shift=0)  # or each before frame is aligned with its own after frame
    split = load_split(folder, "val", captioner.encoder, options, cache=tmp_path, sees=Sees(whole=True))

    class Choosing(TIRG):
        def scores(self, _before: object, _tokens: object, candidates: torch.Tensor) -> torch.Tensor:
            right = torch.arange(4) if reads else torch.tensor([1, 0, 2, 3])
            return torch.nn.functional.one_hot(right, len(candidates)).float()

    network = Choosing(captioner.vocabulary, captioner.encoder.channels, **NETWORK)
    assert split_recall(network, split)["sibling"] == float(reads)
