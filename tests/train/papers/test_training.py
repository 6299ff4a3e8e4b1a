from __future__ import annotations

from pathlib import Path

import pytest
import torch

import train.papers.training as loop
from models import load_captioner
from models.captioner import Captioner, DescribeOptions
from models.encoders.encoder import Encoder
from models.papers.ddla import DDLA
from models.papers.vocabulary import Vocabulary
from train.papers.batches import Split, epoch_batches, load_split
from train.papers.training import Listeners, Trained, TrainError, TrainOptions, state_path, train

SMALL = {"features": 32, "words": 16, "hidden": 48, "attention": 16, "dropout": 0.1}
OPTIONS = TrainOptions(epochs=3, batch=4, learning_rate=5e-3, seed=3)

Splits = tuple[Split, Split]


class KilledError(Exception):
    """Stands for a kill between two epochs."""


def small(vocabulary: Vocabulary, encoder: Encoder, seed: int = 3) -> DDLA:
    torch.manual_seed(seed)
    return DDLA(vocabulary, encoder, **SMALL)


def run(
    captioner: Captioner, splits: Splits, out: Path, options: TrainOptions = OPTIONS, **how: object
) -> Trained:
    return train(captioner, *splits, options, out, **how)  # type: ignore[arg-type]


def test_a_tiny_captioner_learns_to_tell_what_happens(
    splits: Splits, vocabulary: Vocabulary, toy_encoder: Encoder, tmp_path: Path
) -> None:
    out = tmp_path / "tiny.safetensors"
    captioner = small(vocabulary, toy_encoder)
    trained = run(captioner, splits, out, TrainOptions(epochs=14, batch=4, learning_rate=5e-3, patience=14))
    losses = [p.train_loss for p in trained.curves]
    assert losses[-1] < 0.3 * losses[0]
    best = max(trained.curves, key=lambda p: p.val_cider)
    assert trained.best_epoch == best.epoch
    assert best.val_cider > 5
    loaded = load_captioner(out, encoder=toy_encoder)
    pairs = splits[1].features.batch([0, 4])
    options = DescribeOptions(sentences=1)
    described = loaded.describe(pairs, options)
    assert described == captioner.describe(pairs, options)
    assert described[0][0].text == "The red car on the left has appeared."
    assert loaded.record["best_epoch"] == trained.best_epoch
    assert [p["val_cider"] for p in loaded.record["curves"]] == [
        round(p.val_cider, 5) for p in trained.curves
    ]


def test_a_resumed_run_equals_an_uninterrupted_one(
    splits: Splits, vocabulary: Vocabulary, toy_encoder: Encoder, tmp_path: Path
) -> None:
    whole = run(small(vocabulary, toy_encoder), splits, tmp_path / "whole.safetensors")

    def stop(what: str, done: int, _whole: int) -> None:
        if (what, done) == ("epochs", 2):
            raise KilledError

    out = tmp_path / "resumed.safetensors"
    with pytest.raises(KilledError):
        run(small(vocabulary, toy_encoder), splits, out, listeners=Listeners(count=stop))
    done: list[int] = []
    resumed = run(
        small(vocabulary, toy_encoder, seed=99),
        splits,
        out,
        resume=True,
        listeners=Listeners(count=lambda _what, epoch, _whole: done.append(epoch)),
    )
    assert done == [3]
    assert (resumed.curves, resumed.best_epoch) == (whole.curves, whole.best_epoch)
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    # The longer run goes on from there as well.
    options = TrainOptions(epochs=4, batch=4, learning_rate=5e-3, seed=3)
    longer = run(small(vocabulary, toy_encoder), splits, out, options, resume=True)
    assert longer.curves[:3] == whole.curves
    assert len(longer.curves) == 4


