from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from models.encoders.encoder import Encoder
from models.papers.idc_pcl import IDCPCL
from models.papers.vocabulary import Vocabulary
from train.papers.batches import Split
from train.papers.objectives import Step
from train.papers.objectives.pretraining import (
    ClassTask,
    PreTraining,
    captioned_images,
    classed_images,
    contrastive,
)

SMALL = {"size": 32, "inner": 48, "heads": 2, "layers": 1, "dropout": 0.0}
COLOURS = {"red": (40, 40, 220), "blue": (220, 40, 40), "green": (40, 200, 40)}  # as OpenCV has them


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """Twelve single pictures, a coloured patch somewhere, in the layouts of CUB and of NABirds at once."""
    folder, rng = tmp_path / "birds", np.random.default_rng(3)
    (folder / "images").mkdir(parents=True)
    (folder / "text_c10").mkdir()
    names, labels = [], []
    for number in range(12):
        colour = list(COLOURS)[number % 3]
        picture = np.full((120, 160, 3), 90, np.uint8)
        x, y = rng.integers(0, 100, 2)
        picture[y : y + 40, x : x + 50] = COLOURS[colour]
        cv2.imwrite(str(folder / "images" / f"{number}.png"), picture)
        (folder / "text_c10" / f"{number}.txt").write_text(f"a {colour} car\n5\nthe {colour} car\n")
        names.append(f"{number} {number}.png")
        labels.append(f"{number} {number % 3}")
    (folder / "images.txt").write_text("\n".join(names))
    (folder / "image_class_labels.txt").write_text("\n".join(labels))
    (folder / "classes.txt").write_text("\n".join(f"{k} {name}" for k, name in enumerate(COLOURS)))
    return folder


@pytest.fixture
def captioner(vocabulary: Vocabulary, toy_encoder: Encoder) -> IDCPCL:
    torch.manual_seed(2)
    return IDCPCL(vocabulary, toy_encoder, **SMALL)


def test_single_images_with_captions(birds: Path, toy_encoder: Encoder, vocabulary: Vocabulary) -> None:
    images = captioned_images(birds, toy_encoder)
    assert images.cells.shape == (12, 49, 8)
    assert images.captions[1] == ("a blue car", "the blue car")
    cells, tokens = images.batch(vocabulary, 5)
    assert cells.shape == (5, 2, 49, 8)
    assert not cells[:, 1].any()
    assert tokens.shape[:2] == (5, 1)


def test_classes_are_learnt(birds: Path, toy_encoder: Encoder, captioner: IDCPCL) -> None:
    task = ClassTask(classed_images(birds, toy_encoder), captioner, 0.4)
    optimizer = torch.optim.Adam([*captioner.parameters(), *task.parameters()], lr=2e-3)
    losses: list[float] = []
    while len(losses) < 120 and (len(losses) < 20 or sum(losses[-10:]) >= 0.5 * sum(losses[:10])):
        loss = task(captioner, 8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


def test_contrastive_loss() -> None:
    vectors = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    labels = torch.tensor([0, 0, 1, 1])
    # Within: 0 and 1 - .707; between: 0, 0, and twice .707 - .4. Each pair counts in both orders.
    expected = (0 + (1 - 0.5**0.5) + 2 * (0.5**0.5 - 0.4)) / 6
    assert float(contrastive(vectors, labels, 0.4)) == pytest.approx(expected, rel=1e-4)


def test_both_sets_take_part_in_pretraining(
    birds: Path, captioner: IDCPCL, splits: tuple[Split, Split]
) -> None:
    objective = PreTraining(captioner, splits[0], single_images=str(birds), classes=str(birds))
    assert objective.arguments()["tasks"] == {
        "mlm": 8.0,
        "mvcl": 1.0,
        "fda": 2.0,
        "single": 2.0,
        "classes": 2.0,
    }
    assert objective.arguments()["single"] == "birds"  # of the folder its name, not where it lies
    pairs = splits[0].features.batch([0, 1, 2, 3])
    tokens = captioner.vocabulary.batch([splits[0].samples[p].sentences for p in range(4)])
    torch.manual_seed(1)
    for task in ("single", "classes"):
        objective.tasks = {task: 1.0, **({"mlm": 1.0, "mvcl": 1.0, "fda": 1.0} if task == "single" else {})}
        for _ in range(12):
            loss = objective.loss(captioner, pairs, tokens, Step(1, 1, 1))
            assert torch.isfinite(loss)
            loss.backward()
