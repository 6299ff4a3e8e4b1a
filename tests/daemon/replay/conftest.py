"""Footage of three cameras."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def footage(clip, other_clip, tmp_path_factory) -> Path:
    """A folder of videos, one a camera: east, north, west."""
    folder = tmp_path_factory.mktemp("footage")
    for name, source in (("east", clip), ("north", other_clip), ("west", clip)):
        (folder / f"{name}.mp4").symlink_to(source)
    return folder
