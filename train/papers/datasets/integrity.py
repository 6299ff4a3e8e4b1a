"""Whether a copy of a public set is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import cv2

from train.papers.datasets import birds, clevr_change
from train.papers.datasets.layouts import layout_of
from train.progress import Progress
from train.samples import SPLITS, Sample, SampleError, load_samples

SPOT_THE_DIFF = {"train": 8_566, "val": 1_493, "test": 1_270}
"""Distinct image ids of every split in the release."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part of a set.

    Attributes:
        part: a split, or what the set holds.
        items: pairs, or images, that its files name.
        expected: how many the release has; None where the set is of any size.
        images: distinct image files that they need.
        missing: how many of them are missing.
        broken: how many cannot be decoded; 0 where they were not opened.
        problem: what is wrong and what to do; empty where the part is whole.
    """

    part: str
    items: int
    expected: int | None
    images: int
    missing: int
    broken: int
    problem: str

    @property
    def whole(self) -> bool:
        """Whether everything is there."""
        return not self.problem


def check(
    folder: Path, *, decode: bool = True, progress: Progress | None = None
) -> tuple[str, list[Finding]]:
    """Whether a set is whole: its files readable, its images there and readable, as many as were released.

    Args:
        folder: the set, in a layout of `train.papers.datasets.layouts`.
        decode: open every image; otherwise only look whether it is there.
        progress: told the part, images looked at, and all of its images.

    Returns:
        The layout, and a finding per split or part.

    Raises:
        SampleError: the folder holds no known set.
    """
    layout = layout_of(folder)
    findings = []
    for part, expected, load in _parts(layout, folder):
        try:
            items, paths = load()
        except SampleError as error:
            findings.append(Finding(part, 0, expected, 0, 0, 0, str(error)))
            continue
        findings.append(_finding(part, items, expected, paths, decode=decode, progress=progress))
    return layout, findings


def _parts(layout: str, folder: Path) -> list[tuple[str, int | None, Callable[[], tuple[int, list[Path]]]]]:
    """The parts of a layout: name, released size, and what loads its number of items and their images."""
    if layout == "cub":
        return [("images", birds.CUB_IMAGES, lambda: _single(birds.load_cub(folder)))]
    if layout == "nabirds":
        return [("images", birds.NABIRDS_IMAGES, lambda: _single(birds.load_nabirds(folder)))]
    if layout == "clevr-change":
        sizes: dict[str, int | None] = {**clevr_change.SIZES}
        load: Callable[[Path, str], list[Sample]] = clevr_change.load_clevr_change
    elif layout == "birds-to-words":
        sizes, load = dict.fromkeys(SPLITS), birds.load_birds_to_words
    else:
        ours = any((folder / f"{name}.json").is_file() for name in ("compose", "generated", "prepared"))
        sizes = dict.fromkeys(SPLITS) if ours else dict(SPOT_THE_DIFF)
        load = _spot_the_diff

    def loader(split: str) -> Callable[[], tuple[int, list[Path]]]:
        return lambda: _pairs(load(folder, split))

    return [(split, sizes[split], loader(split)) for split in SPLITS]


def _spot_the_diff(folder: Path, split: str) -> list[Sample]:
    return load_samples(folder, split, require_images=False)


def _pairs(samples: Iterable[Sample]) -> tuple[int, list[Path]]:
    every = list(samples)
    return len(every), [path for sample in every for path in (sample.before, sample.after)]


def _single(images: Iterable[birds.SingleImage]) -> tuple[int, list[Path]]:
    every = list(images)
    return len(every), [image.path for image in every]


def _finding(
    part: str,
    items: int,
    expected: int | None,
    paths: list[Path],
    *,
    decode: bool,
    progress: Progress | None,
) -> Finding:
    distinct = list(dict.fromkeys(paths))
    missing, broken = [], []
    for number, path in enumerate(distinct, 1):
        if not path.is_file():
            missing.append(path)
        elif decode and cv2.imread(str(path), cv2.IMREAD_COLOR) is None:
            broken.append(path)
        if progress:
            progress(part, number, len(distinct))
    problems = []
    if missing:
        problems.append(
            f"{len(missing)} images are missing, the first is {missing[0]}; unpack the images again"
        )
    if broken:
        problems.append(f"{len(broken)} images cannot be read, the first is {broken[0]}; fetch them again")
    if expected is not None and items < _NEARLY_ALL * expected:
        problems.append(f"{items} of {expected} are named: this is a part of the release")
    return Finding(part, items, expected, len(distinct), len(missing), len(broken), "; ".join(problems))


_NEARLY_ALL = 0.98
"""Of Spot-the-diff some ids have no sentence with a word in it."""
