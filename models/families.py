"""Classes that detectors answer, the objects that are told of, and their families: the one table of them."""

from __future__ import annotations

import torch
from torch import Tensor

COCO = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic_light",
    "fire_hydrant", "stop_sign", "parking_meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow",
    "elephant", "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee",
    "skis", "snowboard", "sports_ball", "kite", "baseball_bat", "baseball_glove", "skateboard", "surfboard",
    "tennis_racket", "bottle", "wine_glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple",
    "sandwich", "orange", "broccoli", "carrot", "hot_dog", "pizza", "donut", "cake", "chair", "couch",
    "potted_plant", "bed", "dining_table", "toilet", "tv", "laptop", "mouse", "remote", "keyboard",
    "cell_phone", "microwave", "oven", "toaster", "sink", "refrigerator", "book", "clock", "vase",
    "scissors", "teddy_bear", "hair_drier", "toothbrush",
)  # fmt: skip
"""The classes of the weights that training starts from, in their order (Lin et al. 2014)."""

CLASSES = (*COCO, "van")
"""What the detector answers; COCO knows no van."""

OBJECTS = (
    "person",
    "car",
    "van",
    "bus",
    "truck",
    "motorcycle",
    "bicycle",
    "animal",
    "bag",
    "bottle",
    "object",
)
"""What is told; "object" is what has no name here."""

_MEMBERS = {
    "animal": ("bird", "cat", "dog", "horse", "sheep", "cow"),
    "bag": ("backpack", "handbag", "suitcase"),
    "object": (
        "umbrella",
        "skateboard",
        "chair",
        "potted_plant",
        "train",
        "boat",
        "cup",
        "laptop",
        "book",
        "sports_ball",
    ),
}
"""Classes of the detector that an object's name stands for, where they are not one of the same name."""

FAMILIES = {
    **dict.fromkeys(("car", "van", "bus", "truck"), "vehicle"),
    **dict.fromkeys(("motorcycle", "bicycle"), "wheels"),
}
"""Objects that are easily taken for each other."""


def _groups() -> Tensor:
    """Bool ``(len(OBJECTS), len(CLASSES))``: which classes an object's name stands for."""
    table = torch.zeros(len(OBJECTS), len(CLASSES), dtype=torch.bool)
    for row, name in enumerate(OBJECTS):
        for member in _MEMBERS.get(name, (name,)):
            table[row, CLASSES.index(member)] = True
    return table


GROUPS = _groups()
_FIRST = ("person", *["car"] * 4, *["motorcycle"] * 2, "animal", "bag", "bottle", "object")
FAMILY = torch.tensor([OBJECTS.index(name) for name in _FIRST])
"""int64 ``(len(OBJECTS),)``: the first object of each one's family."""
