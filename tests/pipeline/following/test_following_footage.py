"""Following on real footage, with eyes that know no people, only what differs from the empty scene."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from models.detections import Detections
from models.families import OBJECTS
from pipeline.following import Follower
from pipeline.pairs import candidate_pairs
from pipeline.sources import Image, open_source
from pipeline.thresholds import calibrate


@pytest.mark.footage
def test_on_the_campus_nobody_is_told_more_often_than_he_came(clips: Path) -> None:
    """vtest's first 20 seconds."""
    with open_source(str(clips / "opencv_vtest.avi")) as source:
        frames = [frame for frame, _ in zip(source, range(41), strict=False)]
    pairs = list(candidate_pairs(frames, calibrate(frames).thresholds))
    scene = np.median([f.luma for f in frames], axis=0)

    def see(pictures: Sequence[Image]) -> list[Detections]:
        return [people(picture, scene) for picture in pictures]

    follower = Follower()
    facts = [fact for pair in pairs for fact in follower.follow(pair, see)]
    appeared = [f for f in facts if f.type == "appeared"]
    assert 1 <= len(appeared) <= 8
    assert all(0 <= f.confidence <= 1 for f in facts)
    again = Follower()
    assert [fact for pair in pairs for fact in again.follow(pair, see)] == facts


def people(picture: Image, scene: np.ndarray) -> Detections:
    """Upright regions that differ from the empty scene."""
    height, width = scene.shape
    grey = cv2.resize(
        cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (width, height), interpolation=cv2.INTER_AREA
    )
    mask = (np.abs(grey.astype(float) - scene) > 30).astype(np.uint8)
    mask = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((9, 5), np.uint8))
    _, _, regions, _ = cv2.connectedComponentsWithStats(mask)
    upright = [
        (x / width, y / height, w / width, h / height)
        for x, y, w, h, area in regions[1:]
        if area > 150 and h > 1.3 * w
    ]
    label = torch.zeros(len(upright), len(OBJECTS))
    label[:, OBJECTS.index("person")] = 0.8
    box = torch.tensor(upright).reshape(-1, 4)
    return Detections(box, torch.full((len(upright),), 0.8), label, torch.ones(len(upright), 4))
