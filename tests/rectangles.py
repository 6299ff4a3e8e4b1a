"""A detector that sees rectangles, for tests of what comes after it."""

from collections.abc import Sequence

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models import load_captioner
from models.detections import Detections
from models.families import OBJECTS
from models.grounded.association import CHANGE_SIGNS, PAIR_SIGNS, SIGNS
from models.grounded.detector import BINS, Detector
from models.grounded.grounded import Grounded, Weights
from models.grounded.observations import EVIDENCE, ChangeClassifier

GREY = 90
"""Of a picture in which nothing stands."""
COLOURS = {"car": (220, 30, 30), "bottle": (30, 200, 40), "person": (30, 40, 220), "object": (170, 170, 170)}
"""Of things; nobody sees what is grey."""
SCORE = 0.95


class RectangleDetector:
    """Sees coloured rectangles, exactly: mostly red ones are cars, green ones bottles, blue ones people."""

    def detect(self, images: Sequence[NDArray[np.uint8]], least: float = 0.05) -> list[Detections]:
        return [rectangles(image) for image in images]


def rectangles(picture: NDArray[np.uint8]) -> Detections:
    """The coloured things in a picture, uint8 ``(h, w, 3)``; their features are their mean colours."""
    red, green, blue = cv2.split(picture)  # NumPy takes ten times as long over axes of three
    spread = cv2.max(cv2.max(red, green), blue) - cv2.min(cv2.min(red, green), blue)
    _, labels, stats, _ = cv2.connectedComponentsWithStats((spread > 20).astype(np.uint8))
    rows = range(1, len(stats))
    colours = {k: picture[labels == k].mean(0) for k in rows}
    height, width = picture.shape[:2]
    box = (stats[rows, :4] / (width, height, width, height)).astype(np.float32).reshape(-1, 4)
    label, feature = (np.zeros((len(rows), n), np.float32) for n in (len(OBJECTS), 192))
    for n, k in enumerate(rows):
        label[n, OBJECTS.index(("car", "bottle", "person")[int(colours[k].argmax())])] = SCORE
        feature[n, :3] = colours[k] / 255
    return Detections(box, np.full(len(rows), SCORE, np.float32), label, feature)


def distribution(far: Tensor) -> Tensor:
    """Logits ``(4, BINS)`` of which the means are these distances in cells."""
    return (1 - (far[:, None] - torch.arange(BINS)).abs()).clamp(min=1e-9).log()


def lively(detector: Detector) -> Detector:
    """A detector with random weights through which a picture is felt at the other end."""
    for module in detector.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return detector


def see_rectangles() -> Grounded:
    """A captioner that sees rectangles: a change is what differs in pixels, and what matches has moved."""
    made = load_captioner()
    assert isinstance(made, Grounded)
    shapes = ((8, len(EVIDENCE)), (8, 8), (1, 8))
    layers, biases = (tuple(np.zeros((1, *shape[:n])) for shape in shapes) for n in (2, 1))
    layers[0][0, 0, EVIDENCE.index("share of its box that differs")] = 1.0
    layers[1][0, 0, 0] = 1.0
    layers[2][0, 0, 0], biases[2][0] = 8.0, -4.0
    classifier = ChangeClassifier(np.zeros((1, len(EVIDENCE))), np.ones((1, len(EVIDENCE))), layers, biases)
    match, change, move = (np.zeros(len(each) + 1) for each in (PAIR_SIGNS, CHANGE_SIGNS, SIGNS))
    change[CHANGE_SIGNS.index("change")] = move[SIGNS.index("best match")] = 1.0
    made.weights = Weights(0.5, match, change, move, classifier, made.weights.embedding)
    made.detector = RectangleDetector()
    del made.graphs["embedding"]
    return made
