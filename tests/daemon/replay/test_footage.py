"""The demo's clip is the right one or there is a message that says what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from daemon.replay import footage


def _nothing(target: Path) -> None:
    """A mirror that is away."""
    raise OSError("no route")


def _garbage(target: Path) -> None:
    """A mirror that sends a page instead."""
    target.write_bytes(b"<html>")


def test_says_what_was_tried_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(
        footage.DemoClipError, match=r"mirror that is away: no route\n.*sends a page.*\n.*VIDEO="
    ):
        footage.demo_clip(tmp_path, (_nothing, _garbage))
    assert list(tmp_path.iterdir()) == []


def test_takes_the_next_way_and_keeps_the_clip(tmp_path: Path, clips: Path) -> None:
    def copy(target: Path) -> None:
        shutil.copyfile(clips / "opencv_vtest.avi", target)

    clip = footage.demo_clip(tmp_path, (_garbage, copy))
    assert clip == tmp_path / "vtest.avi"
    assert footage.demo_clip(tmp_path, ()) == clip


def test_a_damaged_copy_is_fetched_again(tmp_path: Path, clips: Path) -> None:
    (tmp_path / "vtest.avi").write_bytes(b"half a file")
    clip = footage.demo_clip(
        tmp_path, (lambda target: shutil.copyfile(clips / "opencv_vtest.avi", target) and None,)
    )
    assert footage._sha256(clip) == footage.CLIP_SHA256
