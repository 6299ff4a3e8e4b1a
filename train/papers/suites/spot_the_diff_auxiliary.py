"""Hosseinzadeh and Wang, CVPR 2021: table 3, Spot-the-diff."""

from __future__ import annotations

from train.papers.suites import Claim, PaperTable, Suite, columns
from train.papers.suites.clevr_change import ATTENDED, JOINT, LATER, LATER_ROWS, row
from train.papers.suites.spot_the_diff import row as ddla_row

SUITE = Suite(
    name="spot-the-diff-auxiliary",
    paper="Hosseinzadeh and Wang, Image Change Captioning by Learning from an Auxiliary Task, CVPR 2021",
    data="Spot-the-diff",
    rows=(
        ddla_row("ddla", "DDLA", "ddla"),
        row("duda", "DUDA", ATTENDED),
        row("duda-joint", "DUDA + auxiliary", ATTENDED, **JOINT, hard_from=30),
        *(row(key, label, LATER) for key, label in LATER_ROWS),
    ),
    tables=(
        PaperTable(
            "Table 3: Spot-the-diff",
            columns("single", "BLEU-4", "CIDEr", "METEOR", "ROUGE-L"),
            ("ddla", "duda", "duda-joint", "dirl", "ccr", "scorer"),
            {
                "ddla": (0.081, 0.340, 0.115, 0.283),
                "duda": (0.081, 0.325, 0.118, 0.291),
                "duda-joint": (0.081, 0.345, 0.125, 0.299),
                "ccr": (None, 0.409, None, None),
                "scorer": (None, 0.385, None, None),
            },
        ),
    ),
    claims=(
        Claim("auxiliary training above plain DUDA", "duda-joint", "duda"),
        Claim("auxiliary training above DDLA", "duda-joint", "ddla"),
        Claim("DIRL above DUDA", "dirl", "duda"),
    ),
)
