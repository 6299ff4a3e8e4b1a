"""The pages under docs/, as tests read them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def page(name: str) -> str:
    """The text of a page of docs/."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """What stands below each heading of the second level, by the heading."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def table(text: str) -> list[list[str]]:
    """The cells of the rows of all tables in a text, without heads; code is unquoted in the first column."""
    rows = [line.strip().strip("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)] for row in rows]
    rules = [n for n, row in enumerate(cells) if set("".join(row)) <= set("-:")]
    return [
        [row[0].strip("`"), *row[1:]] for n, row in enumerate(cells) if n not in rules and n + 1 not in rules
    ]


def code_blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
