"""Is a sentence right? What it claims, against what is known to have changed in a sample.

The rules are those of the narration benchmark: only the words say what is claimed, the boxes only say
which change is meant; more counts as appeared and fewer as disappeared; labels that are easily confused are
one family; where it is not known whether two objects are the same one, it may be told as moved or as gone
and come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from models.boxes import Box, area, centre, holds, iou, union
from models.captioner import Sentence
from models.families import family_of
from models.language.wording import Wording, read
from train.samples import Sample, SampleChange

LEAST_IOU = 0.1
"""Two boxes that share this much of their union meet."""
SMALLEST, LARGEST = 1 / 20, 8.0
"""Boxes of which one's centre lies in the other meet too, if the first has so much of the other's area."""

_PLAIN = {"more": "appeared", "fewer": "disappeared"}
_BY_HAND = ("pasted", "erased")  # kinds of samples in which it is known which object is which
_SHARED = 0.4  # how much worse a change fits that another sentence is about as well
_SLACK = 0.05
_WHERE = {
    "left": (0, 0.0, 0.5 + _SLACK),
    "right": (0, 0.5 - _SLACK, 1.0),
    "top": (1, 0.0, 0.5 + _SLACK),
    "far": (1, 0.0, 0.6),
    "bottom": (1, 0.5 - _SLACK, 1.0),
    "near": (1, 0.4, 1.0),
}
_MIDDLE = (0.2, 0.8)
_ACROSS, _DOWN = {"left", "right"}, {"top", "bottom", "near", "far"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is right about one sentence.

    Attributes:
        sentence: what was told.
        tells: positions in `Sample.changes` of what it is about, the one that it is judged by first.
        counted: False where it cannot be judged: it is about something of which the truth is not known.
        type, object, place: whether the kind of change, the object's family and the words of the place are
            true; False where it is about nothing.
        count: whether it tells as many objects as there are.
        again: True where it is about something that other sentences have told already.
        wide: True where its box is so much larger than what it holds that it names none of it.
        camera: of the sample.
    """

    sentence: Sentence
    tells: tuple[int, ...] = ()
    counted: bool = True
    again: bool = False
    wide: bool = False
    type: bool = False
    object: bool = False
    place: bool = False
    count: bool = False
    camera: str = ""

    @property
    def right(self) -> bool:
        """Fully right, as the benchmark counts it: type, object family and place."""
        return self.type and self.object and self.place

    @property
    def wrong(self) -> tuple[str, ...]:
        """Some of `FAULTS`; empty if all is right or nothing can be said."""
        if not self.tells:
            fault = "told before" if self.again else "box too large" if self.wide else "nothing there"
            return (fault,) if self.counted else ()
        return tuple(name for name in ("type", "object", "count", "place") if not getattr(self, name))


@dataclass(frozen=True, slots=True)
class Shares:
    """How many of some sentences are right, and in what the others are wrong.

    Attributes:
        sentences: how many were judged.
        right: share 0..1 of fully right ones; None without sentences.
        wrong: share 0..1 of those with each of `FAULTS`; one sentence may have several.
    """

    sentences: int
    right: float | None
    wrong: Mapping[str, float]


FAULTS = ("type", "object", "place", "count", "nothing there", "box too large", "told before")
"""What can be wrong with a sentence. A wrong count alone leaves it right."""


def shares(verdicts: Iterable[Verdict]) -> Shares:
    """Shares of the verdicts that count."""
    counted = [v for v in verdicts if v.counted]
    faults = Counter(fault for v in counted for fault in v.wrong)
    number = len(counted)
    return Shares(
        number,
        sum(v.right for v in counted) / number if number else None,
        {fault: faults[fault] / number if number else 0.0 for fault in FAULTS},
    )


@dataclass(slots=True)
class _Claimed:
    """A sentence with what it claims, and the changes it is about."""

    sentence: Sentence
    claim: Wording
    boxes: tuple[Box, ...]
    tells: list[int] = field(default_factory=list)


def judge(sentences: Sequence[Sentence], sample: Sample) -> list[Verdict]:
    """Judge what was told about a sample.

    Args:
        sentences: of one captioner.
        sample: its `changes` are the truth; its unsure `objects` are where the truth is not known.

    Returns:
        One verdict per sentence, in their order. A change is told by as many sentences as it has objects
        (by twice as many where something may be told as gone and come), each sentence takes the change that
        it fits best, and a sentence about several objects takes further changes of its place and kind.
    """
    said = [_Claimed(s, read(s.text), _boxes(s)) for s in sentences]
    _assign(said, sample)
    counts: dict[int, int] = {}
    for each in said:
        for k in each.tells:
            counts[k] = counts.get(k, 0) + (each.claim.count or 2)
    return [_verdict(each, sample, counts) for each in said]


def _assign(said: Sequence[_Claimed], sample: Sample) -> None:
    """Fill in `tells`: best fit first, then what a sentence about several objects tells besides."""
    room = [_sentences(change, sample) for change in sample.changes]
    pairs = [(s, k) for s in range(len(said)) for k in range(len(room))]
    fits = sorted((-fit, s, k) for s, k in pairs if (fit := _fit(said[s], k, sample)))
    shared = [(minus_fit + _SHARED, s, k) for minus_fit, s, k in fits]
    used = [0] * len(room)
    for _, s, k, most in sorted([(*f, 1) for f in fits] + [(*f, room[f[2]]) for f in shared]):
        if not said[s].tells and used[k] < most:
            said[s].tells.append(k)
            used[k] += 1
    taken = {k for one in said for k in one.tells}
    for _, s, k in fits:
        one = said[s]
        left = (one.claim.count or 10) - sum(sample.changes[t].count for t in one.tells)
        good = _type(one, k, sample) and _object(one.claim, sample.changes[k])
        if k not in taken and one.tells and left > 0 and good:
            one.tells.append(k)
            taken.add(k)


