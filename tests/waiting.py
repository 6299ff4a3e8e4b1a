"""Tests wait for what happens, and not for seconds."""

import time
from collections.abc import Callable
from typing import Any

LIMIT_S = 300.0
"""Longest wait for what must come; a calm machine needs a fraction of a second."""


def until(reached: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Wait for what is reached, and give it."""
    end = time.monotonic() + limit_s
    while not (value := reached()):
        assert time.monotonic() < end, "not within the limit"
        time.sleep(0.01)
    return value
