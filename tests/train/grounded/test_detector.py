"""What training the detector lowers: right answers cost less, doubtful ones nothing, and it learns."""

from dataclasses import replace

import pytest
import torch
from rectangles import COLOURS, GREY, distribution, lively
from torch import Tensor, nn

from models.grounded.detector import Answer, Detector
from models.grounded.inference import STRIDES
from train.grounded.detector import NEAREST, Objects, corner_overlaps, detector_loss

SIDE = 96
BOXES = [((10, 20, 40, 60), 0), ((50, 40, 90, 70), 1), ((20, 8, 50, 38), 1), ((44, 40, 88, 88), 0)]
NAMES = ("car", "person")
NOBODY = torch.zeros(0, 4)
ALL = torch.ones(2, dtype=torch.bool)


def scene() -> tuple[Tensor, list[Objects]]:
    """Four pictures with one thing each, and what is in them."""
    pictures = torch.full((4, 3, SIDE, SIDE), GREY, dtype=torch.uint8)
    objects = []
    for picture, (box, kind) in zip(pictures, BOXES, strict=True):
        left, top, right, bottom = box
        colour = torch.tensor(COLOURS[NAMES[kind]], dtype=torch.uint8)
        picture[:, top:bottom, left:right] = colour.view(3, 1, 1)
        objects.append(Objects(torch.tensor([box]).float(), torch.eye(2)[[kind]], NOBODY))
    return pictures, objects


def perfect(objects: list[Objects]) -> Answer:
    """What nobody could answer better: in ten cells inside of each object its class and its box."""
    middles, strides = [], []
    for s in STRIDES:
        at = (torch.arange(-(-SIDE // s)) + 0.5) * s
        x, y = torch.meshgrid(at, at, indexing="xy")
        middles.append(torch.stack([x.flatten(), y.flatten()], 1))
        strides.append(torch.full((x.numel(),), float(s)))
    middle, stride = torch.cat(middles), torch.cat(strides)
    label = torch.full((len(objects), len(middle), 2), -9.0)
    edges = torch.zeros(len(objects), len(middle), 4, 8)
    for b, known in enumerate(objects):
        [box], [kind] = known.box, known.label.argmax(1).tolist()
        far = torch.cat([middle - box[:2], box[2:] - middle], 1) / stride[:, None]
        within = ((far > 0) & (far < 7)).all(1).nonzero()[:NEAREST, 0]
        label[b, within, kind] = 9.0
        for cell in within.tolist():
            edges[b, cell] = distribution(far[cell])
    return Answer(label, edges, middle, stride, ())


def cost(answer: Answer, objects: list[Objects]) -> float:
    return float(detector_loss(answer, objects, torch.full_like(answer.label, -5.0), ALL))


def test_a_perfect_answer_costs_less_than_any_worse_one():
    _, objects = scene()
    best = perfect(objects)
    silent = replace(best, label=torch.full_like(best.label, -9.0))
    misnamed = replace(best, label=best.label.flip(-1))
    everywhere = replace(best, label=best.label.clone())
    everywhere.label[..., 0] = 9.0
    wide = replace(best, edges=torch.zeros_like(best.edges))
    costs = [cost(each, objects) for each in (silent, misnamed, everywhere, wide)]
    assert cost(best, objects) < 0.4 * min(costs)


def test_where_nobody_knows_nothing_is_learnt():
    _, objects = scene()
    seeing = perfect(objects)
    label = seeing.label.clone().requires_grad_()
    doubtful = [Objects(NOBODY, torch.zeros(0, 2), known.box) for known in objects]
    answer = replace(seeing, label=label)
    detector_loss(answer, doubtful, torch.full_like(label, -5.0), ALL).backward()
    sure = (seeing.label > 0).any(-1)
    assert not label.grad[sure].any()
    assert label.grad[~sure].abs().max() < 1e-6, "elsewhere it is silent, and rightly so"


def test_classes_that_are_not_taught_keep_to_what_they_were():
    _, objects = scene()
    nothing = [Objects(NOBODY, torch.zeros(0, 2), NOBODY)] * 4
    label = torch.zeros_like(perfect(objects).label)
    before = torch.full_like(label, 2.0)
    taught = torch.tensor([True, False])
    answer = replace(perfect(objects), label=label.requires_grad_())
    detector_loss(answer, nothing, before, taught).backward()
    assert (label.grad[..., 0] > 0).all(), "taught that nothing is there"
    assert (label.grad[..., 1] < 0).all(), "drawn to what it said before"


@pytest.mark.slow
def test_four_pictures_can_be_learned_by_heart():
    torch.manual_seed(0)
    detector = lively(Detector(2, width=16))
    for layer in detector.answer:
        nn.init.normal_(layer.weight, std=0.01)
        nn.init.constant_(layer.bias[:2], -3.0)
    pictures, objects = scene()
    before = torch.full_like(detector(pictures).label, -5.0).detach()
    optimiser = torch.optim.AdamW(detector.parameters(), lr=3e-3)
    losses: list[float] = []

    def by_heart() -> bool:
        with torch.no_grad():
            answer = detector(pictures)
        surest = [int(label.amax(1).argmax()) for label in answer.label]
        return all(
            answer.label[b, surest[b]].argmax() == known.label[0].argmax()
            and bool(corner_overlaps(answer.boxes()[b, surest[b]][None], known.box) > 0.6)
            for b, known in enumerate(objects)
        )

    for step in range(1, 71):  # as long as it needs
        loss = detector_loss(detector(pictures), objects, before, ALL)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(detector.parameters(), 5.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        if step % 10 == 0 and losses[-1] < 0.5 * losses[0] and by_heart():
            break
    assert losses[-1] < 0.5 * losses[0]
    assert by_heart()
