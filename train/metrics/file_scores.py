"""Scores of a file of predicted captions against one of references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from train.metrics.authority import MissingScorersError, meteors, spice
from train.metrics.caption_files import Captions, matched, read_captions, read_types
from train.metrics.claims import Truth, told_truth
from train.metrics.groups import group_scores
from train.metrics.scores import TextScores, length_ratio, text_scores, trivial_rows
from train.metrics.tokens import ptb_tokens


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a name, its sentence if it is a constant, its scores and METEOR."""

    name: str
    sentence: str
    scores: TextScores
    meteor: float | None = None


@dataclass(frozen=True, slots=True)
class FileScores:
    """Everything about a file of predictions.

    Attributes:
        rows: the predictions first, then the trivial rows and, where annotators are known, the human rows.
        groups: text scores of changed and distractor pairs and of each type; empty where it is not known.
        truth: whether what is said is right.
        length_ratio: mean predicted tokens over mean reference tokens.
        spice: None without the user's jars.
        notes: what the user should know.
    """

    rows: tuple[Row, ...]
    groups: tuple[tuple[str, TextScores], ...]
    truth: Truth
    length_ratio: float
    spice: float | None
    notes: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "rows": {
                row.name: {
                    **row.scores.plain(),
                    "meteor": None if row.meteor is None else round(row.meteor, 4),
                    "sentence": row.sentence,
                }
                for row in self.rows
            },
            "groups": {name: scores.plain() for name, scores in self.groups},
            "truth": self.truth.plain(),
            "length_ratio": round(self.length_ratio, 4),
            "spice": None if self.spice is None else round(self.spice, 4),
            "notes": list(self.notes),
        }


def score_files(
    references: Path,
    predictions: Path,
    *,
    training: Path | None = None,
    types: Path | None = None,
    with_meteor: bool = True,
    spice_jars: Path | None = None,
) -> FileScores:
    """Score predicted captions against references, trivial rows beside them.

    Args:
        references: caption file; captions of one id are merged.
        predictions: caption file with one caption per id.
        training: caption file from which the best constant and the random captions are drawn; None leaves
            these rows out.
        types: file of the type of change of every pair, see `read_types`; None takes what the references say.
        with_meteor: METEOR as well, where Java is installed.
        spice_jars: folder of the jars that SPICE needs; None leaves it out.

    Raises:
        AnnotationError: a file is broken, or the ids do not fit.
        MissingScorersError: SPICE is wanted and cannot run.
    """
    gold, said = read_captions(references), read_captions(predictions, may_be_silent=True)
    predicted, texts = matched(gold, said, (references, predictions)), list(gold.texts.values())
    notes = _notes(references, gold)
    drawn = _with_words(read_captions(training)) if training else []
    rows = [Row(predictions.stem, "", text_scores(predicted, texts))]
    rows += [Row(name, *row) for name, row in trivial_rows(texts, drawn).items()]
    meteor_of: dict[str, float] = {}
    if with_meteor:
        constants = {row.name: [row.sentence] * len(texts) for row in rows if row.sentence}
        said_by = {predictions.stem: predicted, **constants}
        try:
            found = meteors(list(said_by.values()), texts)
            meteor_of = dict(zip(said_by, found, strict=True))
        except MissingScorersError as error:
            notes.append(f"METEOR is left out: {error}")
    rows += human_rows([own for own in gold.annotators.values() if len(own) > 1])
    groups = read_types(types, gold.texts) if types else gold.groups
    return FileScores(
        rows=tuple(Row(r.name, r.sentence, r.scores, meteor_of.get(r.name)) for r in rows),
        groups=group_scores([groups[name] for name in gold.texts], predicted, texts),
        truth=told_truth(predicted, texts),
        length_ratio=length_ratio(predicted, texts),
        spice=spice(predicted, texts, spice_jars) if spice_jars else None,
        notes=tuple(notes),
    )


def human_rows(annotated: Sequence[Sequence[Sequence[str]]]) -> list[Row]:
    """What people score: every annotator of a pair in turn, judged by the pair's others.

    Of whole annotations this is Table 2 of Jhamtani and Berg-Kirkpatrick (2018); a first sentence against
    all sentences of the others compares with a prediction of one sentence.

    Args:
        annotated: pairs with at least two annotators each: the sentences of each.

    Returns:
        Two rows, whose `pairs` is the number of pairs; none of no pairs.
    """
    if not annotated:
        return []
    turns = [(own[k], [*own[:k], *own[k + 1 :]]) for own in annotated for k in range(len(own))]
    joined = [(" ".join(one), [" ".join(each) for each in others]) for one, others in turns]
    apart = [(one[0], [sentence for each in others for sentence in each]) for one, others in turns]
    whole, first = (
        text_scores([said for said, _ in own], [gold for _, gold in own]) for own in (joined, apart)
    )
    return [
        Row(name, "", replace(scores, pairs=len(annotated)))
        for name, scores in (("human, by the others", whole), ("human, first sentence", first))
    ]


def _with_words(captions: Captions) -> list[tuple[str, ...]]:
    texts = (tuple(text for text in own if ptb_tokens(text)) for own in captions.texts.values())
    return [own for own in texts if own]


def _notes(path: Path, gold: Captions) -> list[str]:
    """What the user should know of the references."""
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
