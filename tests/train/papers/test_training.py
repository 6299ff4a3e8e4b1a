from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import train.papers.training as loop
from models import load_captioner
from models.captioner import DescribeOptions
from models.papers.ddla import DDLA
from train.papers.batches import Split
from train.papers.training import Listeners, Trained, TrainError, TrainOptions, state_path, train

SMALL = {"features": 32, "words": 16, "hidden": 48, "attention": 16, "dropout": 0.1}
OPTIONS = TrainOptions(epochs=3, batch=4, learning_rate=5e-3, seed=3)

Splits = tuple[Split, Split]
Learn = Callable[..., Trained]


class KilledError(Exception):
    """Stands for a kill between two epochs."""


@pytest.fixture
def small(vocabulary, toy_encoder) -> DDLA:
    torch.manual_seed(3)
    return DDLA(vocabulary, toy_encoder, **SMALL)


@pytest.fixture
def learn(splits, small, tmp_path) -> Learn:
    """Trains a copy of `small` into a file of this name."""

    def learn(name: str, options: TrainOptions = OPTIONS, data: Splits = splits, **how: object) -> Trained:
        fresh = DDLA(small.vocabulary, small.encoder, **SMALL)
        fresh.load_state_dict(small.state_dict(), strict=False)
        return train(fresh, *data, options, tmp_path / name, **how)

    return learn


def test_a_tiny_captioner_learns_to_tell_what_happens(splits, small, tmp_path):
    out = tmp_path / "tiny.safetensors"
    options = TrainOptions(epochs=5, batch=4, learning_rate=1e-2)
    trained = train(small, *splits, options, out)
    losses = [p.train_loss for p in trained.curves]
    assert losses[-1] < 0.3 * losses[0]
    best = max(trained.curves, key=lambda p: p.val_cider)
    assert trained.best_epoch == best.epoch
    assert best.val_cider > 5
    loaded = load_captioner(out, encoder=small.encoder)
    pairs, one = splits[1].features.batch([0, 4]), DescribeOptions(sentences=1)
    described = loaded.describe(pairs, one)
    assert described == small.describe(pairs, one)
    assert described[0][0].text == "The red car on the left has appeared."
    assert loaded.record["best_epoch"] == trained.best_epoch
    ciders = [round(p.val_cider, 5) for p in trained.curves]
    assert [p["val_cider"] for p in loaded.record["curves"]] == ciders


def test_a_resumed_run_equals_an_uninterrupted_one(learn, small, tmp_path):
    whole = learn("whole.safetensors")

    def stop(what: str, done: int, _whole: int) -> None:
        if (what, done) == ("epochs", 2):
            raise KilledError

    with pytest.raises(KilledError):
        learn("resumed.safetensors", listeners=Listeners(count=stop))
    with torch.no_grad():
        small.next_word.bias.fill_(1.0)  # whatever it is begun with
    done: list[int] = []
    listeners = Listeners(count=lambda _what, epoch, _whole: done.append(epoch))
    resumed = learn("resumed.safetensors", resume=True, listeners=listeners)
    assert done == [3]
    assert (resumed.curves, resumed.best_epoch) == (whole.curves, whole.best_epoch)
    assert (tmp_path / "resumed.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    longer = learn("resumed.safetensors", replace(OPTIONS, epochs=4), resume=True)
    assert longer.curves[:3] == whole.curves
    assert len(longer.curves) == 4


def test_it_stops_when_the_metric_rises_no_more_and_keeps_the_best(splits, small, tmp_path, monkeypatch):
    curve = iter([0.1, 0.5, 0.4, 0.5, 0.9])
    seen: list[dict[str, torch.Tensor]] = []

    def scored(*_: object) -> object:
        seen.append({k: v.clone() for k, v in small.state_dict().items()})
        return {"cider": next(curve)}

    monkeypatch.setattr(loop, "text_scores", scored)
    trained = train(small, *splits, TrainOptions(epochs=9, patience=2), tmp_path / "x.safetensors")
    assert (trained.best_epoch, len(trained.curves), trained.stopped_early) == (2, 4, True)
    assert all(torch.equal(v, seen[1][k]) for k, v in small.state_dict().items())


@pytest.mark.parametrize("harm", ["other seed", "other samples", "cut", "no state at all"])
def test_a_state_that_does_not_fit_is_refused(learn, splits, tmp_path, harm):
    one = TrainOptions(epochs=1)
    learn("x.safetensors", one)
    state, message = state_path(tmp_path / "x.safetensors"), "state of another run"
    if harm == "other seed":
        one = TrainOptions(epochs=1, seed=1)
    elif harm == "other samples":
        splits = splits[::-1]
    else:
        message = "damaged"
        state.write_bytes(state.read_bytes()[:999] if harm == "cut" else b"")
    with pytest.raises(TrainError, match=message):
        learn("x.safetensors", one, splits, resume=True)


def test_a_loss_that_is_no_number_stops_training(learn, small, tmp_path):
    with torch.no_grad():
        small.next_word.bias.fill_(float("nan"))
    with pytest.raises(TrainError, match="lower learning_rate"):
        learn("x.safetensors")
    assert list(tmp_path.glob("x*")) == []


def test_pairs_without_clusters_are_skipped_and_counted(make_samples, load, learn):
    folder = make_samples(train=4, val=2)
    for numbers in ((1, 2), (0, 3)):
        for number in numbers:
            picture = folder / f"train00{number}.png"
            picture.with_name(f"train00{number}_2.png").write_bytes(picture.read_bytes())
        training, validation = load(folder)
        assert training.skipped == (2 if numbers == (1, 2) else 4)
        assert [position for position, _ in training.annotations] == ([0, 3] if numbers == (1, 2) else [])
    with pytest.raises(TrainError, match="none of 4 pairs has a cluster"):
        learn("x.safetensors", data=(training, validation))
