"""Table 1's counts of released sets: those of pairs, read as they were released."""

from __future__ import annotations

from pathlib import Path

from train.metrics.annotations import (
    Annotation,
    AnnotationStatistics,
    folder_statistics,
    split_statistics,
)
from train.papers.datasets import birds
from train.papers.datasets.clevr_change import clevr_captions
from train.papers.datasets.layouts import layout_of
from train.samples import SPLITS, SampleError


def set_statistics(folder: Path) -> tuple[str, dict[str, AnnotationStatistics]]:
    """The layout of a set, and the statistics of its splits and of all of them together.

    Args:
        folder: Spot-the-diff, CLEVR-Change or Birds-to-Words as released, or pairs of ours. Of the second and
            the third every caption is an annotation.

    Raises:
        AnnotationError: the annotations of Spot-the-diff's layout are missing or broken.
        SampleError: the set is broken, or has no pairs.
    """
    if not folder.is_dir() or any((folder / f"{split}.json").is_file() for split in SPLITS):
        return "spot-the-diff", folder_statistics(folder)
    layout = layout_of(folder)
    if layout == "clevr-change":
        splits = {split: clevr_captions(folder, split) for split in SPLITS}
    elif layout == "birds-to-words":
        splits = {
            split: [
                (sample.id, " ".join(sentences))
                for sample in birds.load_birds_to_words(folder, split)
                for sentences in sample.annotations
            ]
            for split in SPLITS
        }
    else:
        raise SampleError(f"{folder} holds {layout}, single images; stats counts the annotations of pairs")
    return layout, split_statistics(
        {split: [Annotation(pair, (text,)) for pair, text in own] for split, own in splits.items()}
    )
