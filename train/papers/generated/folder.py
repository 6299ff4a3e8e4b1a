"""The generated benchmark on disk: `generate` writes it.

The folder has the layout of `train.samples`; ``generated.json`` says how it was made. Every
annotator is an entry of its own with a repeated id. Further keys of an entry: ``shift`` ``[dx, dy]``,
``turn`` (degrees) and ``zoom`` of the after frame, ``camera_change`` (still, light, view or shift), and of
each change its ``colour`` and ``surface``. ``kind`` is changed, or the distractor's: light, view or shift.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import cv2
import numpy as np

from models.boxes import hull
from train.papers.generated.captions import annotate
from train.papers.generated.rendering import Boxes, CameraKind, draw_camera, render
from train.papers.generated.scenery import scenery
from train.papers.generated.stage import SIBLINGS, NoRoomError, Stage, crowd, stage, surface_name
from train.progress import Progress
from train.samples import (
    SPLITS,
    SampleChange,
    SampleError,
    new_folder,
    sample_entry,
    write_entries,
    write_image,
)

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
