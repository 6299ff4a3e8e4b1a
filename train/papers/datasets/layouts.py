"""Which public set a folder holds."""

from __future__ import annotations

from pathlib import Path

from train.samples import SPLITS, SampleError

LAYOUTS = {
    "clevr-change": "splits.json, change_captions.json, no_change_captions.json, images, sc_images, "
    "nsc_images",
    "birds-to-words": "birds-to-words-v1.0.tsv, images",
    "cub": "images.txt, images, text_c10",
    "nabirds": "images.txt, image_class_labels.txt, classes.txt, images",
    "spot-the-diff": "train.json, val.json, test.json, <id>.png, <id>_2.png",
}
"""Every layout that is known, with the files that make it."""


def layout_of(folder: Path) -> str:
    """The layout of a folder, by its files.

    Returns:
        A key of `LAYOUTS`; what this project composes and generates has the layout of Spot-the-diff.

    Raises:
        SampleError: it is no folder, or has none of the layouts.
    """
    if not folder.is_dir():
        raise SampleError(f"{folder} is not a folder; name the one that holds the set")
    if (folder / "change_captions.json").is_file() or (folder / "splits.json").is_file():
        return "clevr-change"
    if (folder / "birds-to-words-v1.0.tsv").is_file():
        return "birds-to-words"
    if (folder / "text_c10").is_dir():
        return "cub"
    if (folder / "image_class_labels.txt").is_file():
        return "nabirds"
    if any((folder / f"{split}.json").is_file() for split in SPLITS):
        return "spot-the-diff"
    known = "; ".join(f"{name}: {files}" for name, files in LAYOUTS.items())
    raise SampleError(f"{folder} holds no set that is known; expected one of {known}")
