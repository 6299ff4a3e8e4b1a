"""A tiny set of samples in the Spot-the-diff layout, and an encoder that needs no weights."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from beside import beside
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from models.encoders import ENCODERS, Encoder
from models.papers.captioner import Sees
from models.papers.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from train.cli import main
from train.papers.batches import Split, load_split

COLOURS = {"red": (220, 30, 30), "blue": (30, 40, 220), "white": (250, 250, 250)}
PLACES = {"left": 40, "right": 160}


class ToyEncoder(Encoder):
    """Mean and brightest colour of every cell and where it is: enough to tell rectangles apart."""

    name = "toy"
    channels = 8

    def __init__(self, weights: Path | None = None) -> None:
        super().__init__()
        self.register_buffer("grey", torch.full((1, 1, 1), 90.0), persistent=False)
        self._freeze({"none": torch.zeros(1)})

    def features(self, images: Tensor) -> Tensor:
        scaled = (images - self.grey) / 60.0
        peaks = torch.nn.functional.max_pool2d(scaled, 16)
        down = (
            torch.linspace(-1, 1, 14, device=images.device).view(1, 1, 14, 1).expand(len(images), 1, 14, 14)
        )
        place = torch.cat([down, down.transpose(2, 3)], dim=1)
        return torch.cat([adaptive_avg_pool2d(scaled, (14, 14)), peaks, place], dim=1)


@pytest.fixture
def run(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: exit code, standard output, standard error."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["narrated-train", *map(str, words)])
        with pytest.raises(SystemExit) as exit_:
            main()
        shown = capsys.readouterr()
        return int(exit_.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture
def no_java(monkeypatch) -> None:
    """METEOR takes seconds to start; `test_scores` tries it."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """So small a training is slowed down by a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def spot_the_diff() -> Path:
    """The released annotations."""
    return beside("data/spot-the-diff")


@pytest.fixture
def toy_encoder(monkeypatch) -> ToyEncoder:
    """The toy encoder, selectable by its name while the test runs."""
    monkeypatch.setitem(ENCODERS, "toy", ToyEncoder)
    return ToyEncoder()


def _write_pair(folder: Path, number: int, split: str, rng: np.random.Generator) -> dict[str, object]:
    scene = np.full((224, 224, 3), 90, np.uint8)
    scene += rng.integers(0, 4, scene.shape, np.uint8)
    before, after = scene.copy(), scene.copy()
    kind = ("appeared", "disappeared", "moved")[number % 3]
    colour = list(COLOURS)[number // 3 % 3]
    place = list(PLACES)[number // 9 % 2]
    left, top = PLACES[place] + int(rng.integers(-8, 8)), int(rng.integers(60, 140))
    boxes: dict[str, list[float] | None] = {"box_before": None, "box_after": None}
    if kind != "appeared":
        before[top : top + 30, left : left + 20] = COLOURS[colour]
        boxes["box_before"] = [left / 224, top / 224, 20 / 224, 30 / 224]
    if kind != "disappeared":
        down = top + (24 if kind == "moved" else 0)
        after[down : down + 30, left : left + 20] = COLOURS[colour]
        boxes["box_after"] = [left / 224, down / 224, 20 / 224, 30 / 224]
    name = f"{split}{number:03d}"
    for suffix, image in (("", before), ("_2", after)):
        cv2.imwrite(str(folder / f"{name}{suffix}.png"), image[..., ::-1])
    sentence = f"the {colour} car on the {place} has {kind}"
    change = {"type": kind, "object": "car", "count": 1, "sentence": sentence, **boxes}
    return {"img_id": name, "sentences": [sentence], "changes": [change]}


def write_samples(folder: Path, train: int = 36, val: int = 9) -> Path:
    """Write train.json, val.json and test.json with their images; the same numbers give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    for split, count in (("train", train), ("val", val), ("test", 3)):
        entries = [_write_pair(folder, number, split, rng) for number in range(count)]
        (folder / f"{split}.json").write_text(json.dumps(entries))
    return folder


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory) -> Path:
    """36 training, 9 validation and 3 test pairs; read only."""
    return write_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture
def make_samples(tmp_path) -> Callable[..., Path]:
    """Writes a set of samples of one's own, to be spoilt: ``make_samples(train=3, val=3)``."""
    return lambda **counts: write_samples(tmp_path / "own", **counts)


@pytest.fixture(scope="session")
def features(tmp_path_factory) -> Path:
    """Cache of what encoders see, for all tests that do not look into it: it knows what it was made from."""
    return tmp_path_factory.mktemp("features")


@pytest.fixture
def load(toy_encoder, features) -> Callable[..., tuple[Split, Split]]:
    """Loads the training and the validation split of a folder, with the toy encoder's maps."""

    def load(folder: Path, sees: Sees | None = None) -> tuple[Split, Split]:
        more = {"sees": sees} if sees else {}
        options = ChangeOptions(eps=3.0)
        first, second = (
            load_split(folder, name, toy_encoder, options, cache=features, **more)
            for name in ("train", "val")
        )
        return first, second

    return load


@pytest.fixture
def splits(sample_folder, load) -> tuple[Split, Split]:
    """Both splits of `sample_folder`, of pairs that have clusters."""
    return load(sample_folder)


@pytest.fixture
def vocabulary(splits) -> Vocabulary:
    """The training split's words."""
    return Vocabulary.build([s for told in splits[0].sentences for s in told], min_count=1)
