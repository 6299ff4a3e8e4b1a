"""Statistics of annotations: Table 1 of Jhamtani and Berg-Kirkpatrick (2018)."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from models.papers.vocabulary import tokenize
from train.papers.datasets import has_split, load_pairs
from train.samples import SPLITS, SampleError, read_entries

TABLE_1 = {
    "annotations": 13_192,
    "sentences per annotation, mean": 1.86,
    "sentences per annotation, s.d.": 1.01,
    "words per sentence, mean": 10.96,
    "words per sentence, s.d.": 4.97,
    "sentences over 20 words, %": 5,
    "vocabulary": 2_404,
    "words seen 5 times or more": 1_000,
    "running words they cover, %": 97,
}
"""Figures that the paper prints for Spot-the-diff (a little more data than was released)."""

Annotation = tuple[str, Sequence[str]]  # the id of a pair, and one annotator's sentences about it


def annotation_statistics(folder: Path) -> pd.DataFrame:
    """Table 1 of a set: a column for each split and one for all, beside them the paper's figures.

    Sentences without a word and those that are only a number are counted in lines of their own only.
    """
    splits = {split: result for split in SPLITS if (result := _annotations(folder, split))}
    if not splits:
        load_pairs(folder, "train", require_images=False)  # says what is wrong, if anything is
        raise SampleError(f"{folder} holds no annotations: none of {', '.join(SPLITS)} has an entry")
    columns = {name: statistics(result) for name, result in splits.items()}
    columns["all"] = statistics([each for result in splits.values() for each in result])
    return pd.DataFrame({**columns, "paper": TABLE_1}, index=pd.Index(columns["all"]))


def statistics(annotations: Sequence[Annotation]) -> dict[str, float]:
    sentences = pd.Series([s for _, texts in annotations for s in texts], dtype=object)
    numbers = sentences.map(lambda s: s.strip().rstrip(".").isdigit()).astype(bool)
    words = sentences.map(tokenize)
    lengths = words.map(len)
    counted = words[(lengths > 0) & ~numbers]
    lengths = counted.map(len).astype(float)
    each = pd.Series([len(texts) for _, texts in annotations], dtype=float)
    uses = counted.explode().value_counts()
    frequent = uses[uses >= 5]  # noqa: PLR2004 - the paper's
    return {
        "annotations": len(annotations),
        "distinct pairs": len({pair for pair, _ in annotations}),
        "sentences": len(sentences),
        "sentences without a word": int((words.map(len) == 0).sum()),
        "sentences that are only a number": int(numbers.sum()),
        "sentences per annotation, mean": each.mean(),
        "sentences per annotation, s.d.": each.std(ddof=0),
        "words per sentence, mean": lengths.mean(),
        "words per sentence, s.d.": lengths.std(ddof=0),
        "sentences over 20 words, %": 100 * float((lengths > 20).mean()),  # noqa: PLR2004 - the paper's
        "vocabulary": len(uses),
        "words seen 5 times or more": len(frequent),
        "running words they cover, %": 100 * frequent.sum() / max(uses.sum(), 1),
    }


def _annotations(folder: Path, split: str) -> list[Annotation]:
    """All annotations of a split, those without a word included where the layout is Spot-the-diff's."""
    path = folder / f"{split}.json"
    if not path.is_file():
        samples = load_pairs(folder, split, require_images=False) if has_split(folder, split) else []
        return [(sample.id, sentences) for sample in samples for sentences in sample.annotations]
    return [(entry.img_id, entry.sentences) for entry in read_entries(path)]
