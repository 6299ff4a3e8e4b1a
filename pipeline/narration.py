"""Narrations: sentences about the changes of a camera."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import cv2
import numpy as np
import torch
from torch import Tensor

from models.captioner import Captioner, DescribeOptions, PairBatch, Sentence
from pipeline.alignment import shifted
from pipeline.changes import Change, SceneEvent
from pipeline.sources import Clock, Frame, Image

EVENT_SENTENCES = {
    SceneEvent.LIGHT: "The light has changed.",
    SceneEvent.VIEW: "The camera now shows another view.",
    SceneEvent.OBSTRUCTED: "The camera's view is obstructed.",
}
"""The one sentence that a scene event is told with."""


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
        sentences: most salient first; a scene event has exactly one; empty when nothing is to be told.
        l2: L2 distance of the pair under RGB, 0..255 grey levels.
        model: which captioner.
        settings_sha256: hash (hex) of the settings that decide the text.
        abstained: why nothing, or less than was seen, is told ("unsure", "nothing of an object"); else empty.
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
    abstained: str = ""

    @property
    def text(self) -> str:
        """All sentences in one line."""
        return " ".join(s.text for s in self.sentences)


def narrate(
    changes: Sequence[Change],
    captioner: Captioner,
    options: DescribeOptions | None = None,
    settings_sha256: str = "",
) -> list[Narration]:
    """Say what changed: the only edge between numpy and torch.

    Args:
        changes: of any cameras and frame sizes; one batch for the captioner.
        captioner: writes the sentences.
        options: how it chooses and words them.
        settings_sha256: hash (hex) of the settings under which the changes were found; enters the ids.

    Returns:
        One narration per change, in their order; without sentences where nothing is to be told.
    """
    told = [c for c in changes if c.clusters and c.event is SceneEvent.NONE]
    described = iter(
        captioner.describe(_batch(told, captioner), options or DescribeOptions()) if told else []
    )
    model = ModelStamp(captioner.name, captioner.sha256)
    narrations = []
    for change in changes:
        if change.event is not SceneEvent.NONE:
            sentences = [_event_sentence(change.event)]
        else:
            sentences = next(described) if change.clusters else []
        narrations.append(_narration(change, tuple(sentences), model, settings_sha256))
    return narrations


def _event_sentence(event: SceneEvent) -> Sentence:
    return Sentence(
        EVENT_SENTENCES[event], type="none", object="scene", box=None, salience=1.0, confidence=1.0
    )


def _narration(
    change: Change, sentences: tuple[Sentence, ...], model: ModelStamp, settings_sha256: str
) -> Narration:
    before, after = _stamp(change.pair.before), _stamp(change.pair.after)
    camera = change.pair.after.camera
    named = "\n".join((camera, before.sha256, after.sha256, str(before.pts), str(after.pts)))
    digest = hashlib.sha256(f"{named}\n{model.sha256}\n{settings_sha256}".encode()).hexdigest()
    return Narration(
        id=f"{camera}-{after.time:%Y%m%dT%H%M%S}.{after.time.microsecond // 1000:03d}Z-{digest[:12]}",
        camera=camera,
        before=before,
        after=after,
        clock=change.pair.after.clock,
        event=change.event,
        sentences=sentences,
        l2=change.pair.l2,
        model=model,
        settings_sha256=settings_sha256,
    )


def _stamp(frame: Frame) -> FrameStamp:
    pixels = hashlib.sha256(np.ascontiguousarray(frame.image).data).hexdigest()
    return FrameStamp(frame.time, frame.pts, pixels)


def _batch(changes: Sequence[Change], captioner: Captioner) -> PairBatch:
    """Changes with at least one cluster each, as the tensors of one batch."""
    most = max(len(c.clusters) for c in changes)
    height, width = changes[0].clusters[0].mask.shape
    masks = torch.zeros(len(changes), most, height, width, dtype=torch.bool)
    boxes = torch.zeros(len(changes), most, 4)
    active = torch.zeros(len(changes), most)
    valid = torch.zeros(len(changes), most, dtype=torch.bool)
    for b, change in enumerate(changes):
        for k, cluster in enumerate(change.clusters):
            masks[b, k] = torch.from_numpy(cluster.mask)
            boxes[b, k] = torch.tensor(cluster.box)
            active[b, k] = cluster.active_pixels / (height * width)
            valid[b, k] = True
    size = captioner.image_size
    before = torch.stack([_tensor(_aligned(c, size)) for c in changes])
    after = torch.stack([_tensor(_resized(c.pair.after.image, size)) for c in changes])
    return PairBatch(before, after, masks, boxes, active, valid)


def _aligned(change: Change, size: tuple[int, int]) -> Image:
    """The before image at the captioner's size, moved onto the after image."""
    mask = change.clusters[0].mask
    dx, dy = change.shift
    scaled = (round(dx * size[1] / mask.shape[1]), round(dy * size[0] / mask.shape[0]))
    return shifted(_resized(change.pair.before.image, size), scaled)


def _resized(image: Image, size: tuple[int, int]) -> Image:
    height, width = size
    shrinks = image.shape[0] >= height and image.shape[1] >= width
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=way), np.uint8)


def _tensor(image: Image) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
