"""The confidence is fitted to how often sentences are right, on pairs of which everything is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from models.captioner import Sentence
from models.ddla import DDLA
from models.encoder import EfficientNetLite0, Encoder
from models.grounded import Grounded
from models.vocabulary import Vocabulary
from train import confidence
from train.batches import Split
from train.confidence import calibrate
from train.samples import Sample

Told = Callable[..., None]


@pytest.fixture(scope="module")
def eyes() -> EfficientNetLite0:
    return EfficientNetLite0()


@pytest.fixture
def captioner(eyes: EfficientNetLite0) -> Grounded:
    made = Grounded(
        Vocabulary.build(["a car has appeared"], min_count=1), eyes, width=16, embedded=8, blocks=1
    )
    made.fit_confidence(3.0, 2.0)
    return made


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Decides what is said of the first change of every sample: how surely, and right or wrong."""

    def install(sure: Callable[[int], float], right: Callable[[int], bool]) -> None:
        def said(captioner: Grounded, split: Split, options: object) -> list[list[Sentence]]:
            assert captioner.calibration.tolist() == [1.0, 0.0, 0.5], "judged by the raw confidence"
            return [_sentences(s, sure(i), right=right(i)) for i, s in enumerate(split.samples)]

        monkeypatch.setattr(confidence, "described", said)

    return install


def _sentences(sample: Sample, sure: float, *, right: bool) -> list[Sentence]:
    change = sample.changes[0]
    box = change.box_after or change.box_before
    noun = "car" if right else "person"
    text = {
        "appeared": f"A {noun} has appeared.",
        "disappeared": f"The {noun} is gone.",
        "moved": f"The {noun} has moved.",
    }[change.type]
    return [Sentence(text, change.type, noun, box, 0.9, sure)]


def many(splits: tuple[Split, Split], kind: str = "pasted") -> Split:
    """180 validation pairs."""
    samples = tuple(replace(s, kind=kind) for s in splits[1].samples) * 20
    return replace(splits[1], samples=samples)


def test_too_sure_a_captioner_is_taught_modesty(
    captioner: Grounded, splits: tuple[Split, Split], tell: Told
) -> None:
    """Of sentences said with .9 two in three are right, of those said with .6 one in three."""
    turn = [(0.9, True), (0.9, True), (0.9, False), (0.6, True), (0.6, False), (0.6, False)]
    tell(lambda i: turn[i // 2 % 6][0], lambda i: turn[i // 2 % 6][1])
    fitted = calibrate(captioner, many(splits))
    assert fitted is not None
    assert fitted.sentences == 180
    assert fitted.error < 0.05
    assert captioner.calibration.tolist() == pytest.approx([fitted.slope, fitted.offset, fitted.threshold])
    assert captioner.min_confidence == pytest.approx(fitted.threshold)
    for raw, meant in ((0.9, 2 / 3), (0.6, 1 / 3)):
        logit = captioner.calibration[0] * _logit(raw) + captioner.calibration[1]
        assert float(logit.sigmoid()) == pytest.approx(meant, abs=0.06)


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def test_pairs_that_a_teacher_named_do_not_count(
    captioner: Grounded, splits: tuple[Split, Split], tell: Told
) -> None:
    tell(lambda _i: 0.9, lambda i: i % 2 == 0)
    assert calibrate(captioner, many(splits, "real")) is None
    assert captioner.calibration.tolist() == [1.0, 0.0, 0.5]


@pytest.mark.parametrize("right", [True, False])
def test_where_all_is_right_or_all_wrong_nothing_can_be_fitted(
    captioner: Grounded, splits: tuple[Split, Split], tell: Told, right: bool
) -> None:
    tell(lambda _i: 0.9, lambda _i: right)
    assert calibrate(captioner, many(splits)) is None
    assert captioner.calibration.tolist() == [1.0, 0.0, 0.5]


def test_too_few_sentences_fit_nothing(captioner: Grounded, splits: tuple[Split, Split], tell: Told) -> None:
    tell(lambda _i: 0.9, lambda i: i % 2 == 0)
    assert calibrate(captioner, replace(many(splits), samples=many(splits).samples[:9])) is None


def test_another_captioner_keeps_its_confidence(
    splits: tuple[Split, Split], vocabulary: Vocabulary, toy_encoder: Encoder, tell: Told
) -> None:
    tell(lambda _i: 0.9, lambda i: i % 2 == 0)
    ddla = DDLA(vocabulary, toy_encoder, features=8, words=8, hidden=8, attention=8)
    before = {name: value.clone() for name, value in ddla.state_dict().items()}
    assert calibrate(ddla, many(splits)) is None
    assert all(torch.equal(value, before[name]) for name, value in ddla.state_dict().items())


def without_changes(split: Split) -> Split:
    """Every third pair with nothing to tell."""
    samples = (
        replace(s, kind="nuisance", changes=()) if i % 3 == 2 else s for i, s in enumerate(split.samples)
    )
    return replace(split, samples=tuple(samples))


def test_the_threshold_keeps_most_pairs_without_a_change_silent(
    captioner: Grounded, splits: tuple[Split, Split], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sentences of .3 and half of those of .9 are right, and of nine in ten nuisances .3 is told."""

    def said(captioner: Grounded, split: Split, options: object) -> list[list[Sentence]]:
        told = []
        for i, sample in enumerate(split.samples):
            if sample.changes:
                told.append(_sentences(sample, 0.9 if i % 2 else 0.3, right=i % 2 == 1 or i % 4 == 0))
            else:
                somewhere = Sentence("A car has appeared.", "appeared", "car", (0.1, 0.1, 0.2, 0.2), 0.9, 0.3)
                told.append([somewhere] if i % 10 else [])
        return told

    monkeypatch.setattr(confidence, "described", said)
    fitted = calibrate(captioner, without_changes(many(splits)))
    assert fitted is not None
    assert fitted.alarmed == 0
    told = captioner.calibration[0] * _logit(0.3) + captioner.calibration[1]
    assert float(told.sigmoid()) < captioner.min_confidence
    monkeypatch.setattr(confidence, "_ALARMED", 1.0)
    bold = calibrate(captioner, without_changes(many(splits)))
    assert bold is not None
    assert bold.alarmed == pytest.approx(0.9, abs=0.02)
    assert bold.threshold < fitted.threshold
