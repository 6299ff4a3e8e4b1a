"""From a released set to what the training commands read, without copying images."""

from __future__ import annotations

import json
import os
from pathlib import Path

from train.papers.datasets import birds, clevr_change
from train.papers.datasets.layouts import layout_of
from train.samples import SPLITS, Sample, SampleError, load_samples, new_folder, write_entries


def prepare(folder: Path, out: Path, splits: tuple[str, ...] = SPLITS) -> dict[str, int]:
    """Write the annotation files of a set in the layout of `train.samples`, naming its images where they are.

    Args:
        folder: the set, in a layout of `train.papers.datasets.layouts`.
        out: folder to make. Of pairs: ``<split>.json``; of CUB ``captions.json``, of NABirds ``classes.json``
            for the data expansion of `train.learning.objectives.expansion`.
        splits: of the pairs; a set of single images has none.

    Returns:
        How many pairs or images were written, by file.

    Raises:
        SampleError: the set is broken, an image is missing, or `out` exists.
    """
    layout = layout_of(folder)
    written: dict[str, list[dict[str, object]]] = {}
    if layout == "cub":
        images = birds.load_cub(folder)
        _require([i.path for i in images])
        written["captions"] = [
            {"image": _relative(i.path, out), "captions": list(i.captions)} for i in images
        ]
    elif layout == "nabirds":
        images = birds.load_nabirds(folder)
        _require([i.path for i in images])
        written["classes"] = [{"image": _relative(i.path, out), "class": i.label} for i in images]
    else:
        load = {
            "clevr-change": clevr_change.load_clevr_change,
            "birds-to-words": birds.load_birds_to_words,
            "spot-the-diff": load_samples,
        }[layout]
        for split in splits:
            samples = load(folder, split)
            _require([path for s in samples for path in (s.before, s.after)])
            written[split] = [entry for sample in samples for entry in _entry(sample, out)]
    counts = {name: len({str(e.get("img_id", e.get("image"))) for e in own}) for name, own in written.items()}
    with new_folder(out) as part:
        for name, entries in written.items():
            write_entries(part / f"{name}.json", entries)
        record = {"set": layout, "source": folder.name, "written": counts}
        (part / "prepared.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return counts


def _require(paths: list[Path]) -> None:
    missing = birds.missing_images(paths)
    if missing:
        raise SampleError(
            f"{len(missing)} images are missing, the first is {missing[0]}; see `narrated-train check`"
        )


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path.resolve(), out.resolve())).as_posix()


def _entry(sample: Sample, out: Path) -> list[dict[str, object]]:
    """An entry per annotator."""
    return [
        {
            "img_id": sample.id,
            "before": _relative(sample.before, out),
            "after": _relative(sample.after, out),
            "sentences": list(sentences),
            "kind": sample.kind,
        }
        for sentences in sample.annotations
    ]
