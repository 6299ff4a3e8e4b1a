"""Objects: the classes of the detector, the names in sentences and records, their nouns and families.

The one table of them: a new object is one entry of `KINDS`, and of `OBJECTS` if the detector answers it.
"""

from dataclasses import dataclass

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

CLASSES = (*COCO, "van")  # the detector's classes; COCO has no van

OBJECTS = (
    *("person", "car", "van", "bus", "truck", "motorcycle", "bicycle", "animal", "bag", "bottle"),
    "object",
)
"""Names to which the classes are summed up, in the order of the tensors; "object" is anything else."""


@dataclass(frozen=True, slots=True)
class Kind:
    """An object that sentences name."""

    plural: str  # the noun for several; the singular is the kind's name
    role: str  # person, vehicle, animal, thing (put down), fixture (stays where it is) or other
    family: str  # kinds of one family are easily taken for each other
    words: str = ""  # further nouns that people use for it, which are read but never written
    classes: tuple[str, ...] = ()  # of the detector, where they are not called as the kind


_PERSON_WORDS = (
    "persons pedestrian pedestrians man men woman women boy boys girl girls child children kid kids lady "
    "ladies gentleman guy guys someone somebody worker workers officer individual individuals figure figures "
    "group crowd"
)
_PARCELS = ("umbrella", "skateboard", "chair", "potted_plant", "boat", "cup", "laptop", "book", "sports_ball")

KINDS: dict[str, Kind] = {
    "person": Kind("people", "person", "person", _PERSON_WORDS),
    "car": Kind(
        "cars",
        "vehicle",
        "vehicle",
        "taxi taxis cab cabs suv suvs sedan sedans hatchback hatchbacks jeep jeeps",
    ),
    "van": Kind("vans", "vehicle", "vehicle", "minivan minivans ambulance ambulances"),
    "bus": Kind("buses", "vehicle", "vehicle", "coach coaches minibus minibuses"),
    "truck": Kind("trucks", "vehicle", "vehicle", "lorry lorries pickup pickups trailer trailers"),
    "vehicle": Kind("vehicles", "vehicle", "vehicle", "traffic automobile automobiles"),
    "motorcycle": Kind(
        "motorcycles", "vehicle", "two-wheeler", "motorbike motorbikes scooter scooters moped mopeds"
    ),
    "bicycle": Kind("bicycles", "other", "two-wheeler", "bike bikes"),
    "cyclist": Kind("cyclists", "person", "two-wheeler", "biker bikers"),
    "motorcyclist": Kind("motorcyclists", "person", "two-wheeler"),
    "rider": Kind("riders", "person", "two-wheeler"),
    "animal": Kind(
        "animals",
        "animal",
        "animal",
        "cat cats bird birds horse horses",
        ("bird", "cat", "dog", "horse", "sheep", "cow"),
    ),
    "dog": Kind("dogs", "animal", "animal"),
    "bag": Kind(
        "bags", "thing", "bag", "backpack backpacks suitcase suitcases", ("backpack", "handbag", "suitcase")
    ),
    "bottle": Kind("bottles", "thing", "bottle"),
    "object": Kind("objects", "thing", "object", "thing things something item items", (*_PARCELS, "train")),
    "door": Kind("doors", "fixture", "door"),
    "gate": Kind("gates", "fixture", "gate"),
}
"""Every object that sentences name."""

PEOPLE = frozenset(name for name, kind in KINDS.items() if kind.role == "person")
"""People: their clothes are named, never "a black person"."""
VEHICLES = frozenset(name for name, kind in KINDS.items() if kind.family == "vehicle")  # their paint is named
THINGS = frozenset(name for name, kind in KINDS.items() if kind.role == "thing")
"""Objects that do not move by themselves: somebody puts them down and takes them away."""

FIXTURES = frozenset(name for name, kind in KINDS.items() if kind.role == "fixture")  # they open and close
_OBJECT_OF = {label: name for name, kind in KINDS.items() for label in kind.classes}


def family_of(name: str) -> str:
    """The family of an object's name; a name that is not in the table is a family of its own."""
    return KINDS[name].family if name in KINDS else name


def object_of(label: str) -> str:
    return _OBJECT_OF.get(label, label)


def first_of(family: str) -> int:
    """The number in `OBJECTS` of a family's first object, which names it in tensors; raises `ValueError`."""
    return [family_of(name) for name in OBJECTS].index(family)


_READ_AS = {"dog": "animal", "object": "something"}
_FURTHER = {
    "umbrella": "umbrella umbrellas",
    "furniture": "chair chairs table tables bench benches",
    "cart": "cart carts stroller strollers pram prams",
    "box": "box boxes package packages parcel parcels",
    "shadow": "shadow shadows",
}


def _nouns() -> dict[str, str]:
    nouns: dict[str, str] = {}
    for name, kind in KINDS.items():
        if kind.role != "fixture":  # people name doors and gates as places
            key = _READ_AS.get(name, name)
            nouns[key] = f"{nouns.get(key, '')} {name} {kind.plural} {kind.words}".strip()
    return nouns | _FURTHER


NOUNS = _nouns()  # class to its nouns, separated by spaces: many more than the detector names
