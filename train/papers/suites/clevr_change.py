"""Hosseinzadeh and Wang, CVPR 2021, after Park et al., ICCV 2019: the tables of CLEVR-Change."""

from __future__ import annotations

from typing import Any

from train.papers.suites import NARRATOR_ROW, Claim, PaperTable, Suite, System, columns, merged

_PLAIN: dict[str, Any] = {
    "min_count": 1,
    "training": {
        "epochs": 38,  # 10,000 batches of 128 scenes, a changed pair and a distractor each
        "batch": 256,
        "learning_rate": 1e-3,
        "decay": 0.1,
        "decay_every": 15,
        "drawn": True,
        "swapped": 0.5,
        "patience": 38,
    },
}
_LONG: dict[str, Any] = {"epochs": 60, "patience": 60, "learning_rate": 5e-3, "decay": 1.0, "decay_every": 1}
_EPOCHS = 5
_TRAINING: dict[str, Any] = {
    "epochs": _EPOCHS,
    "batch": 16,
    "learning_rate": 2e-3,
    "decay": 0.8,
    "decay_every": 1,
    "drawn": False,
    "swapped": 0.0,
    "patience": _EPOCHS,
}
_WORDS: dict[str, Any] = {"words": 48, "hidden": 96, "dropout": 0.2, "visual": 96}
_CONVOLVED: dict[str, Any] = {**_WORDS, "convolved": 32}
ATTENDED: dict[str, Any] = {
    **_WORDS,
    "attention": 24,
    "groups": 8,
    "attention_dropout": 0.2,
    "scale": 1 / 14,  # learns sooner, see models.papers.duda
}
LATER: dict[str, Any] = {
    "features": 48,
    "words": 48,
    "hidden": 96,
    "attention": 24,
    "dropout": 0.2,
    "same_cell": 7.0,  # these few steps would not find it, see models.papers.dirl
}
LATER_ROWS = (("dirl", "DIRL"), ("ccr", "DIRL + CCR"), ("scorer", "DIRL + SCORER's backward reasoning"))
_TIRG: dict[str, Any] = {"size": 64, "words": 48, "grid": 7, "cells": 16}


def row(key: str, label: str, small: dict[str, Any], **objective: Any) -> System:
    """A captioner of the two papers, trained jointly where arguments of the objective are given."""
    captioner = key if not objective else "duda"
    full: dict[str, Any] = {**_PLAIN, "captioner": captioner}
    less: dict[str, Any] = {"arguments": small, "training": _TRAINING}
    if objective:
        full = merged(full, {"training": _LONG, "objective": {"name": "joint", "arguments": objective}})
        hard = objective["hard_from"] and _EPOCHS // 2 + 1  # as 30 of 60
        less["objective"] = {"arguments": {"network": _TIRG, "hard_from": hard}}
    return System(key, label, full, less)


_COLUMNS = ("BLEU-4", "CIDEr", "METEOR", "ROUGE-L", "SPICE")
JOINT = {"gamma": 0.2, "candidates": 8}

