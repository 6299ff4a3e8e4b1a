"""The papers' systems live in their two rooms and an extra: no other room meets them, nor what they need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import grimp
import pytest

ROOMS = ("models.papers", "train.papers")
EXTRA = ("sklearn", "pycocoevalcap")
"""What `narrated[train]` brings."""


@cache
def imports() -> grimp.ImportGraph:
    """Who imports whom, also within functions."""
    return grimp.build_graph("daemon", "pipeline", "models", "train", include_external_packages=True)


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def chains(importers: tuple[str, ...], imported: str) -> Iterator[tuple[str, ...]]:
    for importer in importers:
        yield from imports().find_shortest_chains(importer=importer, imported=imported, as_packages=True)


@pytest.mark.parametrize("room", [*ROOMS, "train"])
def test_the_daemon_imports_nothing_of_the_laboratory(room: str) -> None:
    assert not list(chains(("daemon", "pipeline"), room))


def test_neither_do_the_models_that_it_runs() -> None:
    rooms = tuple(f"models.{name}" for name in ("grounded", "captioner", "decoding", "encoders", "language"))
    assert not list(chains(rooms, "models.papers"))
    assert {m for m in imports().modules if within(m, *rooms)}


@pytest.mark.parametrize("package", EXTRA)
def test_what_the_extra_brings_is_needed_there_only(package: str) -> None:
    if package not in imports().modules:
        return
    importers = imports().find_modules_that_directly_import(package)
    assert [m for m in importers if not within(m, "train", "models.papers")] == []
