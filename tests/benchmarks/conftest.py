"""The scripts of `benchmarks/` as modules: they import each other by their bare names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = ("predictors", "scoring", "replays", "quality")


@pytest.fixture(scope="session")
def scripts() -> Iterator[dict[str, ModuleType]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(FOLDER))
        for name in NAMES:
            patched.delitem(sys.modules, name, raising=False)
        yield {name: importlib.import_module(name) for name in NAMES}
        for name in NAMES:
            sys.modules.pop(name, None)


@pytest.fixture
def predictors(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["predictors"]


@pytest.fixture
def scoring(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["scoring"]


@pytest.fixture
def replays(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["replays"]


@pytest.fixture
def quality(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["quality"]


@pytest.fixture(scope="session")
def scorer(scripts: dict[str, ModuleType], bench: Path) -> ModuleType:
    return scripts["scoring"].loaded("score")
