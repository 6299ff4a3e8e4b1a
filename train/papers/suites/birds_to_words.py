"""Yao, Wang and Jin, AAAI 2022: Birds-to-Words, with data expansion."""

from __future__ import annotations

from typing import Any

from train.papers.suites import Claim, FolderName, PaperTable, Suite, System, columns, merged
from train.papers.suites.idc_pcl import ABLATED, row

_TASK_OF: dict[FolderName, str] = {"single_images": "single", "classes": "classes"}
_LONG: dict[str, Any] = {"training": {"max_words": 80}, "pretraining": {"training": {"max_words": 80}}}


def _row(key: str, label: str, *needs: FolderName) -> System:
    plain = row(key, label, *ABLATED, *(_TASK_OF[need] for need in needs), layers=2)
    return System(key, label, merged(plain.full, _LONG), plain.small, needs=needs)


SUITE = Suite(
    name="birds-to-words",
    paper="Yao, Wang and Jin, Image Difference Captioning with Pre-training and Contrastive Learning, "
    "AAAI 2022",
    data="Birds-to-Words",
    rows=(
        _row("pairs", "IDC-PCL"),
        _row("single", "+ captions of single images (CUB)", "single_images"),
        _row("classes", "+ fine-grained classes (NABirds)", "classes"),
        _row("both", "+ both", "single_images", "classes"),
    ),
    tables=(
        PaperTable(
            "Birds-to-Words",
            columns("single", "BLEU-4", "METEOR", "CIDEr", "ROUGE-L", places=1),
            ("pairs", "single", "classes", "both"),
            {
                "pairs": (28.0, 23.1, 18.6, 48.4),
                "single": (29.3, 23.1, 23.8, 48.5),
                "classes": (27.5, 23.3, 21.9, 48.5),
                "both": (31.0, 23.4, 25.3, 49.1),
            },
            times=100,
        ),
    ),
    claims=(
        Claim("captions of single images help", "single", "pairs"),
        Claim("fine-grained classes help", "classes", "pairs"),
        Claim("both help", "both", "pairs"),
        Claim("both help, ROUGE-L", "both", "pairs", "single.rouge_l"),
    ),
)
