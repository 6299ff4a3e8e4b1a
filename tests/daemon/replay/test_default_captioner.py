"""What ships, on a scene that it was not trained on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from still import Still

from daemon.config.plan import CameraPlan
from models import load_captioner
from models.captioner import Captioner
from pipeline.changes import ChangeOptions, SceneEvent, find_changes
from pipeline.narration.narration import narrate
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame, Image


def frame(image: Image, second: float) -> Frame:
    time = datetime(2024, 5, 1, 12, tzinfo=UTC) + timedelta(seconds=second)
    luma = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    return Frame("yard", time, Clock.FILE, round(second * 1000), luma, Still(image))


def pair(before: Image, after: Image, *, beyond_upper: bool = False) -> FramePair:
    return FramePair(frame(before, 0), frame(after, 4), 9.0, beyond_upper)


def frames(clip: Path, *wanted: int) -> list[Image]:
    """Frames of a clip by their number in the order of decoding."""
    found = {}
    with av.open(str(clip)) as container:
        for number, decoded in enumerate(container.decode(video=0)):
            if number in wanted:
                found[number] = np.asarray(decoded.to_ndarray(format="rgb24"), np.uint8)
            if number >= max(wanted):
                break
    return [found[number] for number in wanted]


@pytest.fixture(scope="module")
def shipped() -> Captioner:
    return load_captioner()


@pytest.fixture(scope="module")
def options(shipped) -> ChangeOptions:
    return CameraPlan("yard", "").change_options(shipped)


@pytest.mark.parametrize("gain", [0.6, 0.75, 1.25])
def test_light_alone_is_reported_as_light(clips, shipped, options, gain):
    for clip in ("intel_one-by-one-person-detection.mp4", "opencv_vtest.avi", "tfl_pentonville-penton.mp4"):
        [scene] = frames(clips / clip, 20)
        other = np.asarray(np.clip(scene * gain, 0, 255).round(), np.uint8)
        [narration] = narrate(find_changes([pair(scene, other, beyond_upper=True)], options), shipped)
        assert (narration.event, narration.text) == (SceneEvent.LIGHT, "The light has changed.")
        assert narration.abstained == ""


def test_nothing_is_reported_of_noise_shake_and_compression(clips, shipped, options):
    """Noise, a small shift and another compression."""
    for clip in ("opencv_vtest.avi", "tfl_elephant-castle-walworth.mp4"):
        [scene] = frames(clips / clip, 30)
        noise = np.random.default_rng(1).normal(0, 8, scene.shape)
        noisy = np.asarray(np.clip(scene + noise, 0, 255), np.uint8)
        shaken = np.roll(scene, (2, -3), axis=(0, 1))
        _, jpeg = cv2.imencode(".jpg", scene, [cv2.IMWRITE_JPEG_QUALITY, 12])
        squeezed = cv2.imdecode(jpeg, cv2.IMREAD_COLOR)
        pairs = [pair(scene, np.asarray(other, np.uint8)) for other in (noisy, shaken, squeezed)]
        assert [n.text for n in narrate(find_changes(pairs, options), shipped)] == ["", "", ""]
