"""What every test may ask for, and what no test may do."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def clips() -> Path:
    """Folder of the real clips; skips the test where it is absent."""
    folder = SHARED / "data" / "clips"
    if not folder.is_dir():
        pytest.skip("no real footage beside the checkout (../shared/data/clips)")
    return folder


@pytest.fixture(scope="session")
def bench() -> Path:
    """Folder of the narration benchmark; skips the test where it is absent."""
    folder = SHARED / "bench"
    if not folder.is_dir():
        pytest.skip("no narration benchmark beside the checkout (../shared/bench)")
    return folder


@pytest.fixture(autouse=True)
def no_logged_errors(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> Iterator[None]:
    """An unexpected logged error fails the test; ``@pytest.mark.logs_errors`` says that they are expected."""
    yield
    if request.node.get_closest_marker("logs_errors"):
        return
    errors = [r for when in ("setup", "call") for r in caplog.get_records(when) if r.levelno >= logging.ERROR]
    if errors:
        pytest.fail("logged: " + "; ".join(r.getMessage() for r in errors))
