"""Yao, Wang and Jin, AAAI 2022: the ablation on CLEVR-Change."""

from __future__ import annotations

from typing import Any

from train.papers.suites import Claim, PaperTable, Suite, System, columns, merged

MASKED, TEMPERATURE = 0.4, 0.1
"""Of the small size's pre-training."""

TASKS: dict[str, float] = {"mlm": 8, "mvcl": 1, "fda": 2, "single": 2, "classes": 2}
ABLATED = ("mlm", "mvcl", "fda")
_FULL: dict[str, Any] = {
    "captioner": "idc-pcl",
    "min_count": 1,
    "training": {"epochs": 40, "batch": 64, "learning_rate": 3e-5, "patience": 8},
}
_PRE_TRAINING: dict[str, Any] = {
    "epochs": 40,
    "batch": 64,
    "learning_rate": 1e-4,
    "warmup": 8000,
    "keep": "last",
}
_SMALL_TRAINING: dict[str, Any] = {
    "epochs": 5,
    "batch": 8,
    "by_pair": True,
    "learning_rate": 2e-3,
    "warmup": 150,
}
_SMALL: dict[str, Any] = {
    "arguments": {
        "size": 64,
        "inner": 128,
        "heads": 4,
        "layers": 2,
        "dropout": 0.0,
        "comparing": True,  # from random weights these few steps do not find which cells to compare
    },
    "training": {**_SMALL_TRAINING, "patience": 5},
}


def row(key: str, label: str, *tasks: str, **arguments: Any) -> System:
    """The captioner, pre-trained with tasks, where there are any."""
    full: dict[str, Any] = {**_FULL, "arguments": arguments}
    small = merged(_SMALL, {"arguments": {"judge_weight": 0.1}}) if arguments.get("judge", True) else _SMALL
    if not tasks:
        return System(key, label, full, small)
    objective = {"name": "pretraining", "arguments": {"tasks": {task: TASKS[task] for task in tasks}}}
    less = {
        "objective": {"arguments": {"masked": MASKED, "temperature": TEMPERATURE}},
        "training": {**_SMALL_TRAINING, "learning_rate": 1e-3},
    }
    full["pretraining"] = {"objective": objective, "training": _PRE_TRAINING}
    return System(key, label, full, merged(small, {"pretraining": less}))


SUITE = Suite(
    name="idc-pcl",
    paper="Yao, Wang and Jin, Image Difference Captioning with Pre-training and Contrastive Learning, "
    "AAAI 2022",
    data="CLEVR-Change",
    rows=(
        row("none", "no pre-training"),
        row("mlm", "MLM", "mlm"),
        row("mvcl", "MLM + MVCL", "mlm", "mvcl"),
        row("fda", "MLM + MVCL + FDA", *ABLATED),
        row("no-difference", "... without difference encoder", *ABLATED, difference_encoder=False),
        row("no-judge", "... without distractor judging", *ABLATED, judge=False),
    ),
    tables=(
        PaperTable(
            "Ablation",
            columns("single", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", places=1),
            ("none", "mlm", "mvcl", "fda", "no-difference", "no-judge"),
            {
                "none": (32.7, 27.7, 57.2, 89.8),
                "mlm": (36.7, 28.2, 60.9, 94.9),
                "mvcl": (50.3, 37.6, 70.6, 119.7),
                "fda": (51.2, 36.2, 71.7, 128.9),
                "no-difference": (49.2, 35.8, 68.8, 107.9),
                "no-judge": (49.8, 36.9, 69.2, 123.5),
            },
            times=100,
        ),
    ),
    notes=(
        (
            f"The small size masks {100 * MASKED:.0f} % of words and cells instead of 15 %, contrasts at a "
            f"temperature of {TEMPERATURE} instead of 1, begins with comparing cells (`comparing`), and "
            "weighs the judge by 0.1 instead of 1."
        ),
    ),
    claims=(
        Claim("MLM above no pre-training", "mlm", "none"),
        Claim("MVCL helps", "mvcl", "mlm"),
        Claim("FDA helps", "fda", "mvcl"),
        Claim("all of them above no pre-training", "fda", "none"),
        Claim("the difference encoder helps", "fda", "no-difference"),
        Claim("the distractor judge helps", "fda", "no-judge"),
        Claim("... on distractor pairs", "fda", "no-judge", "groups.distractor.cider"),
    ),
)
