"""One word, one thing: names that occur once, modules named by nouns that one can guess; nothing is long."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

PACKAGES = ("daemon", "pipeline", "models", "train")
ROOT = Path(__file__).parents[1]
FILE, FUNCTION = 400, 50  # lines
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

EMPTY_WORDS = {
    "manager", "handler", "processor", "helper", "util", "common", "misc", "base", "core", "data", "info",
}  # fmt: skip

GERUNDS = {
    "decoding": "the field's word for the search of words",
    "following": "a room: the path's stage between changes and narration",
    "learning": "a room, and the field's own word",
    "pretraining": "the papers' word for a stage of training",
    "rendering": "a noun: what a drawn pair looks like",
    "settings": "no gerund",
    "wording": "a noun: what a sentence says, word for word",
}
"""Modules that may be named so, and why."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def words_of(path: Path) -> list[str]:
    """The words of a module's name; a package has its folder's."""
    name = path.parent.name if path.stem == "__init__" else path.stem
    return name.strip("_").split("_")


def test_there_are_modules() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(PACKAGES)


def test_no_two_classes_have_one_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in parsed(path).body:  # a class within a class has that one's name before its own
            if isinstance(node, ast.ClassDef):
                places[node.name.strip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def length(function: ast.FunctionDef, path: Path) -> int:
    """Lines without the docstring, and without the options of a command."""
    documented = ast.get_docstring(function, clean=False) is not None
    told = function.body[0]
    docstring = (told.end_lineno or 0) - told.lineno + 1 if documented else 0
    options = told.lineno - function.lineno if path.parent.name == "commands" else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring - options


def test_files_and_functions_stay_short() -> None:
    tests = sorted((ROOT / "tests").rglob("*.py"))
    assert [path for path in [*MODULES, *tests] if len(path.read_text().splitlines()) > FILE] == []
    long = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef) and length(node, path) > FUNCTION
    }
    assert long == set()


def test_modules_are_named_by_nouns_that_say_something() -> None:
    named = {word: path for path in MODULES for word in words_of(path)}
    empty = {path for word, path in named.items() if {word, word.removesuffix("s")} & EMPTY_WORDS}
    gerunds = {path for word, path in named.items() if word.endswith(("ing", "ings")) and word not in GERUNDS}
    assert empty | gerunds == set()


@pytest.mark.parametrize("name", ["Box", "Image", "Outline", "Progress", "Polygon", "Point"])
def test_a_type_that_many_use_is_defined_once(name: str) -> None:
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in parsed(path).body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    assert len(places) == 1, places
