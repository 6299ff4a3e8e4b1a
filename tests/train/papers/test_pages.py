"""The papers' pages: claims in the words of `train.papers.claims`, the data's version named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks" / "papers"
PAGES = sorted(set(FOLDER.glob("*.md")) - {FOLDER / "auxiliary.md"})  # that one measures something of our own
WORDS = re.compile(
    r"shown|not shown|cannot be told with \d+ seeds? "
    r"\(needs (?:about|at least) [\d,]+(, and [\d,]+ pairs)?\)",
)


def test_there_are_pages() -> None:
    assert len(PAGES) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_claims_are_told_in_three_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search(r"generated benchmark, version \d+", text)
    table = text.split("## What the paper claims")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line[:1] == "|"
    ]
    verdicts = [row[-1] for row in rows[2:]]
    assert verdicts
    assert [words for words in verdicts if not WORDS.fullmatch(words)] == []
    assert rows[0][-2:] == ["power", "here"]
    assert not re.search(r"\bappears\b|not certain", table)
