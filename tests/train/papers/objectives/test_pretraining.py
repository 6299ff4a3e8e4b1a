from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from models.papers.captioner import PairBatch, Sees
from models.papers.ddla import DDLA
from models.papers.idc_pcl import IDCPCL
from models.papers.vocabulary import Vocabulary
from train.papers.batches import Split
from train.papers.objectives import Step
from train.papers.objectives.pretraining import (
    ClassTask,
    PreTraining,
    classed_images,
)

Splits = tuple[Split, Split]
SMALL = {"size": 32, "inner": 48, "heads": 2, "layers": 1, "dropout": 0.0}
STEP = Step(1, 1, 1)
COLOURS = {"red": (40, 40, 220), "blue": (220, 40, 40), "green": (40, 200, 40)}  # as OpenCV has them


@pytest.fixture
def whole(sample_folder, load) -> Splits:
    return load(sample_folder, Sees(whole=True))


@pytest.fixture
def captioner(vocabulary, toy_encoder) -> IDCPCL:
    torch.manual_seed(2)
    return IDCPCL(vocabulary, toy_encoder, **SMALL)


@pytest.fixture
def birds(tmp_path) -> Path:
    """Twelve single pictures, a coloured patch somewhere, in the layouts of CUB and of NABirds at once."""
    folder, rng = tmp_path / "birds", np.random.default_rng(3)
    for name in ("images", "text_c10"):
        (folder / name).mkdir(parents=True)
    for number in range(12):
        colour = list(COLOURS)[number % 3]
        picture = np.full((120, 160, 3), 90, np.uint8)
        x, y = rng.integers(0, 100, 2)
        picture[y : y + 40, x : x + 50] = COLOURS[colour]
        cv2.imwrite(str(folder / "images" / f"{number}.png"), picture)
        (folder / "text_c10" / f"{number}.txt").write_text(f"a {colour} car\n5\nthe {colour} car\n")
    (folder / "images.txt").write_text("\n".join(f"{n} {n}.png" for n in range(12)))
    (folder / "image_class_labels.txt").write_text("\n".join(f"{n} {n % 3}" for n in range(12)))
    (folder / "classes.txt").write_text("\n".join(f"{k} {name}" for k, name in enumerate(COLOURS)))
    return folder


def batch(split: Split, vocabulary: Vocabulary) -> tuple[PairBatch, torch.Tensor]:
    positions = [0, 4, 8, 9, 13, 17, 21, 26]
    sentences = [split.samples[p].sentences for p in positions]
    return split.features.batch(positions, whole=True), vocabulary.batch(sentences)


def lowered(
    loss: Callable[[], torch.Tensor], *modules: torch.nn.Module, to: float, of: float = 0.0, steps: int = 60
) -> bool:
    """Whether ten losses in a row fall below that share of `of`, or of the first five, in the mean."""
    optimizer = torch.optim.Adam([p for module in modules for p in module.parameters()], lr=3e-3)
    losses: list[float] = []
    while len(losses) < steps:
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
        if len(losses) >= 15 and np.mean(losses[-10:]) < to * (of or np.mean(losses[:5])):
            return True
    return False


@pytest.mark.parametrize(
    ("task", "temperature", "fall"),
    [
        ("mlm", 1.0, {"to": 0.75}),
        ("mvcl", 1.0, {"to": 0.95}),
        ("fda", 0.1, {"to": 0.5, "of": 1.946, "steps": 100}),  # far below guessing one of seven
    ],
)
def test_every_task_is_learnt(whole, captioner, task, temperature, fall):
    objective = PreTraining(captioner, whole[0], tasks={task: 1.0}, temperature=temperature)
    pairs, tokens = batch(whole[0], captioner.vocabulary)

    def loss() -> torch.Tensor:
        return objective.loss(captioner, pairs, tokens, STEP)

    assert lowered(loss, captioner, objective, **fall)


def test_classes_are_learnt(birds, captioner):
    task = ClassTask(classed_images(birds, captioner.encoder), captioner, 0.4)
    assert lowered(lambda: task(captioner, 8), captioner, task, to=0.5, steps=120)


def test_it_is_for_idc_pcl_only(whole, captioner):
    with pytest.raises(ValueError, match="idc-pcl"):
        PreTraining(DDLA(captioner.vocabulary, captioner.encoder), whole[0])


def test_sets_of_single_images_take_part(birds, captioner, whole):
    objective = PreTraining(captioner, whole[0], single_images=str(birds), classes=str(birds))
    known = {"mlm": 8.0, "mvcl": 1.0, "fda": 2.0, "single": 2.0, "classes": 2.0}
    assert objective.arguments()["tasks"] == known
    assert objective.arguments()["single"] == "birds"  # of the folder its name, not where it lies
    pairs, tokens = batch(whole[0], captioner.vocabulary)
    for tasks in ({"single": 1.0, "mlm": 1.0, "mvcl": 1.0, "fda": 1.0}, {"classes": 1.0}):
        objective.tasks = tasks
        for _ in range(12):
            loss = objective.loss(captioner, pairs, tokens, STEP)
            assert torch.isfinite(loss)
            loss.backward()