def _verdict(said: _Claimed, sample: Sample, counts: dict[int, int]) -> Verdict:
    sentence, claim = said.sentence, said.claim
    if not said.tells:
        doubtful = [o.box for o in sample.objects if not o.sure]
        again = any(_fit(said, k, sample) for k in range(len(sample.changes)))
        known = again or not any(meets(b, d) for b in said.boxes for d in doubtful)
        held = [centre(b) for change in sample.changes for b in _labels(change)]
        return Verdict(
            sentence,
            counted=known and claim.type != "none",
            again=again,
            wide=any(holds(box, point) for box in said.boxes for point in held),
            camera=sample.camera,
        )
    first = sample.changes[said.tells[0]]
    there = sum(sample.changes[k].count for k in said.tells)
    shared = claim.count < there and counts[said.tells[0]] == first.count  # "a car", twice, about two cars
    return Verdict(
        sentence,
        tells=tuple(said.tells),
        type=_type(said, said.tells[0], sample),
        object=_object(claim, first),
        place=_place(claim, first),
        count=there > 1 if claim.count == 0 else claim.count == there or shared,
        camera=sample.camera,
    )


def meets(box: Box, other: Box, count: int = 1) -> bool:
    """Whether a sentence's box can mean what is in a label's box.

    Args:
        box: of the sentence.
        other: of the label.
        count: how many objects the label's box holds: a sentence about one of them may have a small box.
    """
    if iou(box, other) >= LEAST_IOU:
        return True
    ratio = area(box) / max(area(other), 1e-9)
    held = holds(other, centre(box)) or holds(box, centre(other))
    return held and ratio * count >= SMALLEST and ratio <= LARGEST


def _boxes(sentence: Sentence) -> tuple[Box, ...]:
    return tuple(dict.fromkeys(b for b in (sentence.box, sentence.before, sentence.after) if b is not None))


def _labels(change: SampleChange) -> list[Box]:
    return [b for b in (change.box_before, change.box_after) if b is not None]


def _fit(said: _Claimed, k: int, sample: Sample) -> float:
    """How well a sentence fits a change; 0 where it cannot mean it."""
    change, claim = sample.changes[k], said.claim
    if claim.type == "none":
        return 0.0
    family, where = _object(claim, change), _place(claim, change)
    labels = _labels(change)
    both = [*labels, union(labels[0], labels[-1])]
    if said.boxes:
        met = [iou(box, b) for box in said.boxes for b in both if meets(box, b, change.count)]
        if not met:
            return 0.0
        overlap = 0.3 + max(met) / 2
    elif family and where and claim.places:
        overlap = 0.3
    else:
        return 0.0
    exact = claim.object == change.object
    return overlap + 0.8 * _type(said, k, sample) + 0.5 * family + 0.1 * exact + 0.05 * where


def _sentences(change: SampleChange, sample: Sample) -> int:
    """How many sentences may tell a change."""
    twice = change.type == "replaced" or (change.type == "moved" and not _identified(change, sample))
    return max(1, change.count) * (2 if twice else 1)


def _identified(change: SampleChange, sample: Sample) -> bool:
    """Whether it is known which object on one side is which on the other, or that it is on one side only."""
    if change.members:
        return all(sample.objects[k].identity >= 0 for k in change.members)
    return sample.kind in _BY_HAND or change.type in ("appeared", "disappeared", "more", "fewer")


def _type(said: _Claimed, k: int, sample: Sample) -> bool:
    change = sample.changes[k]
    claimed = _PLAIN.get(said.claim.type, said.claim.type)
    known = _PLAIN.get(change.type, change.type)
    if claimed == known:
        return True
    open_end = known == "replaced" or not _identified(change, sample)
    if known in ("moved", "replaced") and open_end and claimed in ("appeared", "disappeared"):
        end = change.box_after if claimed == "appeared" else change.box_before
        return end is not None and (not said.boxes or any(meets(b, end, change.count) for b in said.boxes))
    return claimed == "moved" and known in ("appeared", "disappeared") and open_end


def _object(claim: Wording, change: SampleChange) -> bool:
    claimed, known = (family_of(name) for name in (claim.object, change.object))
    rider = claim.object == "cyclist" and change.object == "person"
    return claimed == known or rider or (claim.object == "vehicle" and change.object == "motorcycle")


def _place(claim: Wording, change: SampleChange) -> bool:
    """Whether every word of the place is true of one of the change's boxes; halves overlap a little."""
    centres = [centre(b) for b in _labels(change)]
    for word in claim.places:
        if word == "middle":
            if claim.places & _ACROSS:
                true = any(_MIDDLE[0] <= y <= _MIDDLE[1] for _, y in centres)
            else:
                true = any(_MIDDLE[0] <= x <= _MIDDLE[1] for x, _ in centres)
        else:
            axis, low, high = _WHERE[word]
            true = any(low <= point[axis] <= high for point in centres)
        if not true:
            return False
    return True
