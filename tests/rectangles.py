"""A detector that sees rectangles, for tests of what comes after it."""

from __future__ import annotations

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from models.families import CLASSES
from models.grounded.association import CHANGE_SIGNS, SIGNS
from models.grounded.change_classifier import EVIDENCE, ChangeClassifier
from models.grounded.detector import BINS, STRIDES, Answer, Detector
from models.grounded.grounded import Grounded

GREY = 90
"""Of a picture in which nothing stands."""
COLOURS = {"car": (220, 30, 30), "bottle": (30, 200, 40), "person": (30, 40, 220), "object": (170, 170, 170)}
"""Of things; nobody sees what is grey."""


class RectangleDetector(Detector):
    """Sees coloured rectangles, exactly: mostly red ones are cars, green ones bottles, blue ones people.

    It has the weights of a detector and the layout of its answers, but knows by heart what to answer: tests
    of what comes after it need no training, and their numbers do not hang on rounding.
    """

    def forward(self, pictures: Tensor) -> Answer:
        sizes = [(pictures.shape[2] // s, pictures.shape[3] // s) for s in STRIDES]
        at = [torch.meshgrid(torch.arange(w) + 0.5, torch.arange(h) + 0.5, indexing="xy") for h, w in sizes]
        middle = torch.cat(
            [torch.stack([x.flatten(), y.flatten()], 1) * s for (x, y), s in zip(at, STRIDES, strict=True)]
        )
        stride = torch.cat([torch.full((h * w,), float(s)) for (h, w), s in zip(sizes, STRIDES, strict=True)])
        label = torch.full((len(pictures), len(middle), self.classes), -8.0)
        edges = torch.zeros(len(pictures), len(middle), 4, BINS)
        for b, picture in enumerate(pictures):
            for corners, name in rectangles(picture):
                cell, far = _cell(corners, middle, stride)
                label[b, cell, CLASSES.index(name)] = 3.0
                edges[b, cell] = distribution(far)
        colours = pictures.float() / 255
        maps = tuple(pad(avg_pool2d(colours, s), (0, 0, 0, 0, 0, self.width - 3)) for s in STRIDES)
        return Answer(label, edges, middle, stride, maps)


def rectangles(picture: Tensor) -> list[tuple[Tensor, str]]:
    """Corners in pixels and names of the coloured things in a picture, uint8 ``(3, h, w)``."""
    there = ((picture.int() - GREY).abs().amax(0) > 5).numpy().astype(np.uint8)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(there)
    found = []
    for k, (x, y, w, h, _area) in enumerate(stats.tolist()):
        colour = picture[:, torch.from_numpy(labels == k)].float().mean(1)
        if k and float(colour.max() - colour.min()) > 20:
            name = ("car", "bottle", "person")[int(colour.argmax())]
            found.append((torch.tensor([x, y, x + w, y + h]).float(), name))
    return found


def _cell(corners: Tensor, middle: Tensor, stride: Tensor) -> tuple[int, Tensor]:
    """The cell nearest to the middle of a box that reaches its edges, and how many cells away they are."""
    far = torch.cat([middle - corners[:2], corners[2:] - middle], dim=1) / stride[:, None]
    good = ((far >= 0) & (far <= BINS - 1)).all(1).nonzero()[:, 0]
    best = int(good[(far[good] * stride[good, None]).amax(1).argmin()])
    return best, far[best]


def distribution(far: Tensor) -> Tensor:
    """Logits ``(4, BINS)`` of which the means are these distances in cells."""
    return (1 - (far[:, None] - torch.arange(BINS)).abs()).clamp(min=1e-9).log()


def lively(detector: Detector) -> Detector:
    """A detector with random weights through which a picture is felt at the other end."""
    for module in detector.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return detector


def see_rectangles(captioner: Grounded) -> Grounded:
    """Let a captioner see rectangles: a change is what differs in pixels, and what matches has moved."""
    captioner.detector.__class__ = RectangleDetector
    for each in captioner.classifier.modules():
        if not isinstance(each, ChangeClassifier):
            continue
        for parameter in each.parameters():
            torch.nn.init.zeros_(parameter)
        first, second, last = (each.net[k] for k in (0, 2, 4))
        with torch.no_grad():
            first.weight[0, EVIDENCE.index("share of its box that differs")] = 1.0
            second.weight[0, 0] = 1.0
            last.weight[0, 0], last.bias[0] = 8.0, -4.0
    captioner.change_weights[CHANGE_SIGNS.index("change")] = 1.0
    captioner.move_weights[SIGNS.index("best match")] = 1.0
    return captioner
