"""Pairs of labelled frames, for the change classifier: what is seen on both sides, and what the teacher says.

Pairs come from every camera about equally often, with gaps from half a second to as long as its footage
reaches. Of each observation it is known that it is a change (the teacher is sure of it on this side and sees
nothing like it there on the other), that it is none (the teacher sees nothing here, or the same on both sides
and the pixels agree), or it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.boxes import overlaps
from models.detections import Detections
from models.families import OBJECTS, family_of
from models.grounded.change_classifier import EVIDENCE
from pipeline.sources.times import moment_in_name
from train.footage.frames import LabelledFrame, by_camera
from train.footage.votes import Vote

_NOTHING, _MATCH, _THERE, _EXACTLY = 0.2, 0.5, 0.35, 0.9  # overlaps with the teacher's boxes
_UNCHANGED = 0.25  # share of a box that differs
_STRANGE, _DIFFERS, _ALIKE = 0.3, 0.6, 0.75  # correlations of the two pictures
_CHANGED, _CORRELATION = "share of its box that differs", "correlation of the two pictures there"


@dataclass(frozen=True, slots=True)
class FramePairing:
    """Two labelled frames of one camera, in the order of time, and the seconds between where known."""

    before: LabelledFrame
    after: LabelledFrame
    gap_s: float | None


def pairings(frames: Sequence[LabelledFrame], number: int, seed: int) -> Iterator[FramePairing]:
    """Draw pairs; the same ones from the same seed."""
    rng = np.random.default_rng(seed)
    usable = {name: own for name, own in by_camera(frames).items() if len(own) > 1}
    weight = np.array([len(own) ** 0.4 for own in usable.values()])
    names = list(usable)
    for _ in range(number):
        own = usable[names[rng.choice(len(names), p=weight / weight.sum())]]
        first = own[rng.integers(len(own))]
        clip = [f for f in own if f.file == first.file and f.seconds is not None and f is not first]
        others = [f for f in own if f.file != first.file]
        if clip and (not others or rng.random() < 0.6):  # noqa: PLR2004 - three of five within a clip
            apart = np.array([abs((f.seconds or 0) - (first.seconds or 0)) for f in clip])
            second = clip[
                int(np.abs(apart - np.exp(rng.uniform(np.log(0.4), np.log(apart.max() + 0.1)))).argmin())
            ]
        else:
            second = others[rng.integers(len(others))] if others else own[0]
        if second is first:
            continue
        if rng.random() < 0.5:  # noqa: PLR2004 - both orders are as good
            first, second = second, first
        yield FramePairing(first, second, gap_between(first, second))


def gap_between(one: LabelledFrame, other: LabelledFrame) -> float | None:
    """Seconds between two frames: by their file's clock, of two files by the times in their names."""
    if one.file == other.file:
        return None if one.seconds is None or other.seconds is None else abs(one.seconds - other.seconds)
    moments = [moment_in_name(Path(frame.file)) for frame in (one, other)]
    if moments[0] is None or moments[1] is None:
        return None
    return abs((moments[1] - moments[0]).total_seconds())


def verdicts(
    observed: Detections,
    here: Sequence[Vote],
    there: Sequence[Vote],
    seen: NDArray[np.float32],
    *,
    apart: bool,
) -> NDArray[np.int8]:
    """1 for an observation that is a change, 0 for one that is none, -1 where it is unknown: int8 ``(N,)``.

    What the teacher sees on one side alone is a change unless the pictures are alike there (it was overlooked
    on the other side), and what it sees on both sides is none if they are alike there, however much the light
    has changed. Two objects at about one place whose pictures have nothing in common are two, on two
    occasions.

    Args:
        observed: N observations of one side.
        here: the teacher's candidates on this side.
        there: and on the other.
        seen: the classifier's evidence of the observed, float32 ``(N, len(EVIDENCE))``.
        apart: whether the frames are of two occasions.
    """
    result = np.full(len(observed.box), -1, np.int8)
    on_this, on_that = (overlaps(observed.box, [v.box for v in votes]) for votes in (here, there))
    changed, alike = (seen[:, EVIDENCE.index(name)].tolist() for name in (_CHANGED, _CORRELATION))
    taken: set[int] = set()
    for n in np.argsort(-observed.score).tolist():
        family = family_of(OBJECTS[int(observed.label[n].argmax())])
        if family not in ("person", "vehicle", "two-wheeler"):
            continue
        own = [m for m, v in enumerate(here) if v.family == family]
        best = max(own, key=lambda m: on_this[n, m], default=None)
        across = max((on_that[n, m] for m, v in enumerate(there) if v.family == family), default=0.0)
        if best is None or on_this[n, best] < _NOTHING:
            result[n] = 0
        elif on_this[n, best] < _MATCH:
            continue
        elif best in taken:
            result[n] = 0 if here[best].sure else -1
        elif here[best].sure:
            taken.add(best)
            result[n] = _changes(across, changed[n], alike[n], apart=apart)
    return result


def _changes(across: float, changed: float, alike: float, *, apart: bool) -> int:
    if across < _THERE:
        return 1 if alike < _DIFFERS else 0 if alike > _ALIKE and changed < _UNCHANGED else -1
    if changed < _UNCHANGED or alike > _ALIKE:
        return 0
    return 1 if apart and alike < _STRANGE and across < _EXACTLY else -1
