"""A narration that tests can journal, publish and verify."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.sources import Clock


def narration(second: float = 0.0, camera: str = "yard", **changed: Any) -> Narration:
    """A car has appeared, so many seconds after midnight; `changed` are other fields than usual."""
    after = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=second)
    made = Narration(
        id=f"{camera}-{second:g}",
        camera=camera,
        before=FrameStamp(after - timedelta(seconds=1), 0, "a" * 64),
        after=FrameStamp(after, 1, "b" * 64),
        clock=Clock.FILE,
        event=SceneEvent.NONE,
        sentences=(Sentence("A car has appeared.", "appeared", "car", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8),),
        l2=12.3,
        model=ModelStamp("ddla", "c" * 64),
        settings_sha256="d" * 64,
    )
    return replace(made, **changed)
