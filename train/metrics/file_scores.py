"""Scores of a file of predicted captions against one of references."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from train.metrics.authority import MissingScorersError, meteors, spice
from train.metrics.caption_files import Captions, matched, read_captions, read_types
from train.metrics.claims import Truth, told_truth
from train.metrics.groups import group_scores
from train.metrics.scores import TextScores, length_ratio, text_scores, trivial_rows


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
        rows: the predictions first, then the trivial rows and, where there is one, the human row.
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
            "truth": {k: None if v is None else round(v, 4) for k, v in asdict(self.truth).items()},
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
    gold, said = read_captions(references), read_captions(predictions, keep_empty=True)
    predicted, texts = matched(gold, said, (references, predictions)), list(gold.texts.values())
    notes = _notes(references, gold)
    drawn = list(read_captions(training).texts.values()) if training else []
    rows = [Row(predictions.stem, "", text_scores(predicted, texts))]
    rows += [Row(name, *row) for name, row in trivial_rows(texts, drawn).items()]
    meteor_of: dict[str, float] = {}
    if with_meteor:
        constants = {row.name: [row.sentence] * len(texts) for row in rows if row.sentence}
        said_by = {predictions.stem: predicted, **constants}
        try:
            found = meteors(list(said_by.values()), texts)
            meteor_of = {name: each.meteor for name, each in zip(said_by, found, strict=True)}
        except MissingScorersError as error:
            notes.append(f"METEOR is left out: {error}")
    several = [own for own in texts if len(own) > 1]
    if several:
        human = text_scores([own[0] for own in several], [own[1:] for own in several])
        rows.append(Row("human, by the others", "", human))
    groups = read_types(types, gold.texts) if types else gold.groups
    return FileScores(
        rows=tuple(Row(r.name, r.sentence, r.scores, meteor_of.get(r.name)) for r in rows),
        groups=group_scores([groups[name] for name in gold.texts], predicted, texts),
        truth=told_truth(predicted, texts),
        length_ratio=length_ratio(predicted, texts),
        spice=spice(predicted, texts, spice_jars) if spice_jars else None,
        notes=tuple(notes),
    )


def _notes(path: Path, gold: Captions) -> list[str]:
    """What is not scored."""
    notes = [f"{path}: {gold.empty} references without words are left out"] if gold.empty else []
    if gold.bare:
        few = ", ".join(gold.bare[:3]) + (", ..." if len(gold.bare) > 3 else "")  # noqa: PLR2004
        notes.append(f"{path}: {len(gold.bare)} pairs have no other reference and are not scored ({few})")
    return notes
