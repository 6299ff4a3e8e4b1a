from __future__ import annotations

from pathlib import Path

import pytest
import torch

from models import load_captioner
from models.encoders.encoder import Encoder
from models.papers.captioner import Sees
from models.papers.ddla import DDLA
from models.papers.idc_pcl import IDCPCL
from models.papers.pair_batch import PairBatch
from models.papers.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from train.papers.batches import Split, load_split
from train.papers.objectives import Step
from train.papers.objectives.pretraining import PreTraining
from train.papers.training import TrainOptions, train

Splits = tuple[Split, Split]
SMALL = {"size": 32, "inner": 48, "heads": 2, "layers": 1, "dropout": 0.0}
STEP = Step(1, 1, 1)


@pytest.fixture
def whole(sample_folder: Path, toy_encoder: Encoder, features: Path) -> Splits:
    first, second = (
        load_split(
            sample_folder, name, toy_encoder, ChangeOptions(eps=3.0), cache=features, sees=Sees(whole=True)
        )
        for name in ("train", "val")
    )
    return first, second


def captioner(vocabulary: Vocabulary, encoder: Encoder, **arguments: object) -> IDCPCL:
    torch.manual_seed(2)
    return IDCPCL(vocabulary, encoder, **(SMALL | arguments))  # type: ignore[arg-type]


def batch(split: Split, vocabulary: Vocabulary) -> tuple[PairBatch, torch.Tensor]:
    positions = [0, 4, 8, 9, 13, 17, 21, 26]
    sentences = [split.samples[p].sentences for p in positions]
    return split.features.batch(positions, whole=True), vocabulary.batch(sentences)


def lowered(
    task: str,
    learner: IDCPCL,
    split: Split,
    *,
    to: float,
    of: float = 0.0,
    steps: int = 60,
    **arguments: object,
) -> bool:
    """Whether a task's loss on eight pairs falls so low while it is learnt; longer would teach nothing.

    Args:
        to: share of `of`, or of what it is at first, that ten steps in a row fall below in the mean.
    """
    objective = PreTraining(learner, split, tasks={task: 1.0}, **arguments)  # type: ignore[arg-type]
    pairs, tokens = batch(split, learner.vocabulary)
    optimizer = torch.optim.Adam([*learner.parameters(), *objective.parameters()], lr=3e-3)
    losses = []
    for _ in range(steps):
        loss = objective.loss(learner, pairs, tokens, STEP)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if len(losses) >= 15 and mean(losses[-10:]) < to * (of or mean(losses[:5])):
            return True
    return False


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize(("task", "to"), [("mlm", 0.75), ("mvcl", 0.95)])
def test_every_task_is_learnt(
    whole: Splits, vocabulary: Vocabulary, toy_encoder: Encoder, task: str, to: float
) -> None:
    assert lowered(task, captioner(vocabulary, toy_encoder), whole[0], to=to)


def test_fda_tells_true_captions_from_false_ones(
    whole: Splits, vocabulary: Vocabulary, toy_encoder: Encoder
) -> None:
    """With a low tau the loss may fall far below that of guessing one of seven."""
    learner = captioner(vocabulary, toy_encoder)
    assert lowered("fda", learner, whole[0], to=0.5, of=1.946, steps=100, temperature=0.1)


def test_pretraining_then_finetuning(
    whole: Splits, vocabulary: Vocabulary, toy_encoder: Encoder, tmp_path: Path
) -> None:
    learner = captioner(vocabulary, toy_encoder)
    options = TrainOptions(epochs=6, batch=6, learning_rate=4e-3, warmup=12, patience=6)
    objective = PreTraining(learner, whole[0])
    first = train(learner, *whole, options, tmp_path / "first.safetensors", objective=objective)
    assert first.curves[-1].score > first.curves[0].score  # minus the MLM loss of unseen pairs
    record = load_captioner(tmp_path / "first.safetensors", encoder=toy_encoder).record
    assert record["metric"] == "minus_val_mlm"
    assert record["objective"]["tasks"] == {"mlm": 8.0, "mvcl": 1.0, "fda": 2.0}
    options = TrainOptions(epochs=14, batch=6, learning_rate=2e-3, patience=14)
    second = train(learner, *whole, options, tmp_path / "second.safetensors")
    assert max(p.val_cider for p in second.curves) > 2


def test_it_is_for_idc_pcl_only(whole: Splits, vocabulary: Vocabulary, toy_encoder: Encoder) -> None:
    with pytest.raises(ValueError, match="idc-pcl"):
        PreTraining(DDLA(vocabulary, toy_encoder), whole[0])
