"""The generated benchmark on disk: `generate` writes it.

The folder has the layout of `train.samples`; ``generated.json`` says how it was made. Every
annotator is an entry of its own with a repeated id. Further keys of an entry: ``shift`` ``[dx, dy]``,
``turn`` (degrees) and ``zoom`` of the after frame, ``camera_change`` (still, light, view or shift), and of
each change its ``colour`` and ``surface``. ``kind`` is changed, or the distractor's: light, view or shift.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import cv2
import numpy as np
import yaml

from models.boxes import Box, hull
from models.families import VEHICLES as PAINTED
from train import Progress
from train.papers.generated.rendering import Boxes, CameraKind, draw_camera, render
from train.papers.generated.scenery import Scenery, scenery
from train.papers.generated.stage import (
    SIBLINGS,
    NoRoomError,
    Prop,
    Stage,
    StagedChange,
    crowd,
    stage,
    surface_name,
)
from train.samples import (
    SPLITS,
    SampleChange,
    SampleError,
    new_folder,
    sample_entry,
    write_entries,
    write_image,
)

_WORDINGS = yaml.safe_load(Path(__file__).with_name("captions.yaml").read_text(encoding="utf-8"))
NO_CHANGE: list[str] = _WORDINGS["no_change"]
_FORMS: dict[str, list[tuple[str, float]]] = _WORDINGS["forms"]
NOUNS: dict[str, list[tuple[str, str]]] = _WORDINGS["nouns"]
_DOING: dict[str, list[str]] = _WORDINGS["doing"]

_NUMBERS = ("zero", "one", "two", "three", "four")
_TELLS = (0.97, 0.75, 0.55, 0.4)  # of the largest change, the second, ...
_NEAR = 0.16
_MIDDLE, _BETWEEN = (0.4, 0.6), (0.36, 0.7)  # shares of the frame that have no side, neither near nor far
_DEPTHS = (("at the top", "in the background"), ("at the bottom", "in the foreground"))


def annotate(stage: Stage, boxes: Sequence[Box], rng: np.random.Generator) -> dict[str, int | None]:
    """Describe a pair as one annotator: sentences in their order, and the position of each one's change.

    `boxes` are of what is named in each change, the largest first.
    """
    if not stage.changes:
        return {NO_CHANGE[int(rng.integers(len(NO_CHANGE)))]: None}
    chance = [_TELLS[min(k, len(_TELLS) - 1)] for k in range(len(stage.changes))]
    chosen = [k for k, share in enumerate(chance) if rng.random() < share] or [0]
    if len(chosen) > 1 and rng.random() < 0.15:  # noqa: PLR2004
        chosen[0], chosen[1] = chosen[1], chosen[0]
    said: dict[str, int | None] = {}
    for k in chosen:
        said.setdefault(_sentence(stage, stage.changes[k], boxes[k], rng), k)
    return said


def form_words(one: str, many: str, number: int = 1, colour: str | None = None) -> dict[str, str]:
    """The words for the braces of a form, but for the place, of one noun and its plural."""
    one, many = (f"{colour} {noun}" if colour else noun for noun in (one, many))
    several = f"{_NUMBERS[number]} {many}"
    a, the, has, are = (_a(one), one, "has", "is") if number == 1 else (several, several, "have", "are")
    return {"a": a, "the": f"the {the}", "one": one, "many": many, "has": has, "is": are}


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _side(box: Box) -> str:
    """At which side of the picture a box is; empty in the middle."""
    x = box[0] + box[2] / 2
    return "on the left" if x < _MIDDLE[0] else "on the right" if x > _MIDDLE[1] else ""


def _depth(box: Box) -> int | None:
    """0 of a box far away, 1 of a near one; None between."""
    y = box[1] + box[3] / 2
    return 0 if y < _BETWEEN[0] else 1 if y > _BETWEEN[1] else None


def plain_sentence(change: str, label: str, box: Box) -> str:
    """The most usual wording of a change of one object, with the side of the picture where it is."""
    depth = _depth(box)
    at = _side(box) or ("" if depth is None else _DEPTHS[depth][1])
    one, many = NOUNS.get(label, [(label, f"{label}s")])[0]
    return " ".join(_FORMS[change][0][0].format(**form_words(one, many), at=at).split())


def _sentence(stage: Stage, change: StagedChange, box: Box, rng: np.random.Generator) -> str:
    shares = np.array([share for _, share in _FORMS[change.type]])
    form = _FORMS[change.type][int(rng.choice(len(shares), p=shares / shares.sum()))][0]
    things = change.before if change.type in ("disappeared", "fewer", "moved", "replaced") else change.after
    one, many = _nouns(things[0], rng)
    words = form_words(one, many, len(things), _colour(change, things, rng))
    if stage.places:
        at = stage.places[int(rng.integers(len(stage.places)))]
    else:
        at = _place(stage.scenery, stage.still, change, box, rng)
    if change.type == "appeared" and form.startswith("there") and at and rng.random() < 0.5:  # noqa: PLR2004
        ways = _DOING.get(things[0].label, [""])
        at = ways[int(rng.integers(len(ways)))] + at
    if form.startswith("{a} {is} now") and not at:
        at = "there"
    if change.type == "replaced":
        words["other"] = _other(things[0], change.after[0])
        if things[0].label in PAINTED:
            words["the"] = f"the {things[0].colour} {one}"
    return " ".join(form.format(**words, at=at).split())


def _nouns(thing: Prop, rng: np.random.Generator) -> tuple[str, str]:
    nouns = NOUNS[thing.label]
    return nouns[int(rng.integers(len(nouns))) if rng.random() < 0.25 else 0]  # noqa: PLR2004


def _colour(change: StagedChange, things: Sequence[Prop], rng: np.random.Generator) -> str | None:
    same = len({t.colour for t in things}) == 1
    says = change.type not in ("more", "fewer") and same and things[0].label in PAINTED
    return things[0].colour if says and rng.random() < 0.6 else None  # noqa: PLR2004


def _other(first: Prop, second: Prop) -> str:
    noun = NOUNS[second.label][0][0]
    if second.label not in PAINTED:
        return f"another {noun}" if first.label == second.label else f"a {noun}"
    return _a(f"{second.colour} {noun}")


def _place(
    scenery: Scenery, still: Sequence[Prop], change: StagedChange, box: Box, rng: np.random.Generator
) -> str:
    draw = rng.random()
    if draw < 0.36:  # noqa: PLR2004 - shares of the head of this file
        return ""
    surface = surface_name(change.named)
    on = f"{'in' if surface == 'parking lot' else 'on'} the {surface}"
    if draw < 0.69:  # noqa: PLR2004
        return on
    beside = _landmark(scenery, still, change.named) if draw < 0.81 else ""  # noqa: PLR2004
    side = _side(box) if draw < 0.92 else ""  # noqa: PLR2004
    if beside or side:
        return beside or side
    depth = _depth(box)
    return on if depth is None else _DEPTHS[depth][int(rng.integers(2))]


def _landmark(scenery: Scenery, still: Sequence[Prop], thing: Prop) -> str:
    """Near which landmark or standing thing; empty where there is none that only one place can mean."""
    x, y = thing.left + thing.width / 2, thing.top + thing.height
    marks = [(mx, my, f"near the {name}", name) for name, mx, my in scenery.landmarks]
    marks += [
        (t.left + t.width / 2, t.top + t.height, f"next to the {t.colour} {t.label}", t.label) for t in still
    ]
    names = [name for *_, name in marks]
    near = [
        (abs(mx - x) + abs(my - y), words)
        for mx, my, words, name in marks
        if names.count(name) == 1 and name != thing.label and (words.startswith("near") or name in PAINTED)
    ]
    distance, words = min(near, default=(math.inf, ""))
    return words if distance < _NEAR * scenery.side else ""


FORMAT = 3
"""The version of the benchmark. Entries of 3 list no single objects; pictures and captions are those of 2,
which has crowded scenes besides those of 1."""

DISTRACTORS: tuple[CameraKind, ...] = ("light", "view", "shift")

SMALLEST = 64
_TRIES = 20
_FAST_PNG = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_HUFFMAN_ONLY]
"""Of noisy frames it is smaller as well as faster: there is nothing to find twice."""
_SPLIT_SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}
_MILD: dict[CameraKind, float] = {"still": 0.4, "light": 0.25, "shift": 0.25, "view": 0.1}

Entries = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    pairs: int  # of all splits together, shared 80:10:10
    seed: int = 1  # the same options give the same bytes
    side: int = 224  # of the frames in pixels
    annotators: int = 3  # captions per pair, each of one sentence or more
    distractors: float = 0.3  # share 0..1 of pairs in which nothing changes but light, view or position
    cameras: int = 60  # fixed views; those of a split are in no other
    ignored: float = 0.5  # share 0..1 of changed pairs with small changes that no caption names
    crowded: bool = False  # similar things, of which one changes, see `train.papers.generated.stage`

    def __post_init__(self) -> None:
        enough = self.pairs >= 10 and self.side >= SMALLEST and self.cameras >= len(SPLITS)  # noqa: PLR2004
        if not enough or not 0 <= self.distractors <= 1:
            raise ValueError(
                f"there must be at least 10 pairs (they are shared 80:10:10), {SMALLEST} pixels a side and a "
                "camera for every split; distractors are a share 0..1"
            )


def generate(
    options: GenerateOptions, out: Path, progress: Progress = lambda _what, _done, _all: None
) -> dict[str, dict[str, int]]:
    """Write a benchmark; how many pairs there are of each split, kind and type of change."""
    written: dict[str, list[Entries]] = {}
    with new_folder(out) as folder:
        for split, pairs in _shares(options.pairs).items():
            made: list[Entries] = []
            for number in range(pairs):
                made.append(_pair(options, folder, split, number))
                progress(split, len(made), pairs)
            write_entries(folder / f"{split}.json", (entry for entries in made for entry in entries))
            written[split] = made
        first = [entries[0] for made in written.values() for entries in made]
        types = (str(c["type"]) for entry in first for c in cast("Entries", entry["changes"]))
        report = {
            "pairs": {split: len(made) for split, made in written.items()},
            "kinds": dict(Counter(str(entry["kind"]) for entry in first).most_common()),
            "types": dict(Counter(types).most_common()),
        }
        record = {"format": FORMAT, "options": asdict(options), "report": report}
        (folder / "generated.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return report


def _shares(pairs: int) -> dict[str, int]:
    held_out = {s: max(round(_SPLIT_SHARES[s] * pairs), 1) for s in SPLITS[1:]}
    return {"train": pairs - sum(held_out.values()), **held_out}


def _cameras(options: GenerateOptions) -> dict[str, range]:
    own = _shares(max(options.cameras, 10)) if options.cameras >= 10 else dict.fromkeys(SPLITS, 1)  # noqa: PLR2004
    own["train"] = options.cameras - own["val"] - own["test"]
    first = {"train": 0, "val": own["train"], "test": own["train"] + own["val"]}
    return {split: range(first[split], first[split] + own[split]) for split in SPLITS}


def _pair(options: GenerateOptions, folder: Path, split: str, number: int) -> Entries:
    """Draw and write one pair; its entries, one per annotator."""
    own = options.seed, SPLITS.index(split)
    rng = drawing = np.random.default_rng([*own, number])
    if options.crowded:  # siblings differ in which thing changes, and in their captions
        drawing = np.random.default_rng([*own, number // SIBLINGS, 1])
    changed = drawing.random() >= options.distractors
    drawing, sibling = (drawing, number % SIBLINGS) if changed else (rng, None)
    kind, staged = _draw_stage(options, _cameras(options)[split], drawing, changed=changed, sibling=sibling)
    camera_kind = str(drawing.choice(list(_MILD), p=list(_MILD.values()))) if changed else kind
    camera = draw_camera(cast("CameraKind", camera_kind), options.side, drawing, hard=not changed)
    images, boxes = render(staged, camera, drawing)
    name = f"{split}{number:06d}"
    for suffix, image in zip(("", "_2"), images, strict=True):
        write_image(folder / f"{name}{suffix}.png", image, _FAST_PNG)
    named = [
        (after if change.type in ("appeared", "more") else before)[0]
        for change, before, after in zip(staged.changes, *boxes, strict=True)
    ]
    annotations = [annotate(staged, named, rng) for _ in range(options.annotators)]
    way: dict[str, object] = {"camera_change": camera.kind, "shift": list(camera.shift)}
    way |= {"turn": round(camera.turn, 4), "zoom": round(camera.zoom, 5)}
    view = staged.scenery.name
    return [sample_entry(name, said, view, kind, _changes(staged, boxes, said)) | way for said in annotations]


def _draw_stage(
    options: GenerateOptions, cameras: range, rng: np.random.Generator, *, changed: bool, sibling: int | None
) -> tuple[str, Stage]:
    """A kind and a stage of it; another camera where nothing finds room."""
    kind = "changed" if changed else str(rng.choice(DISTRACTORS))
    for _ in range(_TRIES):
        camera = scenery(options.seed, int(rng.choice(cameras)), options.side)
        try:
            if options.crowded:
                return kind, crowd(camera, rng, sibling)
            return kind, stage(camera, rng, changed=changed, ignored=options.ignored)
        except NoRoomError:
            continue
    raise SampleError(f"no change finds room in {_TRIES} views of {options.side} pixels; take larger frames")


def _changes(staged: Stage, boxes: tuple[Boxes, Boxes], said: dict[str, int | None]) -> Entries:
    by_change, changes = {k: text for text, k in said.items()}, []
    for k, (change, before, after) in enumerate(zip(staged.changes, *boxes, strict=True)):
        thing, number = change.named, max(len(before), len(after))
        own = SampleChange(change.type, thing.label, number, hull(before), hull(after), by_change.get(k, ""))
        changes.append({**asdict(own), "colour": thing.colour, "surface": surface_name(thing)})
    return changes
