"""docs/map.md and CONTRIBUTING.md name only what there is, and the map names every room."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("daemon", "pipeline", "models", "train")
PLACE = re.compile(rf"`((?:{'|'.join(PACKAGES)}|tests|configs|docs)/[\w/.-]*)`")
NAMES = ("docs/map.md", "CONTRIBUTING.md")


def places(name: str) -> list[str]:
    """Paths that a page names, but for those with a name in capitals, which the reader makes."""
    found = PLACE.findall((ROOT / name).read_text(encoding="utf-8"))
    return [place for place in found if not re.search(r"/[A-Z]+\.", place)]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_names_exists(name):
    named = places(name)
    assert len(named) > 10
    missing = [
        place
        for place in named
        if not ((ROOT / place).is_dir() if place.endswith("/") else (ROOT / place).is_file())
    ]
    assert not missing


def test_the_map_names_every_room():
    modules = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    rooms = {f"{path.parent.relative_to(ROOT)}/" for path in modules}
    assert rooms <= set(places("docs/map.md"))


def test_names_in_contributing_are_where_it_says():
    """`NAME` in `path`: the file holds the name."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    said = re.findall(r"`(\w+)`(?:\s+\(|\s+in\s+)`([\w/]+\.py)`", text)
    assert len(said) >= 6
    for name, path in said:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), (name, path)
