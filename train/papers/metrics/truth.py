"""Correctness of the first sentence: type, polarity, object and place, and of silence.

Text scores hardly punish a reversed polarity and reward a constant sentence, so these stand beside them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.papers.vocabulary import tokenize
from models.papers.wording import read

Claim = tuple[str, str, frozenset[str]]
"""Type, object and place words of a sentence."""

Ratio = NDArray[np.float64]
"""Of every pair a numerator and a denominator, ``(N, 2)``; the figure is the ratio of the sums."""

_ADDS, _REMOVES = ("appeared", "more"), ("disappeared", "fewer")
_PLACE = re.compile(r"\b(left|right|top|bottom|middle|center|centre|front|back|near|far)\b")
_ASPECTS = ("type", "object", "place")


@dataclass(frozen=True, slots=True)
class Truth:
    """Numbers of pairs with a change whose first sentence agrees with some gold sentence.

    Shares 0..1; None where there is nothing to share.
    """

    pairs: int  # pairs with a change for which a change was claimed
    type: float | None  # the kind of change ("more" counts as appeared, "fewer" as disappeared)
    # the same of appeared and disappeared, where gold says one of them about that object
    polarity: float | None
    object: float | None  # the class of the object
    place: float | None  # the place words are the same
    all: float | None  # type, object and place of one gold sentence
    no_change_precision: float | None  # of pairs without a caption
    no_change_recall: float | None  # of pairs without a change


def truth_ratios(
    first: Sequence[str], silent: Sequence[bool], gold: Sequence[Sequence[str]]
) -> dict[str, Ratio]:
    """By attribute of `Truth` whether the first sentence of every pair is right, and counts."""
    names = (*_ASPECTS, "all", "polarity", "no_change_precision", "no_change_recall")
    results = {name: np.zeros((len(first), 2)) for name in names}
    for k, (text, nothing, truths) in enumerate(zip(first, silent, gold, strict=True)):
        claims = [claim(t) for t in truths if tokenize(t)]
        if not claims:
            continue
        changed = [c for c in claims if c[0] != "none"]
        results["no_change_precision"][k] = nothing and not changed, nothing
        results["no_change_recall"][k] = nothing and not changed, not changed
        claimed = claim(text)
        if not changed or claimed[0] == "none":
            continue
        for position, name in enumerate(_ASPECTS):
            results[name][k] = any(claimed[position] == c[position] for c in changed), 1
        results["all"][k] = claimed in changed, 1
        signs = {c[0] for c in changed if c[1] == claimed[1] and c[0] in ("appeared", "disappeared")}
        if signs and claimed[0] in ("appeared", "disappeared"):
            results["polarity"][k] = claimed[0] in signs, 1
    return results


def truth_of(ratios: Mapping[str, Ratio]) -> Truth:
    return Truth(
        pairs=int(ratios["type"][:, 1].sum()), **{name: share(each) for name, each in ratios.items()}
    )


def claim(text: str) -> Claim:
    """The claim of a sentence; "more" is read as appeared, "fewer" as disappeared."""
    wording = read(text)
    kind = wording.type
    kind = "appeared" if kind in _ADDS else "disappeared" if kind in _REMOVES else kind
    return kind, wording.object, frozenset(_PLACE.findall(" ".join(tokenize(text))))


def share(ratio: Ratio) -> float | None:
    """The ratio of the sums; None where the denominator is 0."""
    right, whole = ratio.sum(axis=0).tolist()
    return right / whole if whole else None
