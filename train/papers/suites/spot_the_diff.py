"""Jhamtani and Berg-Kirkpatrick, EMNLP 2018: tables 4 and 5."""

from __future__ import annotations

from typing import Any

from train.papers.suites import BLEU, NARRATOR_ROW, Claim, Column, PaperTable, Suite, System, columns

_DECODER: dict[str, Any] = {
    "arguments": {"dropout": 0.5},
    "training": {"learning_rate": 4e-4, "decay": 0.9},
}
_SMALL: dict[str, Any] = {
    "arguments": {
        "features": 48,
        "words": 48,
        "hidden": 96,
        "attention": 24,
        "dropout": 0.2,
        "coordinates": True,  # the paper's maps have none; these few steps need them
    },
    "min_count": 1,
    "training": {"epochs": 5, "batch": 16, "learning_rate": 3e-3, "decay": 0.7, "patience": 5},
}


def row(key: str, label: str, captioner: str, **arguments: Any) -> System:
    """A captioner that learns, as the paper trains it."""
    full = {**_DECODER, "captioner": captioner, "arguments": {**_DECODER["arguments"], **arguments}}
    return System(key, label, full, _SMALL)


def _nearest(key: str, label: str, *seeded: str) -> System:
    return System(key, label, {"captioner": key, "min_count": 1}, seeded=seeded)


_TEXT = (*BLEU, "METEOR", "CIDEr", "ROUGE-L")

SUITE = Suite(
    name="spot-the-diff",
    paper="Jhamtani and Berg-Kirkpatrick, Learning to Describe Differences Between Pairs of Similar Images, "
    "EMNLP 2018",
    data="Spot-the-diff",
    rows=(
        _nearest("nn", "NN", "seed"),
        row("capt", "CAPT", "capt"),
        row("capt-masked", "CAPT-MASKED", "capt-masked"),
        row("ddla-uniform", "DDLA-UNIFORM", "ddla", prior="uniform"),
        row("ddla", "DDLA", "ddla"),
        _nearest("nn-multi", "NN-MULTI"),
        row("capt-multi", "CAPT-MULTI", "capt-multi"),
        NARRATOR_ROW,
    ),
    tables=(
        PaperTable(
            "Table 4: single sentence",
            (*columns("single", *_TEXT), Column("perplexity", "perplexity", 2)),
            ("nn", "capt", "capt-masked", "ddla-uniform", "ddla", "narrator"),
            {
                "nn": (0.226, 0.111, 0.057, 0.026, 0.102, 0.120, 0.201, None),
                "capt": (0.304, 0.194, 0.126, 0.073, 0.105, 0.263, 0.256, 16.78),
                "capt-masked": (0.301, 0.200, 0.131, 0.078, 0.108, 0.285, 0.271, 15.12),
                "ddla-uniform": (0.285, 0.175, 0.108, 0.064, 0.106, 0.250, 0.247, 9.96),
                "ddla": (0.343, 0.221, 0.140, 0.085, 0.120, 0.328, 0.286, 9.73),
            },
        ),
        PaperTable(
            "Table 5: all sentences",
            (*columns("multi", *_TEXT), Column("LenRatio", "length_ratio")),
            ("nn-multi", "capt-multi", "ddla-uniform", "ddla", "narrator"),
            {
                "nn-multi": (0.223, 0.109, 0.056, 0.026, 0.087, 0.105, 0.181, 1.035),
                "capt-multi": (0.262, 0.146, 0.081, 0.045, 0.094, 0.235, 0.174, 1.042),
                "ddla-uniform": (0.243, 0.143, 0.085, 0.051, 0.094, 0.217, 0.213, 0.778),
                "ddla": (0.289, 0.173, 0.103, 0.062, 0.108, 0.297, 0.260, 0.811),
            },
        ),
        PaperTable(
            "Section 6: alignment of sentences with clusters",
            (
                Column("alignment precision", "alignment.precision"),
                Column("by chance", "alignment.chance"),
                Column("sentences", "alignment.sentences", 0),
            ),
            ("ddla-uniform", "ddla"),
            {"ddla": (0.546, 0.274, None)},
        ),
    ),
    notes=("The small size's maps hold each cell's x and y, which the paper's do not.",),
    claims=(
        Claim("DDLA above CAPT-MASKED", "ddla", "capt-masked"),
        Claim(
            "... on pairs with a change, as the paper's are", "ddla", "capt-masked", "groups.changed.cider"
        ),
        Claim("CAPT-MASKED above CAPT", "capt-masked", "capt"),
        Claim("DDLA above CAPT", "ddla", "capt"),
        Claim("learned prior above uniform", "ddla", "ddla-uniform"),
        Claim("learned prior above uniform, perplexity", "ddla", "ddla-uniform", "perplexity", less=True),
        Claim("DDLA above CAPT-MASKED, perplexity", "ddla", "capt-masked", "perplexity", less=True),
        Claim("DDLA above CAPT-MULTI, all sentences", "ddla", "capt-multi", "multi.cider"),
        Claim(
            "alignment precision above chance",
            "ddla",
            "ddla",
            "alignment.precision",
            worse_value="alignment.chance",
        ),
        Claim("CAPT above NN", "capt", "nn"),
        Claim("the daemon's narrator (ours) above DDLA", "narrator", "ddla"),
    ),
)
