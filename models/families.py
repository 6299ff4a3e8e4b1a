"""Classes that detectors answer, the objects that are told of, and their families: the one table of them."""

from __future__ import annotations

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
    "vehicle": ("car", "van", "bus", "truck", "vehicle"),
    "wheels": ("motorcycle", "bicycle", "cyclist", "motorcyclist"),
}
"""Families of names that are easily taken for each other; any other name is a family of its own.

"vehicle" is one whose kind is not known.
"""

_FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names}
_OBJECT_OF = {member: name for name, members in _MEMBERS.items() for member in members}


def family_of(name: str) -> str:
    """The family of an object's name."""
    return _FAMILY_OF.get(name, name)


def object_of(label: str) -> str:
    """The object's name that a class of a detector stands for."""
    return _OBJECT_OF.get(label, label)


def first_of(family: str) -> int:
    """The number in `OBJECTS` of a family's first object, by which tensors name the family.

    Raises:
        ValueError: no object is of this family.
    """
    return [family_of(name) for name in OBJECTS].index(family)
