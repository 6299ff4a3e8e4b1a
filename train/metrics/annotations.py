"""Statistics of annotations: Table 1 of Jhamtani and Berg-Kirkpatrick (2018)."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from models.language.vocabulary import tokenize

SPLITS = ("train", "val", "test")
FREQUENT = 5
LONG = 20


class AnnotationError(ValueError):
    """An annotation file cannot be used; the message names the file and the entry."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one annotator said about one pair: its id and the sentences, in the annotator's order."""

    pair: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnnotationStatistics:
    """Table 1 of the paper for one or several splits.

    Attributes:
        annotations: how many annotations (an annotator's sentences on one pair).
        pairs: how many distinct pairs.
        sentences: how many sentences.
        empty, number_only: sentences without a word, and those that are only a number; they are counted
            in no figure below.
        sentences_mean, sentences_sd: sentences per annotation, with the empty ones.
        words_mean, words_sd: words per sentence.
        long_share: share 0..1 of sentences over 20 words.
        vocabulary: distinct words.
        frequent: distinct words seen at least 5 times.
        frequent_share: share 0..1 of the running words that those cover.
    """

    annotations: int
    pairs: int
    sentences: int
    empty: int
    number_only: int
    sentences_mean: float
    sentences_sd: float
    words_mean: float
    words_sd: float
    long_share: float
    vocabulary: int
    frequent: int
    frequent_share: float


def read_json(path: Path) -> object:
    """What a JSON file holds.

    Raises:
        AnnotationError: it cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise AnnotationError(f"{path} cannot be read: {error.strerror}; name a caption file") from error
    except ValueError as error:
        raise AnnotationError(f"{path} is not valid JSON ({error}); write or fetch it again") from error


def read_annotations(path: Path) -> list[Annotation]:
    """Read one split of the Spot-the-diff layout: a JSON list of ``{"img_id", "sentences"}``.

    Raises:
        AnnotationError: the file cannot be read, is no such list, or an entry lacks a key.
    """
    entries = read_json(path)
    if not isinstance(entries, list):
        raise AnnotationError(f'{path} must hold a list of {{"img_id", "sentences"}} objects')
    found = []
    for number, entry in enumerate(entries):
        sentences = entry.get("sentences") if isinstance(entry, dict) else None
        if (
            not isinstance(sentences, list)
            or not all(isinstance(s, str) for s in sentences)
            or "img_id" not in entry
        ):
            raise AnnotationError(f'{path}: entry {number} needs "img_id" and a list of strings "sentences"')
        found.append(Annotation(str(entry["img_id"]), tuple(sentences)))
    return found


def annotation_statistics(annotations: list[Annotation]) -> AnnotationStatistics:
    """Count what Table 1 counts.

    Raises:
        ValueError: there are none.
    """
    if not annotations:
        raise ValueError("there are no annotations to count")
    sentences = [s for a in annotations for s in a.sentences]
    numbers = [s for s in sentences if s.strip().rstrip(".").isdigit()]
    empty = [s for s in sentences if not tokenize(s)]
    words = [tokenize(s) for s in sentences if tokenize(s) and not s.strip().rstrip(".").isdigit()]
    lengths = [len(w) for w in words] or [0]
    per_annotation = [len(a.sentences) for a in annotations]
    counts = Counter(word for sentence in words for word in sentence)
    frequent = [n for n in counts.values() if n >= FREQUENT]
    return AnnotationStatistics(
        annotations=len(annotations),
        pairs=len({a.pair for a in annotations}),
        sentences=len(sentences),
        empty=len(empty),
        number_only=len(numbers),
        sentences_mean=statistics.fmean(per_annotation),
        sentences_sd=statistics.pstdev(per_annotation),
        words_mean=statistics.fmean(lengths),
        words_sd=statistics.pstdev(lengths),
        long_share=sum(n > LONG for n in lengths) / len(lengths),
        vocabulary=len(counts),
        frequent=len(frequent),
        frequent_share=sum(frequent) / max(sum(counts.values()), 1),
    )


def folder_statistics(folder: Path) -> dict[str, AnnotationStatistics]:
    """Statistics of every split found in a folder, and of all of them together.

    Args:
        folder: holds some of ``train.json``, ``val.json`` and ``test.json``.

    Raises:
        AnnotationError: the folder or all three files are missing, or one of them is broken.
    """
    if not folder.is_dir():
        raise AnnotationError(
            f"{folder} is not a folder; name the one that holds train.json, val.json, test.json"
        )
    splits = {s: read_annotations(folder / f"{s}.json") for s in SPLITS if (folder / f"{s}.json").is_file()}
    splits = {name: found for name, found in splits.items() if found}
    if not splits:
        raise AnnotationError(
            f"{folder} holds no annotations: none of train.json, val.json, test.json has an entry"
        )
    return split_statistics(splits)


def split_statistics(splits: Mapping[str, list[Annotation]]) -> dict[str, AnnotationStatistics]:
    """Statistics of splits, those without annotations left out, and under "all" of them together.

    Raises:
        ValueError: there are no annotations.
    """
    rows = {name: annotation_statistics(found) for name, found in splits.items() if found}
    return {**rows, "all": annotation_statistics([a for found in splits.values() for a in found])}
