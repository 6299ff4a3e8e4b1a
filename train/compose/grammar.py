"""Captions that are true by construction, from what is known about a pair or a fact.

The wordings are those of `train.compose.phrases`. `people` draws among all of them and often leaves the
place out, in the proportions of the 23,093 sentences of Spot-the-diff (Jhamtani and Berg-Kirkpatrick 2018:
no place in 36 %); only places that the picture itself gives are said: what is a pavement or a parking
space cannot be known of any footage. `plain` says the first wording and always the place, since a narrator
should be right rather than varied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from models.boxes import Box
from models.language.places import Zone
from models.language.wording import COLOURS
from train.compose.claims import CLOTHES, Claims, claims_of
from train.compose.facts import MANNERS, SIDES, TYPES, Fact
from train.compose.phrases import NOUNS, wordings
from train.samples import SampleChange

_Value = TypeVar("_Value")

VARIETIES = ("plain", "people")

NO_CHANGE = ("nothing has changed", "there is no difference")

_NO_PLACE = 0.36
_OTHER_NOUN = 0.3
_ZONES = (
    Zone("at the gate", ((0.0, 0.3), (0.5, 0.3), (0.5, 1.0), (0.0, 1.0))),
    Zone("by the door", ((0.5, 0.3), (1.0, 0.3), (1.0, 1.0), (0.5, 1.0))),
)
_WAITS_S = (None, None, None, 30.0, 240.0)
_FILLS = 0.05
_COUNTS = (1, 1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


def caption(change: SampleChange, variety: str, rng: np.random.Generator) -> str:
    """One sentence about one change, in lower case and without a full stop, as the annotations are.

    Args:
        change: the change; its boxes decide the place.
        variety: ``plain`` or ``people``.
        rng: chooses among wordings; not used by ``plain``.

    Raises:
        ValueError: the variety, the type or the object is not known, or a box is missing.
    """
    if variety not in VARIETIES:
        raise ValueError(f"variety {variety!r} is not one of {', '.join(VARIETIES)}")
    people = variety == "people"
    fact = Fact(0, change.type, change.object, change.count, change.box_before, change.box_after, 1.0)
    claims = claims_of(fact, depth=people and bool(rng.random() < 0.5))  # noqa: PLR2004
    if not people:
        return wordings(claims)[0][0]
    if rng.random() < _NO_PLACE and claims.place:
        claims = replace(claims, place="")
    return wording(claims, rng, noun=int(rng.random() < _OTHER_NOUN))


def wording(claims: Claims, rng: np.random.Generator, noun: int = 0) -> str:
    """One of the wordings of claims, as often as people use it; see `train.compose.phrases.wordings`."""
    forms = wordings(claims, noun)
    return forms[int(rng.choice(len(forms), p=[share for _, share in forms]))][0]


def word(
    changes: Sequence[SampleChange], variety: str, rng: np.random.Generator
) -> tuple[tuple[SampleChange, ...], tuple[str, ...]]:
    """Word the changes of a pair, the largest first.

    Args:
        changes: what changed; empty for a pair in which nothing did.
        variety: ``plain`` or ``people``.
        rng: chooses among wordings.

    Returns:
        The changes with their sentences, and the sentences of the caption, of which none is said twice.
    """
    ordered = sorted(changes, key=lambda c: -c.area)
    worded = tuple(replace(c, sentence=caption(c, variety, rng)) for c in ordered)
    if not worded:
        return (), (NO_CHANGE[int(rng.random() < 0.5) if variety == "people" else 0],)  # noqa: PLR2004
    return worded, tuple(dict.fromkeys(c.sentence for c in worded))


def any_fact(rng: np.random.Generator) -> Fact:
    """A fact of any kind about any object, anywhere, as often with every manner as without one."""
    kind, name = _one(rng, TYPES), _one(rng, tuple(NOUNS))
    manner = _one(rng, tuple(MANNERS))
    before = None if kind in ("appeared", "more") else _box(rng)
    after = None if kind in ("disappeared", "fewer") else _box(rng)
    return Fact(
        pair=0,
        type=kind,
        object=name,
        count=_one(rng, _COUNTS),
        before=before,
        after=after,
        confidence=1.0,
        manner=manner,
        origin=_one(rng, ("", "", *SIDES)),
        target=_one(rng, ("", "", *SIDES)),
        rests=_one(rng, (True, False, None)),
        waited_s=_one(rng, _WAITS_S),
        path=_one(rng, ((), ((0.5, 0.5),))),
    )


def any_claims(rng: np.random.Generator) -> tuple[Fact, Claims]:
    """A fact of any kind and what a sentence about it says, with or without zones, depth and looks."""
    fact = any_fact(rng)
    zones, depth = _one(rng, ((), (), _ZONES, _ZONES[:1])), _one(rng, (False, True))
    look = _one(rng, ("", "", *CLOTHES, *COLOURS))
    return fact, claims_of(fact, look=look, zones=zones, depth=depth)


def _one(rng: np.random.Generator, values: Sequence[_Value]) -> _Value:
    return values[int(rng.integers(len(values)))]


def _box(rng: np.random.Generator) -> Box:
    """Anywhere in the frame, at its edges more often than by chance; now and then it fills the picture."""
    least, most = (0.5, 1.0) if rng.random() < _FILLS else (0.02, 0.2)
    width, height = (float(v) for v in rng.uniform(least, most, 2))
    x, y = (float(np.clip(v, 0, 1)) for v in rng.uniform(-0.1, 1.1, 2))
    return x * (1 - width), y * (1 - height), width, height
