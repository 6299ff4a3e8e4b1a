"""What is known of composed samples, as the tensors that a grounded captioner learns from."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from models.perception import OBJECTS, Truth
from models.places import PLACES, place_bin
from models.speaker import MOST, TYPES
from train.samples import Sample, SampleChange

GUESSED = ("real", "median", "occasion")
"""Kinds of pairs whose objects a teacher named: what it did not see may still be there."""
GUESSED_WEIGHT = 0.35
"""How much a cluster without an object counts in such a pair."""
_SIDES = ("before", "after")


def truth_of(chosen: Sequence[tuple[Sample, tuple[str, ...]]]) -> Truth | None:
    """What is known of samples, each with one annotator's sentences.

    Args:
        chosen: B samples and their sentences.

    Returns:
        Tensors padded to the most objects and sentences; None where nothing is known of any of them, as of
        people's annotations.
    """
    if not any(sample.kind for sample, _ in chosen):
        return None
    pairs = len(chosen)
    most = max(1, *(len(sample.objects) for sample, _ in chosen))
    longest = max(1, *(len(sentences) for _, sentences in chosen))
    side = torch.full((pairs, most), -1)
    label, identity = torch.zeros(pairs, most, dtype=torch.int64), torch.full((pairs, most), -1)
    box, sure = torch.zeros(pairs, most, 4), torch.zeros(pairs, most, dtype=torch.bool)
    told = torch.full((pairs, longest, 4), -1)
    for b, (sample, sentences) in enumerate(chosen):
        for m, each in enumerate(sample.objects):
            side[b, m] = _SIDES.index(each.side)
            label[b, m] = _label(each.label)
            identity[b, m] = each.identity
            box[b, m] = torch.tensor(each.box)
            sure[b, m] = each.sure
        for t, sentence in enumerate(sentences):
            told[b, t] = torch.tensor(_facts(sample, sentence))
    weight = torch.tensor([GUESSED_WEIGHT if s.kind in GUESSED else 1.0 for s, _ in chosen])
    return Truth(side, label, box, sure, identity, weight, told)


def _label(name: str) -> int:
    return OBJECTS.index(name if name in OBJECTS else "object")


def _facts(sample: Sample, sentence: str) -> tuple[int, int, int, int]:
    """The facts of a sentence, see `models.speaker.FACTS`; all -1 where no change has it."""
    if not sample.changes:
        return 0, 0, 0, len(PLACES)
    change = next((c for c in sample.changes if c.sentence == sentence), None)
    if change is None:
        return -1, -1, -1, -1
    return TYPES.index(change.type), _label(change.object), min(change.count, MOST), place_bin(_seen(change))


def _seen(change: SampleChange) -> tuple[float, float, float, float]:
    """The box that a sentence's place is about: where it was, but for what appeared."""
    first, second = change.box_before, change.box_after
    if change.type in ("appeared", "more"):
        first, second = second, first
    box = first or second
    if box is None:
        raise ValueError(f"a change without a box: {change}")
    return box
