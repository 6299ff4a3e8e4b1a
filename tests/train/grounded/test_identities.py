"""Who is who: what a tracker keeps together and what it leaves apart, and what is collected once only."""

import cv2
import numpy as np
import pytest
import torch

from models.detections import Detections
from models.families import CLASSES, OBJECTS
from models.grounded.detector import Detector
from models.grounded.inference import OnnxDetector
from models.grounded.observations import FEATURES
from train.footage.cameras import FootageError
from train.footage.labels import LabelledFrame
from train.footage.votes import Vote
from train.grounded.detector_weights import export_onnx
from train.grounded.identities import FALSE_POSITIVE, ClipTracker, Collector


def seen(*boxes: tuple[float, float, float, float], name: str = "car", score: float = 0.8) -> Detections:
    label, feature = (np.zeros((len(boxes), n), np.float32) for n in (len(OBJECTS), FEATURES))
    label[:, OBJECTS.index(name)] = score
    box = np.array(boxes, np.float32).reshape(-1, 4)
    return Detections(box, np.full(len(boxes), score, np.float32), label, feature)


def test_what_goes_on_is_one_track():
    tracker = ClipTracker()
    numbers = [
        tracker.update(t / 8, seen((0.1 + 0.03 * t, 0.4, 0.1, 0.1), (0.7, 0.1, 0.1, 0.1)))[0]
        for t in range(8)
    ]
    assert len(set(numbers)) == 1
    assert len(tracker.tracks) == 2


def test_a_fast_one_is_expected_where_it_goes():
    tracker = ClipTracker()
    at = [0.1, 0.13, 0.18, 0.25, 0.33, 0.42, 0.52]
    numbers = [tracker.update(t / 8, seen((x, 0.4, 0.07, 0.07)))[0] for t, x in enumerate(at)]
    assert len(set(numbers)) == 1


def test_of_two_that_might_be_meant_neither_is():
    tracker = ClipTracker()
    tracker.update(0.0, seen((0.40, 0.4, 0.1, 0.1)))
    numbers = tracker.update(0.125, seen((0.36, 0.4, 0.1, 0.1), (0.44, 0.4, 0.1, 0.1)))
    assert 0 not in numbers


def test_another_kind_another_place_or_a_long_absence_is_another_track():
    tracker = ClipTracker()
    tracker.update(0.0, seen((0.4, 0.4, 0.1, 0.1)))
    assert tracker.update(0.125, seen((0.4, 0.4, 0.1, 0.1), name="person")) != [0]
    assert tracker.update(0.25, seen((0.8, 0.4, 0.1, 0.1))) != [0]
    for t in range(4):
        assert tracker.update(0.375 + t / 8, seen()) == []
    assert tracker.update(2.0, seen((0.4, 0.4, 0.1, 0.1))) != [0]
    assert tracker.update(2.1, seen((0.1, 0.1, 0.1, 0.1), score=0.15)) == [-1], "too faint to be followed"


@pytest.fixture
def frames(tmp_path) -> list[LabelledFrame]:
    """Two stills of a camera; the teacher sees a car in the first."""
    for name in ("in000025.png", "in000050.png"):
        cv2.imwrite(str(tmp_path / name), np.full((120, 160, 3), 90, np.uint8))
    car = Vote("vehicle", (0.1, 0.1, 0.3, 0.3), 0.9, (("car", 1.0),), 3)
    return [
        LabelledFrame("yard", "in000025.png", None, "images/yard/in000025_000000.jpg", 160, 120, (car,)),
        LabelledFrame("yard", "in000050.png", None, "images/yard/in000050_000000.jpg", 160, 120, ()),
    ]


@pytest.fixture(scope="module")
def blind() -> OnnxDetector:
    """A detector with random weights that sees nothing."""
    torch.manual_seed(0)
    detector = Detector(len(CLASSES)).eval()
    for answer in detector.answer:
        assert isinstance(answer.bias, torch.Tensor)
        answer.bias.data[: len(CLASSES)] = -20
    return OnnxDetector(export_onnx(detector))


def test_false_positives_are_made_where_nothing_is_and_what_was_collected_is_kept(blind, frames, tmp_path):
    collector = Collector(blind, None, seed=3)
    found = collector.collect(frames, tmp_path, tmp_path / "kept")
    plain = [one for one in found if not one.relit]
    assert [one.seconds for one in plain] == [1.0, 2.0], "numbered stills are 25 a second"
    planted = [one.box[one.track == FALSE_POSITIVE] for one in plain]
    near = [(box[:, :2] - 0.1).abs().amax(1) < 0.04 for box in planted]
    assert not near[0].any(), "there is a car"
    assert near[1].any(), "there was one"
    for one in found:
        assert one.feature.shape == (len(one.track), FEATURES)
        assert one.box.dtype == torch.float32
        assert one.reid.isnan().all()
    for path in tmp_path.glob("*.png"):
        path.unlink()
    again = collector.collect(frames, tmp_path, tmp_path / "kept")
    assert [one.occasion for one in again] == [one.occasion for one in found]
    assert all(torch.equal(a.feature, b.feature) for a, b in zip(found, again, strict=True))
    with pytest.raises(FootageError, match="cannot be read"):
        collector.collect(frames, tmp_path, tmp_path / "elsewhere")
