"""What ships, on a scene that it was not trained on."""

from datetime import UTC, datetime, timedelta

import cv2
import numpy as np
from made_scenes import real_frames
from still import Still

from daemon.config.plan import CameraPlan
from models import load_captioner
from pipeline.changes import find_changes
from pipeline.narration.narration import narrate
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame, Image


def frame(image: Image, second: float) -> Frame:
    time = datetime(2024, 5, 1, 12, tzinfo=UTC) + timedelta(seconds=second)
    luma = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    return Frame("yard", time, Clock.FILE, round(second * 1000), luma, Still(image))


def test_nothing_is_reported_of_noise_shake_and_compression(clips):
    """Noise, a small shift and another compression."""
    shipped = load_captioner()
    options = CameraPlan("yard", "").change_options(shipped)
    for clip in ("opencv_vtest.avi", "tfl_elephant-castle-walworth.mp4"):
        scene = real_frames(clips / clip, 30)[-1]
        noise = np.random.default_rng(1).normal(0, 8, scene.shape)
        noisy = np.asarray(np.clip(scene + noise, 0, 255), np.uint8)
        shaken = np.roll(scene, (2, -3), axis=(0, 1))
        _, jpeg = cv2.imencode(".jpg", scene, [cv2.IMWRITE_JPEG_QUALITY, 12])
        squeezed = cv2.imdecode(jpeg, cv2.IMREAD_COLOR)
        others = (np.asarray(other, np.uint8) for other in (noisy, shaken, squeezed))
        pairs = [FramePair(frame(scene, 0), frame(other, 4), 9.0, beyond_upper=False) for other in others]
        assert [n.text for n in narrate(find_changes(pairs, options), shipped)] == ["", "", ""]
