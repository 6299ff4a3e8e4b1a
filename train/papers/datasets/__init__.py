"""Public sets of image pairs, read in the layouts in which they were released, by the files in a folder.

Spot-the-diff's layout is also that of the generated benchmark and of pairs of real footage. Single birds, for
the data expansion of IDC-PCL: `train.papers.datasets.birds`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from train.papers.datasets import birds, clevr_change
from train.samples import SPLITS, Sample, SampleError, load_samples

SPOT_THE_DIFF = {"train": 8_566, "val": 1_493, "test": 1_270}
"""Distinct image ids of every split in the release."""


def load_pairs(folder: Path, split: str, *, require_images: bool = True) -> list[Sample]:
    """The pairs of a split of Spot-the-diff, CLEVR-Change or Birds-to-Words as released, or of ours."""
    samples = _loader(folder)[1](folder, split)
    if require_images:
        wanted = dict.fromkeys(path for sample in samples for path in (sample.before, sample.after))
        missing = [path for path in wanted if not path.is_file()]
        if missing:
            raise SampleError(
                f"{folder}, {split}: {len(missing)} of {len(wanted)} images are missing, the first is "
                f"{missing[0]}; unpack the images again"
            )
    return samples


def has_split(folder: Path, split: str) -> bool:
    try:
        return bool(load_pairs(folder, split, require_images=False))
    except SampleError:
        return False


def incomplete_splits(folder: Path) -> list[str]:
    """A line for every split that is not as it was released: missing images, missing pairs."""
    sizes, load = _loader(folder)
    lines = []
    for split in SPLITS:
        try:
            result = len({sample.id for sample in load(folder, split)})
            if sizes.get(split, 0) * 0.98 > result:  # some ids have no sentence with a word
                lines.append(f"{split}: {result} of {sizes[split]} pairs are named: a part of the release")
            load_pairs(folder, split)
        except SampleError as error:
            lines.append(f"{split}: {error}")
    return lines


def _loader(folder: Path) -> tuple[dict[str, int], Callable[[Path, str], list[Sample]]]:
    """The released size of each split, where it is known, and the function that reads one."""
    if not folder.is_dir():
        raise SampleError(f"{folder} is not a folder; name the one that holds the set")
    if (folder / clevr_change.SPLIT_FILE).is_file():
        return clevr_change.SIZES, clevr_change.load_clevr_change
    if (folder / birds.TABLE).is_file():
        return {}, birds.load_birds_to_words
    if any((folder / f"{split}.json").is_file() for split in SPLITS):
        ours = any((folder / f"{name}.json").is_file() for name in ("generated", "footage"))
        return ({} if ours else SPOT_THE_DIFF), load_samples
    raise SampleError(
        f"{folder} holds no set that is known: Spot-the-diff has train.json, val.json and test.json, "
        f"CLEVR-Change {clevr_change.SPLIT_FILE}, Birds-to-Words {birds.TABLE}"
    )
