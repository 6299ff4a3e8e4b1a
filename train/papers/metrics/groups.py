"""Scores of changed and distractor pairs apart, and of each type of change, as in the papers' tables.

Each group is scored by itself, with document frequencies of its own references, as Park et al. and
Hosseinzadeh and Wang do: CIDEr of a group does not compare with CIDEr of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.papers.wording import read
from train.papers.metrics.scores import TextScores, text_scores
from train.samples import Sample

CHANGED, DISTRACTOR = "changed", "distractor"

DISTRACTORS = frozenset({DISTRACTOR, "light", "shift", "view"})
"""Kinds of samples (`Sample.kind`) in which nothing changed that is worth a sentence."""

CLEVR_TYPES = ("color", "material", "add", "drop", "move")
"""Kinds of CLEVR-Change, whose pairs have one change each."""

_TOGETHER = {"more": "more or fewer", "fewer": "more or fewer"}


def sample_groups(sample: Sample) -> tuple[str, ...]:
    """The groups of a pair: changed or distractor, and the type if all its changes are of one.

    A pair of which neither the kind nor the changes are known is in no group.
    """
    if sample.changes:
        types = {_TOGETHER.get(change.type, change.type) for change in sample.changes}
        return (CHANGED, types.pop()) if len(types) == 1 else (CHANGED,)
    if not sample.kind:
        return ()
    if sample.kind in CLEVR_TYPES:
        return (CHANGED, sample.kind)
    return (CHANGED if tells_change(sample, sample.sentences) else DISTRACTOR,)


def tells_change(sample: Sample, sentences: Sequence[str]) -> bool:
    """True where a pair is no distractor: by how it was made, or else by its captions."""
    if sample.kind in DISTRACTORS:
        return False
    return bool(sample.changes) or any(read(sentence).type != "none" for sentence in sentences)


def group_scores(
    groups: Sequence[Sequence[str]], predicted: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, TextScores]:
    """Text scores of every group: changed, distractor, then the types by name."""
    names = sorted({name for own in groups for name in own}, key=lambda n: (n != CHANGED, n != DISTRACTOR, n))
    chosen = {name: [k for k, own in enumerate(groups) if name in own] for name in names}
    return {
        name: text_scores([predicted[k] for k in rows], [references[k] for k in rows])
        for name, rows in chosen.items()
    }
