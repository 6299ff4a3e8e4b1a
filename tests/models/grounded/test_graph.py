"""The detector's graph: what the module says, and the same digits whatever is beside a picture."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from rectangles import lively

from models.families import CLASSES
from models.grounded.detector import Detector
from models.grounded.graph import DetectorGraph, graph_of


@pytest.fixture(scope="module")
def detector() -> Detector:
    torch.manual_seed(1)
    return lively(Detector(len(CLASSES))).eval()


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def pictures(count: int, height: int, width: int) -> torch.Tensor:
    return torch.from_numpy(
        np.random.default_rng(2).integers(0, 256, (count, 3, height, width), dtype=np.uint8)
    )


@torch.inference_mode()
@pytest.mark.parametrize(("height", "width"), [(96, 160), (64, 64), (32, 224)])
def test_it_answers_as_the_module_does(detector: Detector, height: int, width: int) -> None:
    some = pictures(2, height, width)
    ours, own = graph_of(detector)(some), detector(some)
    for name in ("label", "edges", "middle", "stride"):
        torch.testing.assert_close(getattr(ours, name), getattr(own, name), rtol=1e-3, atol=1e-4)
    for ours_map, own_map in zip(ours.maps, own.maps, strict=True):
        torch.testing.assert_close(ours_map, own_map, rtol=1e-3, atol=1e-4)


@torch.inference_mode()
def test_neither_neighbours_nor_threads_change_a_digit(detector: Detector) -> None:
    some = pictures(3, 96, 160)
    together = DetectorGraph(detector, 1)(some)
    for threads in (1, 2, 3):
        graph = DetectorGraph(detector, threads)
        for b in range(3):
            alone = graph(some[b : b + 1])
            assert torch.equal(alone.label[0], together.label[b])
            assert torch.equal(alone.edges[0], together.edges[b])


@torch.no_grad()
def test_it_is_drawn_anew_when_weights_or_threads_change(threads: None) -> None:
    detector = lively(Detector(len(CLASSES))).eval()
    some = pictures(1, 64, 64)
    first = graph_of(detector)
    assert graph_of(detector) is first
    detector.answer[0].bias.add_(1.0)
    changed = graph_of(detector)
    torch.testing.assert_close(changed(some).label[0, 0], first(some).label[0, 0] + 1)
    torch.set_num_threads(torch.get_num_threads() + 1)
    assert graph_of(detector) is not changed
    detector.load_state_dict(lively(Detector(len(CLASSES))).state_dict())
    torch.testing.assert_close(graph_of(detector)(some).label, detector(some).label, rtol=1e-3, atol=1e-4)


def test_where_it_computes_decides_who_answers(detector: Detector) -> None:
    assert isinstance(graph_of(detector), DetectorGraph)
    elsewhere = Detector(len(CLASSES)).to("meta")
    assert graph_of(elsewhere) is elsewhere


def test_what_narrating_made_does_not_spoil_training() -> None:
    detector = lively(Detector(len(CLASSES)))
    some = pictures(1, 32, 64)
    with torch.inference_mode():
        graph_of(detector)(some)
    answer = detector(some)
    (answer.boxes().sum() + answer.label.sum()).backward()
    assert detector.stem[0].weight.grad is not None
