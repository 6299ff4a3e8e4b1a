"""The demo's clip is the right one or there is a message that says what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from daemon.replay import demo


def _nothing(target: Path) -> None:
    """A mirror that is away."""
    raise OSError("no route")


def _garbage(target: Path) -> None:
    """A mirror that sends a page instead."""
    target.write_bytes(b"<html>")


def test_says_what_was_tried_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "WAYS", {"away": _nothing, "a page": _garbage})
    with pytest.raises(demo.DemoClipError, match=r"away: no route\n.*a page: .*\n.*VIDEO="):
        demo.demo_clip(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_takes_the_next_way_and_keeps_the_clip(
    tmp_path: Path, clips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(target: Path) -> None:
        shutil.copyfile(clips / "opencv_vtest.avi", target)

    clip = tmp_path / "vtest.avi"
    clip.write_bytes(b"half a file")
    monkeypatch.setattr(demo, "WAYS", {"a page": _garbage, "a copy": copy})
    assert demo.demo_clip(tmp_path) == clip
    monkeypatch.setattr(demo, "WAYS", {})
    assert demo.demo_clip(tmp_path) == clip
