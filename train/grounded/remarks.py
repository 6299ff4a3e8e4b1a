"""What people said of sentences, beside what the pictures show of them.

A sentence counts as right where somebody said so, and as wrong where somebody said so or corrected its kind,
its object, or its box by more than half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.boxes import overlaps
from pipeline.changes import ChangeOptions, image_changes
from pipeline.evidence import EvidenceStore, evidence_beside
from pipeline.feedback import Feedback, FeedbackStore, Opinion
from pipeline.journal import read_journal
from pipeline.journal.segments import find_chains
from pipeline.narration.lessons import SIGNS, log_odds, signs
from pipeline.record_members import Record, RecordSentence
from pipeline.sources import Image
from train.samples import image_in

_SAME = 0.5  # overlap of a corrected box from which the place was right


@dataclass(frozen=True, slots=True, eq=False)
class Remarked:
    """Sentences with people's word, in the order of their time.

    Attributes:
        signs: float64 ``(N, len(SIGNS))``, see `pipeline.narration.lessons`.
        odds: float64 ``(N,)``, log odds of the confidence with which they were told.
        right: bool ``(N,)``.
        camera: str ``(N,)``.
    """

    signs: NDArray[np.float64]
    odds: NDArray[np.float64]
    right: NDArray[np.bool_]
    camera: NDArray[np.str_]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.odds)

    def rows(self, chosen: NDArray[Any]) -> Self:
        """Some of them, by number or by a mask."""
        return type(self)(self.signs[chosen], self.odds[chosen], self.right[chosen], self.camera[chosen])


@dataclass(frozen=True, slots=True)
class Folders:
    """Where feedback, journals and pictures are.

    Attributes:
        feedback: the store's file.
        journals: folder of the journals; None is that of the file.
        evidence: folder of the pictures; None is ``evidence`` in or beside that of the journals.
    """

    feedback: Path
    journals: Path | None = None
    evidence: Path | None = None


def remarked(
    folders: Folders, changes: ChangeOptions, weighed_by: Mapping[str, Sequence[float]], sha256: str
) -> tuple[Remarked, Counter[str]]:
    """Everything that people said, as far as it can be learnt from.

    Args:
        folders: see there.
        changes: how the captioner's changes are found.
        weighed_by: by camera the weights with which the checkpoint told; they are taken out again.
        sha256: of that checkpoint (hex).

    Returns:
        The sentences, and how many are left out by reason.

    Raises:
        FeedbackError, JournalError: the store or a journal cannot be read.
    """
    by_record = _said(folders.feedback)
    journals = folders.journals or folders.feedback.parent
    pictures = EvidenceStore(folders.evidence or evidence_beside(journals) or journals / "evidence")
    rows: list[tuple[str, NDArray[np.float64], float, bool, str]] = []
    left_out = Counter[str]()
    for record in _records(journals):
        own = by_record.pop(record.id, [])
        shown = _shown(record, pictures, changes) if own else None
        for each in own:
            sentence = record.sentences[each.sentence] if each.sentence < len(record.sentences) else None
            known = _signs(sentence, shown) if sentence else None
            if sentence is None or known is None:
                left_out["its pictures are gone" if shown is None else "it tells of no place"] += 1
                continue
            odds = log_odds(sentence.confidence)
            if record.model.sha256 == sha256 and record.camera in weighed_by:
                odds -= float(known @ np.asarray(weighed_by[record.camera]))
            rows.append((record.after.time, known, odds, is_right(each, sentence), record.camera))
    if gone := sum(map(len, by_record.values())):
        left_out["its record is in no journal here"] += gone
    rows.sort(key=lambda row: row[0])
    return (
        Remarked(
            np.array([row[1] for row in rows]).reshape(-1, len(SIGNS)),
            np.array([row[2] for row in rows], np.float64),
            np.array([row[3] for row in rows], np.bool_),
            np.array([row[4] for row in rows], np.str_),
        ),
        left_out,
    )


def is_right(said: Feedback, sentence: RecordSentence) -> bool:
    """Whether a sentence was right as it was told."""
    right, told = said.correction, sentence.box_after or sentence.box_before or sentence.box
    if right is None:
        return said.opinion is Opinion.RIGHT
    moved = right.box is not None and (told is None or overlaps([told], [right.box])[0, 0] < _SAME)
    other = right.type not in (None, sentence.type) or right.object not in (None, sentence.object)
    return not (moved or other)


def _said(feedback: Path) -> dict[str, list[Feedback]]:
    """The newest word on each sentence, by record."""
    by_record: dict[str, list[Feedback]] = {}
    with FeedbackStore(feedback, read_only=True) as store:
        for each in store.newest():
            by_record.setdefault(each.record, []).append(each)
    return by_record


def _records(journals: Path) -> Iterator[Record]:
    chains, _ = find_chains([journals])
    for chain in chains:
        for path in chain.files:
            yield from read_journal(path)


def _shown(
    record: Record, store: EvidenceStore, changes: ChangeOptions
) -> tuple[Image, Image, NDArray[np.bool_]] | None:
    """The two pictures of a record and where they differ; None where one is gone."""
    evidence = record.evidence
    named = (evidence.before, evidence.after) if evidence else (None, None)
    files = (store.find(reference) if reference else None for reference in named)
    before, after = (image_in(file) if file else None for file in files)
    if before is None or after is None or before.shape != after.shape:
        return None
    _, clusters, _ = image_changes(before, after, changes)
    masks = [cluster.mask for cluster in clusters]
    return before, after, np.logical_or.reduce(masks) if masks else np.zeros(before.shape[:2], np.bool_)


def _signs(
    sentence: RecordSentence, shown: tuple[Image, Image, NDArray[np.bool_]] | None
) -> NDArray[np.float64] | None:
    return signs(sentence, *shown) if shown else None
