"""The detector: sizes, cells and boxes."""

from __future__ import annotations

import pytest
import torch
from rectangles import distribution, lively

from models.families import CLASSES
from models.grounded.detector import Answer, Detector
from models.grounded.inference import BINS, STRIDES


@pytest.fixture(scope="module")
def detector() -> Detector:
    torch.manual_seed(1)
    return lively(Detector(len(CLASSES))).eval()


def pictures(count: int, height: int, width: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(2)
    return torch.randint(256, (count, 3, height, width), generator=random).byte()


def test_it_has_the_size_of_the_published_one():
    """PicoDet-S with the published 80 classes and "van", batch norms folded."""
    assert len(CLASSES) == 81
    assert sum(p.numel() for p in Detector(len(CLASSES)).parameters()) == 984_279


@torch.inference_mode()
@pytest.mark.parametrize(("height", "width"), [(96, 160), (32, 224)])
def test_every_cell_answers(detector, height, width):
    answer = detector(pictures(2, height, width))
    rows, columns = ([-(-side // s) for s in STRIDES] for side in (height, width))
    cells = sum(h * w for h, w in zip(rows, columns, strict=True))
    assert answer.label.shape == (2, cells, len(CLASSES))
    assert answer.edges.shape == (2, cells, 4, BINS)
    assert answer.boxes().shape == (2, cells, 4)
    assert [m.shape for m in answer.maps] == [(2, 96, h, w) for h, w in zip(rows, columns, strict=True)]
    for stride, h, w in zip(STRIDES, rows, columns, strict=True):
        middle = answer.middle[answer.stride == stride]
        assert middle[0].tolist() == [stride / 2, stride / 2]
        if w > 1:
            assert middle[1].tolist() == [1.5 * stride, stride / 2]
        assert middle[-1].tolist() == [(w - 0.5) * stride, (h - 0.5) * stride]


@torch.inference_mode()
def test_a_batch_equals_its_singles_in_any_order_of_memory(detector):
    some = pictures(3, 64, 96)
    together = detector(some)
    for b in range(3):
        alone = detector(some[b : b + 1])
        torch.testing.assert_close(together.label[b], alone.label[0], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(together.boxes()[b], alone.boxes()[0], rtol=1e-3, atol=1e-3)
    other = Detector(len(CLASSES))
    other.load_state_dict(detector.state_dict())
    other.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    torch.testing.assert_close(other(some).label, together.label, rtol=1e-3, atol=1e-5)


def test_edges_are_means_of_distances():
    far = torch.tensor([1.25, 0.0, 7.0, 2.5])
    answer = Answer(
        torch.zeros(1, 1, 2),
        distribution(far)[None, None],
        torch.tensor([[40.0, 24.0]]),
        torch.tensor([16.0]),
        (),
    )
    expected = torch.tensor([40 - 20.0, 24.0, 40 + 112, 24 + 40])
    torch.testing.assert_close(answer.boxes()[0, 0], expected, rtol=0, atol=1e-3)
    halves = Answer(answer.label.half(), answer.edges.half(), answer.middle, answer.stride, ())
    assert halves.float().boxes().dtype == torch.float32
