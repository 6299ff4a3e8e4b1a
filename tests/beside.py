"""What is too large, or not ours, to be in the checkout."""

from pathlib import Path

import pytest


def beside(name: str) -> Path:
    """A file or folder in ../shared; skips the test where it is absent."""
    path = Path(__file__).resolve().parents[2] / "shared" / name
    if not path.exists():
        pytest.skip(f"not beside the checkout: ../shared/{name}")
    return path