def test_it_stops_when_the_metric_rises_no_more_and_keeps_the_best(
    splits: Splits,
    vocabulary: Vocabulary,
    toy_encoder: Encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    captioner = small(vocabulary, toy_encoder)
    curve = iter([0.1, 0.5, 0.4, 0.5, 0.9])
    seen: list[dict[str, torch.Tensor]] = []

    def scored(*_: object) -> object:
        seen.append({k: v.clone() for k, v in captioner.state_dict().items()})
        return {"cider": next(curve)}

    monkeypatch.setattr(loop, "text_scores", scored)
    trained = run(captioner, splits, tmp_path / "x.safetensors", TrainOptions(epochs=9, patience=2))
    assert (trained.best_epoch, len(trained.curves), trained.stopped_early) == (2, 4, True)
    assert all(torch.equal(v, seen[1][k]) for k, v in captioner.state_dict().items())


@pytest.mark.parametrize("harm", ["other seed", "other samples", "cut", "no state at all"])
def test_a_state_that_does_not_fit_is_refused(
    splits: Splits, vocabulary: Vocabulary, toy_encoder: Encoder, tmp_path: Path, harm: str
) -> None:
    out = tmp_path / "x.safetensors"
    one = TrainOptions(epochs=1)
    run(small(vocabulary, toy_encoder), splits, out, one)
    state, options, message = state_path(out), one, "state of another run"
    if harm == "other seed":
        options = TrainOptions(epochs=1, seed=1)
    elif harm == "other samples":
        splits = (splits[1], splits[0])
    else:
        message = "damaged"
        state.write_bytes(state.read_bytes()[:999] if harm == "cut" else b"")
    with pytest.raises(TrainError, match=message):
        run(small(vocabulary, toy_encoder), splits, out, options, resume=True)


def test_a_loss_that_is_no_number_stops_training(
    splits: Splits, vocabulary: Vocabulary, toy_encoder: Encoder, tmp_path: Path
) -> None:
    captioner = small(vocabulary, toy_encoder)
    with torch.no_grad():
        captioner.next_word.bias.fill_(float("nan"))
    with pytest.raises(TrainError, match="lower learning_rate"):
        run(captioner, splits, tmp_path / "x.safetensors")
    assert list(tmp_path.glob("x*")) == []


def test_pairs_without_clusters_are_skipped_and_counted(
    make_samples: object, toy_encoder: Encoder, tmp_path: Path
) -> None:
    folder = make_samples(train=4, val=2)  # type: ignore[operator]
    for number in (1, 2):
        (folder / f"train00{number}_2.png").write_bytes((folder / f"train00{number}.png").read_bytes())
    training = load_split(folder, "train", toy_encoder, loop_changes(), cache=tmp_path / "c")
    assert training.skipped == 2
    assert [position for position, _ in training.annotations] == [0, 3]
    for number in (0, 3):
        (folder / f"train00{number}_2.png").write_bytes((folder / f"train00{number}.png").read_bytes())
    nothing = load_split(folder, "train", toy_encoder, loop_changes(), cache=tmp_path / "c")
    vocabulary = Vocabulary.build(["a car"], min_count=1)
    with pytest.raises(TrainError, match="none of 4 pairs has a cluster"):
        run(small(vocabulary, toy_encoder), (nothing, training), tmp_path / "x.safetensors")


def loop_changes() -> object:
    from pipeline.changes import ChangeOptions

    return ChangeOptions(eps=3.0)


def test_every_epoch_shows_every_annotation_once_in_another_order(
    splits: Splits, vocabulary: Vocabulary
) -> None:
    def told(seed: int, epoch: int) -> list[tuple[int, ...]]:
        batches = epoch_batches(splits[0], vocabulary, 5, seed=seed, epoch=epoch, max_words=24)
        return [tuple(row.tolist()) for pairs, tokens in batches for row in tokens[:, 0]]

    first = told(0, 1)
    assert len(first) == 36
    assert first == told(0, 1)
    assert first != told(0, 2)
    assert first != told(1, 1)
    assert sorted(first) == sorted(told(0, 2))
