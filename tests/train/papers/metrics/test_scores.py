from __future__ import annotations

import json
from pathlib import Path

import pytest

from train.papers.metrics.scores import (
    CONSTANT,
    best_constant,
    text_scores,
    trivial_captions,
)

REFERENCES = [
    ["a red car has appeared on the left", "there is a red car on the left now"],
    ["the man in the parking lot is gone"],
    ["two people have moved near the road"],
]


def test_the_references_themselves_score_full() -> None:
    scores = text_scores([r[0] for r in REFERENCES], [r[:1] for r in REFERENCES])
    assert scores["bleu"] == pytest.approx((1, 1, 1, 1))
    assert scores["rouge_l"] == pytest.approx(1)
    assert scores["cider"] == pytest.approx(10)
    assert scores["pairs"] == 3


def test_bleu_by_hand() -> None:
    # 3 of 4 words, 2 of 3 word pairs, and the brevity penalty exp(1 - 5 / 4)
    scores = text_scores(["the man is here"], [["the man is gone now"]])
    assert scores["bleu"][0] == pytest.approx(0.75 * 2.718281828**-0.25, abs=1e-4)
    assert scores["bleu"][1] == pytest.approx((0.75 * 2 / 3) ** 0.5 * 2.718281828**-0.25, abs=1e-4)


def test_what_cannot_be_scored_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 texts cannot be scored against 3 pairs"):
        text_scores(["a", "b"], REFERENCES)
    with pytest.raises(ValueError, match="at least one reference"):
        text_scores(["a"], [[]])


def test_the_trivial_rows() -> None:
    training = [["the man is gone"]] * 3 + [["a car", "the man is gone"], ["a bus is gone"]]
    rows = trivial_captions(training, 3)
    assert list(rows) == ["constant", "best constant of train", "random training caption"]
    assert rows["constant"] == [CONSTANT] * 3
    assert rows["best constant of train"] == ["the man is gone"] * 3
    assert trivial_captions(training, 3) == rows
    assert list(trivial_captions([], 3)) == ["constant"]


def test_the_best_constant_is_chosen_on_training_pairs_by_cider() -> None:
    # "a bird" is as frequent, but agrees with nothing else that is said.
    training = [["a bird"]] * 2 + [["the man is gone"]] * 2 + [["the man is gone now"]] * 3 + [["a dog ran"]]
    assert best_constant(training) in ("the man is gone", "the man is gone now")


def test_the_constant_on_the_official_test_split(bench: Path) -> None:
    """The field's scorer gives the constant BLEU-4 .083, ROUGE-L .274, CIDEr .297 on its PTB tokens."""
    folder = bench.parent / "data" / "spot-the-diff"
    if not folder.is_dir():
        pytest.skip("no Spot-the-diff annotations beside the checkout")
    merged: dict[str, list[str]] = {}
    for entry in json.loads((folder / "test.json").read_text()):
        merged.setdefault(entry["img_id"], []).extend(entry["sentences"])
    references = list(merged.values())
    scores = text_scores([CONSTANT] * len(references), references)
    assert scores["bleu"][3] == pytest.approx(0.083, abs=0.0005)
    assert scores["rouge_l"] == pytest.approx(0.274, abs=0.0005)
    assert scores["cider"] == pytest.approx(0.297, abs=0.0005)
