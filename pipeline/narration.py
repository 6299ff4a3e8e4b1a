"""Narrations: sentences about the changes of a camera."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.sources import Clock


@dataclass(frozen=True, slots=True)
class FrameStamp:
    """Which frame: aware UTC time, pts, and sha256 (hex) of its RGB bytes."""

    time: datetime
    pts: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelStamp:
    """Which model: name and sha256 (hex) of its checkpoint file."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Narration:
    """What is published about one pair; holds no pixels.

    Attributes:
        id: deterministic: the same footage, settings and model give the same id.
        camera: name of the camera.
        before, after: which frames.
        clock: where the times come from.
        event: NONE for changes of objects, else the scene event.
        sentences: most salient first; a scene event has exactly one.
        l2: L2 distance of the pair under RGB, 0..255 grey levels.
        model: which captioner.
        settings_sha256: hash (hex) of the settings that decide the text.
    """

    id: str
    camera: str
    before: FrameStamp
    after: FrameStamp
    clock: Clock
    event: SceneEvent
    sentences: tuple[Sentence, ...]
    l2: float
    model: ModelStamp
    settings_sha256: str

    @property
    def text(self) -> str:
        """All sentences in one line."""
        return " ".join(s.text for s in self.sentences)
