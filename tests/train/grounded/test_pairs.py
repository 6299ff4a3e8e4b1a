"""Pairs of labelled frames: the time between them."""

import pytest

from train.footage.labels import LabelledFrame
from train.grounded.change_classifier import gap_between


def frame(file: str, seconds: float | None = None) -> LabelledFrame:
    return LabelledFrame(
        camera="yard", file=file, seconds=seconds, image="a.jpg", width=64, height=48, votes=()
    )


@pytest.mark.parametrize(
    ("one", "other", "gap_s"),
    [
        (frame("a.mp4", 3.5), frame("a.mp4", 1.0), 2.5),
        (frame("20151102_081938.jpg"), frame("20151102_084938.jpg"), 1800.0),
        (frame("625_201709301058.mp4", 2.0), frame("625_201709301158.mp4", 4.0), 3600.0),
        (frame("a.mp4", 3.5), frame("b.mp4", 1.0), None),
        (frame("a.jpg"), frame("a.jpg"), None),
    ],
)
def test_a_gap_is_told_by_the_clip_or_by_names(one, other, gap_s):
    assert gap_between(one, other) == gap_s
    assert gap_between(other, one) == gap_s
