"""Footage of three cameras, and its replay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def footage(clip, other_clip, tmp_path_factory) -> Path:
    """A folder of videos, one a camera: east, north, west."""
    folder = tmp_path_factory.mktemp("footage")
    for name, source in (("east", clip), ("north", other_clip), ("west", clip)):
        (folder / f"{name}.mp4").symlink_to(source)
    return folder


@pytest.fixture
def replay(narrated, checkpoint) -> Callable[..., Any]:
    """Replays by the small captioner."""
    return lambda *words: narrated("replay", *words, "--captioner-file", checkpoint)
