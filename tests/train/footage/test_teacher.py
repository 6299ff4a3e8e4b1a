from pathlib import Path

import av
import numpy as np
import pytest

import train.footage.teacher
from models.boxes import intersection, iou, union
from train.footage.teacher import Detection, Teacher, merge_riders, suppress
from train.footage.teachers import Spotted, TeacherFile, Teachers, teachers


@pytest.fixture(scope="module")
def weights(clips: Path) -> tuple[TeacherFile, ...]:
    path = clips.parent / "weights" / "yolox_nano_416_coco.onnx"
    if not path.is_file():
        pytest.skip("no teacher weights beside the checkout")
    return (TeacherFile(path),)


def frame(path: Path, number: int) -> np.ndarray:
    with av.open(str(path)) as container:
        for index, picture in enumerate(container.decode(video=0)):
            if index == number:
                return picture.to_ndarray(format="rgb24")
    raise AssertionError(f"{path} has no frame {number}")


def test_boxes() -> None:
    a, b = (0.1, 0.1, 0.2, 0.2), (0.2, 0.1, 0.2, 0.2)
    assert intersection(a, b) == pytest.approx(0.02)
    assert iou(a, b) == pytest.approx(0.02 / 0.06)
    assert iou(a, (0.6, 0.6, 0.1, 0.1)) == 0
    assert union(a, b) == pytest.approx((0.1, 0.1, 0.3, 0.2))


def test_suppression_keeps_one_of_a_family_and_both_of_two() -> None:
    car = Detection("car", (0.1, 0.1, 0.2, 0.2), 0.6)
    bus = Detection("bus", (0.11, 0.1, 0.2, 0.2), 0.8)
    person = Detection("person", (0.1, 0.1, 0.2, 0.2), 0.5)
    part = Detection("truck", (0.2, 0.15, 0.05, 0.05), 0.4)
    beside = Detection("car", (0.5, 0.1, 0.2, 0.2), 0.3)
    assert suppress([car, bus, person, part, beside]) == (bus, person, beside)


def test_a_rider_and_a_bicycle_are_one_cyclist() -> None:
    bicycle = Detection("bicycle", (0.4, 0.5, 0.1, 0.2), 0.5)
    rider = Detection("person", (0.41, 0.35, 0.08, 0.3), 0.7)
    walker = Detection("person", (0.7, 0.35, 0.08, 0.3), 0.6)
    merged = merge_riders([bicycle, rider, walker])
    assert [d.label for d in merged] == ["cyclist", "person"]
    assert merged[0].box == pytest.approx(union(bicycle.box, rider.box))
    assert merge_riders([bicycle, walker]) == (walker, bicycle)


class Fixed:
    """A network that sees the same wherever it looks."""

    def __init__(self, *sights: Spotted) -> None:
        self.sights = list(sights)

    def __call__(self, image: np.ndarray) -> list[Spotted]:
        return self.sights if image.shape[1] > 60 else []  # on the whole frame only


def test_tells_what_several_agree_on(monkeypatch: pytest.MonkeyPatch) -> None:
    place = (0.2, 0.2, 0.4, 0.5)
    networks = {
        "named": Fixed(Spotted("truck", 0.5, *place), Spotted("cat", 0.9, 0.7, 0.7, 0.9, 0.9)),
        "unnamed": Fixed(Spotted("vehicle", 0.6, *place), Spotted("vehicle", 0.5, 0.5, 0.6, 0.6, 0.7)),
        "bikes": Fixed(Spotted("bike", 0.4, 0.7, 0.1, 0.8, 0.2), Spotted("person", 0.2, 0.1, 0.8, 0.2, 0.9)),
    }
    monkeypatch.setattr(train.footage.teacher, "teachers", lambda _files: Teachers(networks))
    found = Teacher(()).detect(np.zeros((100, 100, 3), np.uint8))
    assert [d.label for d in found] == ["truck", "vehicle", "motorcycle"], "no cat, no doubtful person"
    assert found[0].box == pytest.approx((0.2, 0.2, 0.2, 0.3))
    assert [d.score for d in found] == pytest.approx([(1 - (1 - 0.4) * (1 - 0.48)) / 0.8, 0.5, 0.4])
    assert len(Teacher((), min_score=0.45).detect(np.zeros((100, 100, 3), np.uint8))) == 2


@pytest.mark.footage
def test_sees_what_is_there(clips: Path, weights: tuple[TeacherFile, ...]) -> None:
    teacher = Teacher(weights)
    bottles = teacher.detect(frame(clips / "intel_bottle-detection.mp4", 100))
    assert [d.label for d in bottles[:3]] == ["bottle"] * 3
    assert all(d.score > 0.8 for d in bottles[:3])
    (worker,) = [
        d for d in teacher.detect(frame(clips / "intelprev_worker-zone-detection.mp4", 30)) if d.score > 0.5
    ]
    assert worker.label == "person"
    x, y, width, height = worker.box
    assert 0 <= x < x + width <= 1.0001
    assert 0 <= y < y + height <= 1.0001
    assert height > width


@pytest.mark.footage
def test_tiles_find_more_of_a_busy_junction_than_the_frame(
    clips: Path, weights: tuple[TeacherFile, ...]
) -> None:
    teacher = Teacher(weights)
    image = frame(clips / "tfl_elephant-castle-walworth.mp4", 100)
    asked = teachers(weights)
    whole = [raw for _, raw in asked(image, tiled=False) if raw.score >= 0.32]
    assert len(teacher.detect(image)) >= len(whole) + 3
