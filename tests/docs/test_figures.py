"""benchmarks/README.md: each question has one table, the command that made it, its date, and little else."""

from __future__ import annotations

import re

import pytest
from doc_pages import ROOT

FOLDER = ROOT / "benchmarks"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
QUESTIONS = dict(re.findall(r"^### ([^\n]+)\n\n(.*?)(?=\n##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
every_question = pytest.mark.parametrize("question", QUESTIONS)


def paragraphs(question: str) -> list[str]:
    return QUESTIONS[question].strip("\n").split("\n\n")


def test_every_heading_is_a_question() -> None:
    assert len(QUESTIONS) == PAGE.count("\n### ") > 20
    assert [each for each in QUESTIONS if not each.endswith("?")] == []


@every_question
def test_has_one_table(question: str) -> None:
    tables = [each for each in paragraphs(question) if each.startswith("|")]
    assert len(tables) == 1
    assert len({line.count("|") for line in tables[0].splitlines()}) == 1


@every_question
def test_has_a_command_that_exists_and_its_date(question: str) -> None:
    commands = paragraphs(question)[0]
    assert commands.startswith("    ")
    assert re.search(r"# .*\b20\d\d-\d\d-\d\d\b", commands)
    for script in re.findall(r"benchmarks/(\w+\.py)", commands):
        assert (FOLDER / script).exists()
    for goal in re.findall(r"make ([a-z-]+)", commands):
        assert re.search(rf"^{goal}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@every_question
def test_says_little_beside_its_table(question: str) -> None:
    said = [each for each in paragraphs(question)[1:] if not each.startswith("|")]
    assert sum(len(each.split()) for each in said) <= 160


def test_a_dated_page_repeats_no_table_of_the_newest() -> None:
    rows = {line for line in PAGE.splitlines() if line.startswith("| ") and re.search(r"\d", line)}
    for path in FOLDER.glob("20??-??-*.md"):
        assert rows.isdisjoint(path.read_text(encoding="utf-8").splitlines())
