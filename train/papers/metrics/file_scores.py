"""Scores of a file of predicted captions against one of references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from train.papers.metrics.caption_files import Captions, match_captions, read_captions, read_types
from train.papers.metrics.groups import group_scores
from train.papers.metrics.scores import (
    TextScores,
    length_ratio,
    meteors,
    spices,
    text_scores,
    trivial_captions,
)
from train.papers.metrics.tokens import ptb_tokens
from train.papers.metrics.truth import Truth, spoken_truth


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    sentence: str
    scores: TextScores
    further: dict[str, float | None] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        further = {name: None if value is None else round(value, 4) for name, value in self.further.items()}
        return {**self.scores.plain(), **further, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class FileScores:
    # the predictions first, then the trivial rows and, where annotators are known, the human rows
    rows: tuple[Row, ...]
    # text scores of changed and distractor pairs and of each type; empty where it is not known
    groups: tuple[tuple[str, TextScores], ...]
    truth: Truth  # correctness of the first sentence
    length_ratio: float  # mean predicted tokens over mean reference tokens
    notes: tuple[str, ...]  # what the user should know

    def plain(self) -> dict[str, Any]:
        return {
            "rows": {row.name: row.plain() for row in self.rows},
            "groups": {name: scores.plain() for name, scores in self.groups},
            "truth": self.truth.plain(),
            "length_ratio": round(self.length_ratio, 4),
            "notes": list(self.notes),
        }


def score_files(
    references: Path, predictions: Path, *, training: Path | None = None, types: Path | None = None
) -> FileScores:
    """Score predicted captions against references, trivial rows of the `training` captions beside them."""
    gold, answers = read_captions(references), read_captions(predictions, may_be_silent=True)
    predicted, texts = match_captions(gold, answers, (references, predictions)), list(gold.texts.values())
    notes = _notes(references, gold)
    systems = {predictions.stem: predicted, **trivial_captions(_with_words(training), len(texts))}
    rows = [
        Row(name, answers[0] if n and len(set(answers)) == 1 else "", text_scores(answers, texts))
        for n, (name, answers) in enumerate(systems.items())
    ]
    for name, scores in (("meteor", meteors), ("spice", spices)):
        values = scores(list(systems.values()), texts)
        if values is None and name == "meteor":
            notes.append("METEOR is left out: it needs Java, for example Debian's openjdk-17-jre-headless")
        for row, value in zip(rows, values or (), strict=False):
            row.further[name] = value
    rows += human_rows([own for own in gold.annotators.values() if len(own) > 1])
    groups = read_types(types, gold.texts) if types else gold.groups
    return FileScores(
        rows=tuple(rows),
        groups=group_scores([groups[name] for name in gold.texts], predicted, texts),
        truth=spoken_truth(predicted, texts),
        length_ratio=length_ratio(predicted, texts),
        notes=tuple(notes),
    )


def human_rows(annotated: Sequence[Sequence[Sequence[str]]]) -> list[Row]:
    """Two rows of people: every annotator of a pair in turn, judged by the pair's others.

    Of whole annotations this is Table 2 of Jhamtani and Berg-Kirkpatrick (2018); a first sentence against
    all sentences of the others compares with a prediction of one sentence.
    """
    if not annotated:
        return []
    turns = [(own[k], [*own[:k], *own[k + 1 :]]) for own in annotated for k in range(len(own))]
    joined = [(" ".join(one), [" ".join(each) for each in others]) for one, others in turns]
    apart = [(one[0], [sentence for each in others for sentence in each]) for one, others in turns]
    whole, first = (
        text_scores([predictions for predictions, _ in own], [gold for _, gold in own])
        for own in (joined, apart)
    )
    return [
        Row(name, "", replace(scores, pairs=len(annotated)))
        for name, scores in (("human, by the others", whole), ("human, first sentence", first))
    ]


def _with_words(path: Path | None) -> list[tuple[str, ...]]:
    if path is None:
        return []
    texts = (tuple(text for text in own if ptb_tokens(text)) for own in read_captions(path).texts.values())
    return [own for own in texts if own]


def _notes(path: Path, gold: Captions) -> list[str]:
    notes = []
    if gold.empty:
        notes.append(f"{path}: {gold.empty} references have no word; they count, as in the field's scorer")
    if gold.bare:
        few = ", ".join(gold.bare[:3]) + (", ..." if len(gold.bare) > 3 else "")  # noqa: PLR2004
        notes.append(f"{path}: {len(gold.bare)} pairs have no reference and are not scored ({few})")
    if not gold.annotators and any(len(own) > 1 for own in gold.texts.values()):
        notes.append(
            f"{path} does not say who wrote which caption, so there is no human row; give an entry for each "
            'annotator ({"img_id": ..., "sentences": [...]}), or name each caption\'s "annotator"'
        )
    return notes