SUITE = Suite(
    name="clevr-change",
    paper="Hosseinzadeh and Wang, Image Change Captioning by Learning from an Auxiliary Task, CVPR 2021",
    data="CLEVR-Change",
    rows=(
        row("capt-pix-diff", "Capt-Pix-Diff", _CONVOLVED),
        row("capt-rep-diff", "Capt-Rep-Diff", _CONVOLVED),
        row("capt-att", "Capt-Att", ATTENDED),
        row("capt-dual-att", "Capt-Dual-Att", ATTENDED),
        row("duda", "DUDA", ATTENDED),
        row("duda-easy", "DUDA + auxiliary, easy candidates only", ATTENDED, **JOINT, hard_from=None),
        row("duda-joint", "DUDA + auxiliary", ATTENDED, **JOINT, hard_from=30),
        row(
            "duda-captions",
            "DUDA + auxiliary, captions told apart (ours)",
            ATTENDED,
            **JOINT,
            hard_from=30,
            against="captions",
            network={"scale": 16.0},
        ),
        *(row(key, label, LATER) for key, label in LATER_ROWS),
        NARRATOR_ROW,
    ),
    tables=(
        PaperTable(
            "All pairs",
            columns("single", *_COLUMNS, places=1),
            (
                "capt-pix-diff",
                "capt-rep-diff",
                "capt-att",
                "capt-dual-att",
                "duda",
                "duda-easy",
                "duda-joint",
                "duda-captions",
                "dirl",
                "ccr",
                "scorer",
                "narrator",
            ),
            {
                "capt-pix-diff": (30.2, 75.9, 23.7, None, 17.1),
                "capt-rep-diff": (33.5, 87.9, 26.7, None, 19.0),
                "capt-att": (42.7, 106.4, 32.1, None, 23.2),
                "capt-dual-att": (43.5, 108.5, 32.7, None, 23.4),
                "duda": (47.3, 112.3, 33.9, None, 24.5),
                "duda-easy": (51.0, 115.2, 37.3, 70.4, 30.8),
                "duda-joint": (51.2, 115.4, 37.7, 70.5, 31.1),
            },
            times=100,
        ),
        PaperTable(
            "Changed pairs",
            columns("groups.changed", *_COLUMNS, places=1),
            ("duda", "duda-easy", "duda-joint", "duda-captions", "dirl", "ccr", "scorer", "narrator"),
            {"duda": (42.9, 94.6, 29.7, None, 19.9), "duda-joint": (49.9, 101.3, 34.3, 65.4, 27.9)},
            times=100,
        ),
        PaperTable(
            "Distractor pairs",
            columns("groups.distractor", *_COLUMNS, places=1),
            ("duda", "duda-easy", "duda-joint", "duda-captions", "dirl", "ccr", "scorer", "narrator"),
            {"duda": (59.8, 110.8, 45.2, None, 29.1), "duda-joint": (62.4, 116.3, 50.5, 53.9, 35.0)},
            times=100,
        ),
    ),
    notes=(
        (
            "The small size scales the attention's sums by 1/14 and learns every caption of a pair in every "
            "epoch, at a rate that falls by a fifth after each."
        ),
        (
            "DIRL (Tu et al., ECCV 2024), its contrast with captions (CCR) and SCORER's backward reasoning "
            "(Tu et al., ICCV 2023) came later, have CAPT's decoder here, and begin with comparing cells "
            "(`same_cell`) in the small size."
        ),
    ),
    claims=(
        Claim("DUDA above Capt-Dual-Att", "duda", "capt-dual-att"),
        Claim("Capt-Dual-Att above Capt-Att", "capt-dual-att", "capt-att"),
        Claim("Capt-Att above Capt-Rep-Diff", "capt-att", "capt-rep-diff"),
        Claim("Capt-Rep-Diff above Capt-Pix-Diff", "capt-rep-diff", "capt-pix-diff"),
        Claim("DUDA above Capt-Pix-Diff", "duda", "capt-pix-diff"),
        Claim("auxiliary training above plain DUDA", "duda-joint", "duda"),
        Claim("... on changed pairs", "duda-joint", "duda", "groups.changed.cider"),
        Claim("... on distractor pairs", "duda-joint", "duda", "groups.distractor.cider"),
        Claim("auxiliary training that reads (ours) above plain DUDA", "duda-captions", "duda"),
        Claim("easy-to-hard candidates above easy ones", "duda-joint", "duda-easy"),
        Claim("DIRL above DUDA", "dirl", "duda"),
        Claim("contrast with captions (CCR) above DIRL alone", "ccr", "dirl"),
        Claim("backward reasoning (SCORER) above DIRL alone", "scorer", "dirl"),
        Claim("the daemon's narrator (ours) above DUDA", "narrator", "duda"),
    ),
    types={
        "duda": {"color": 120.4, "texture": 86.7, "add": 108.2, "drop": 103.4, "move": 56.4},
        "duda-joint": {"color": 120.8, "texture": 89.9, "add": 119.8, "drop": 123.4, "move": 62.1},
    },
)
