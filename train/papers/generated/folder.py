"""The generated benchmark on disk: `generate` writes it.

The folder has the layout of `train.samples`; ``generated.json`` says how it was made. Every
annotator is an entry of its own with a repeated id. Further keys of an entry: ``shift`` ``[dx, dy]``,
``turn`` (degrees) and ``zoom`` of the after frame, ``camera_change`` (still, light, view or shift), and of
each change its ``colour`` and ``surface``. ``kind`` is changed, or the distractor's: light, view or shift.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import cast

import cv2
import numpy as np

from models.boxes import hull
from train.papers.generated.captions import PairCaption, annotate
from train.papers.generated.crowd import SIBLINGS, crowd
from train.papers.generated.rendering import CameraKind, Rendered, draw_camera, render
from train.papers.generated.scenery import Scenery, scenery
from train.papers.generated.stage import NoRoomError, Stage, stage, surface_name
from train.progress import Progress
from train.samples import (
    SPLITS,
    Sample,
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
_MILD: tuple[tuple[CameraKind, float], ...] = (
    ("still", 0.4),
    ("light", 0.25),
    ("shift", 0.25),
    ("view", 0.1),
)

Entries = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    pairs: int  # of all splits together, shared 80:10:10
    seed: int = 1  # the same options give the same bytes
    side: int = 224  # of the frames in pixels
    annotators: int = 3  # captions per pair, each of one sentence or more
    distractors: float = 0.3  # share 0..1 of pairs in which nothing changes but light, view or position
    cameras: int = 60  # fixed views; those of a split are in no other
    # share 0..1 of changed pairs with small changes that no caption names (a bird, a puddle, leaves)
    ignored: float = 0.5
    crowded: bool = False  # similar things, of which one changes, see `train.papers.generated.crowd`

    def __post_init__(self) -> None:
        if self.pairs < 10 or self.annotators < 1 or self.seed < 0:  # noqa: PLR2004
            raise ValueError("pairs must be at least 10 (they are shared 80:10:10), annotators 1, seed 0")
        if self.side < SMALLEST:
            raise ValueError(f"frames need at least {SMALLEST} pixels a side: things are too small to see")
        if not 0 <= self.distractors <= 1 or self.cameras < len(SPLITS):
            raise ValueError("distractors is a share 0..1, and every split needs a camera of its own")


def generate(
    options: GenerateOptions, out: Path, progress: Progress | None = None
) -> dict[str, dict[str, int]]:
    """Write a benchmark; how many pairs there are of each split, kind and type of change."""
    written: dict[str, list[Entries]] = {}
    with new_folder(out) as folder:
        for split, pairs in _shares(options.pairs).items():
            made: list[Entries] = []
            for number in range(pairs):
                made.append(_pair(options, folder, split, number))
                if progress:
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


@lru_cache(maxsize=256)
def _scenery(seed: int, number: int, side: int) -> Scenery:
    return scenery(seed, number, side)


def _pair(options: GenerateOptions, folder: Path, split: str, number: int) -> Entries:
    """Draw and write one pair; its entries, one per annotator."""
    rng = drawing = np.random.default_rng([options.seed, SPLITS.index(split), number])
    sibling: int | None = None
    if options.crowded:  # siblings differ in which thing changes, and in their captions
        family = np.random.default_rng([options.seed, SPLITS.index(split), number // SIBLINGS, 1])
        changed = family.random() >= options.distractors
        drawing, sibling = (family, number % SIBLINGS) if changed else (rng, None)
    else:
        changed = rng.random() >= options.distractors
    kind, staged = _draw_stage(options, _cameras(options)[split], drawing, changed=changed, sibling=sibling)
    if changed:
        kinds, shares = zip(*_MILD, strict=True)
        camera_kind: CameraKind = kinds[int(drawing.choice(len(kinds), p=shares))]
    else:
        camera_kind = cast("CameraKind", kind)
    camera = draw_camera(camera_kind, options.side, drawing, hard=not changed)
    drawn = render(staged, camera, drawing)
    name = f"{split}{number:06d}"
    for suffix, image in (("", drawn.before), ("_2", drawn.after)):
        write_image(folder / f"{name}{suffix}.png", image, _FAST_PNG)
    named = [
        (after if change.type in ("appeared", "more") else before)[0]
        for change, before, after in zip(staged.changes, drawn.before_boxes, drawn.after_boxes, strict=True)
    ]
    annotations = [annotate(staged, named, rng) for _ in range(options.annotators)]
    return [_entry(folder / name, kind, staged, drawn, each) for each in annotations]


def _draw_stage(
    options: GenerateOptions, cameras: range, rng: np.random.Generator, *, changed: bool, sibling: int | None
) -> tuple[str, Stage]:
    """A kind and a stage of it; another camera where nothing finds room."""
    kind = "changed" if changed else str(rng.choice(DISTRACTORS))
    for _ in range(_TRIES):
        camera = _scenery(options.seed, int(rng.choice(cameras)), options.side)
        try:
            if options.crowded:
                return kind, crowd(camera, rng, sibling)
            return kind, stage(camera, rng, changed=changed, ignored=options.ignored)
        except NoRoomError:
            continue
    raise SampleError(f"no change finds room in {_TRIES} views of {options.side} pixels; take larger frames")


def _entry(path: Path, kind: str, staged: Stage, drawn: Rendered, said: PairCaption) -> dict[str, object]:
    changes = _changes(staged, drawn)
    by_change = dict(zip(said.changes, said.sentences, strict=False))
    changes = tuple(replace(c, sentence=by_change.get(k, "")) for k, c in enumerate(changes))
    entry = sample_entry(
        Sample(
            path.name,
            path.with_name(f"{path.name}.png"),
            path.with_name(f"{path.name}_2.png"),
            said.sentences,
            changes,
            staged.scenery.name,
            kind,
        )
    )
    for plain, change in zip(cast("Entries", entry["changes"]), staged.changes, strict=True):
        plain |= {"colour": change.named.colour, "surface": surface_name(change.named)}
    way = drawn.camera
    return {
        **entry,
        "camera_change": way.kind,
        "shift": list(way.shift),
        "turn": round(way.turn, 4),
        "zoom": round(way.zoom, 5),
    }


def _changes(staged: Stage, drawn: Rendered) -> tuple[SampleChange, ...]:
    changes = []
    for change, before, after in zip(staged.changes, drawn.before_boxes, drawn.after_boxes, strict=True):
        named = change.named if change.type in ("appeared", "more") else change.before[0]
        number = max(len(before), len(after))
        changes.append(SampleChange(change.type, named.label, number, hull(before), hull(after)))
    return tuple(changes)
