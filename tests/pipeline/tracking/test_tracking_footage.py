"""The shipped detector and the tracker on real footage."""

from __future__ import annotations

from pathlib import Path

import av
import pytest
from av.video.reformatter import VideoReformatter

from models import load_captioner
from pipeline.narration.batch import detect
from pipeline.settings import SMALL_WIDTH
from pipeline.sources.frame import small_rgb_of
from pipeline.tracking import Tracker


@pytest.mark.footage
@pytest.mark.slow
def test_a_person_who_walks_through_a_room_enters_and_leaves_once(clips: Path) -> None:
    captioner, scaler, tracker, events = load_captioner(), VideoReformatter(), None, []
    with av.open(str(clips / "intel_one-by-one-person-detection.mp4")) as container:
        tick = 3.5
        for frame in container.decode(video=0):
            if frame.time >= tick:
                tick += 0.4
                image = small_rgb_of(frame, SMALL_WIDTH, scaler)
                tracker = tracker or Tracker(image.shape[1] / image.shape[0])
                events += tracker.update(frame.time, *detect([image], captioner), image)
            if frame.time > 22:
                break
    kinds = [event.kind for event in events]
    assert [kind for kind in kinds if kind not in ("stopped", "resumed")] == ["entered", "left"]
    assert kinds[1] == "stopped"  # she stands and looks at a screen
    assert len({event.track for event in events}) == 1
    assert {event.object for event in events} == {"person"}
    assert min(event.confidence for event in events) > 0.8
