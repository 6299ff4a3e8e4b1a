"""What strangers read: links lead somewhere, commands exist, nothing points beside the repository."""

import re
from pathlib import Path

import click
import pytest
import typer.main
from doc_pages import ROOT

import daemon.cli
import train.cli

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "benchmarks").rglob("*.md"))
STRANGERS = [path for path in PAGES if path.parent in {ROOT, ROOT / "docs"}]
PROGRAMS: dict[str, click.Group] = {
    name: typer.main.get_command(cli.app)  # type: ignore[misc]
    for name, cli in (("narrated", daemon.cli), ("narrated-train", train.cli))
}
all_pages = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def prose(path: Path) -> str:
    """A page without its comments."""
    return re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@all_pages
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if not target.startswith(("http://", "https://", "#")):
            assert (path.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("path", STRANGERS, ids=lambda path: path.name)
def test_nothing_points_beside_the_repository(path):
    assert "../shared" not in path.read_text(encoding="utf-8")


@all_pages
def test_commands_exist(path):
    for line in prose(path).splitlines():
        for program, verb, rest in re.findall(
            r"(?:^ {4}(?:sudo (?:-u \w+ )?)?(?:\S+/)?|`)(narrated(?:-train)?) ([a-z-]+)\b([^`#|\n]*)", line
        ):
            command = PROGRAMS[program].get_command(None, verb)  # type: ignore[arg-type]
            assert command is not None, line
            known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            used = re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", rest)
            assert {"-h", "--help"} | known >= set(used), line
