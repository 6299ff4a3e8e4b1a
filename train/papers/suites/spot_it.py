"""Fan and Wang 2019: the paper reports no scores, so that these rows are its choices and its suggestions."""

from __future__ import annotations

from typing import Any

from train.papers.suites import BLEU, Claim, Column, PaperTable, Suite, System, columns, merged

_PAPER: dict[str, Any] = {"rotation": 0.0, "zoom": 0.0, "halves": False}
_FULL: dict[str, Any] = {
    "captioner": "spot-it",
    "training": {"epochs": 50, "batch": 5, "learning_rate": 1e-4, "patience": 4},
}
_SMALL: dict[str, Any] = {
    "arguments": {"features": 96, "hidden": 96, "finest": False},
    "min_count": 1,
    "training": {
        "epochs": 3,
        "batch": 16,
        "by_pair": True,
        "learning_rate": 3e-3,
        "warmup": 40,
        "patience": 3,
    },
}


def _row(key: str, label: str, **arguments: Any) -> System:
    small = merged(_SMALL, {"arguments": {"attention": 24}}) if arguments.get("attention") else _SMALL
    return System(key, label, {**_FULL, "arguments": arguments}, small)


SUITE = Suite(
    name="spot-it",
    paper="Fan and Wang, Spot It: Translating Differences between Paired Pictures, 2019",
    data="Spot-the-diff",
    rows=(
        _row("paper-lstm", "LSTM, as in the paper", **_PAPER),
        _row("paper-gru", "GRU, as in the paper", **_PAPER, recurrent="gru"),
        _row("halves", "LSTM, halves apart", **{**_PAPER, "halves": True}),
        _row("augmented", "... and augmentation"),
        _row("attention", "... and attention", attention=128),
    ),
    tables=(
        PaperTable(
            "Single sentence (the paper prints no scores)",
            (*columns("single", *BLEU, "METEOR", "ROUGE-L", "CIDEr"), Column("perplexity", "perplexity", 2)),
            ("paper-lstm", "paper-gru", "halves", "augmented", "attention"),
            {},
        ),
    ),
    claims=(
        Claim("halves apart tell which image came first", "halves", "paper-lstm", "truth.polarity"),
        Claim("halves apart", "halves", "paper-lstm"),
        Claim("augmentation helps", "augmented", "halves"),
        Claim("attention helps", "attention", "augmented"),
    ),
)
