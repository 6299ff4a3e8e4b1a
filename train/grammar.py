"""Captions that are true by construction, from what is known about a pair.

The proportions of `people` follow the 23,093 sentences of Spot-the-diff (Jhamtani and Berg-Kirkpatrick
2018): appeared 40 %, disappeared 31 %, moved 12 %, more or fewer 7 %; no place in 36 %, left or right in
12 %, top or back in 9 %, bottom or front in 7 %. Only places that the picture itself gives are said: what
is a pavement or a parking space cannot be known of any footage. `plain` says one sentence per type and
always the place, since a narrator should be right rather than varied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.phrases import NOUNS, NUMBERS, PLAIN_FORMS, slots
from models.places import BOTTOM, TOP, place, side
from train.samples import Box, SampleChange
from train.teacher import centre

VARIETIES = ("plain", "people")

NO_CHANGE = ("nothing has changed", "there is no difference")

COUNTED = 4
"""Larger groups are told as several: the teacher does not count better than people do."""

FORMS: dict[str, tuple[tuple[str, float], ...]] = {
    "appeared": (
        (PLAIN_FORMS["appeared"], 0.3),
        ("there {is} now {a} {at}", 0.45),
        ("{a} {is} now {at}", 0.1),
        ("{new} {has} appeared {at}", 0.15),
    ),
    "disappeared": (
        (PLAIN_FORMS["disappeared"], 0.4),
        ("{the} {at} {has} disappeared", 0.2),
        ("{the} {at} {is} no longer there", 0.25),
        ("{the} {at} {is} missing", 0.15),
    ),
    "moved": ((PLAIN_FORMS["moved"], 0.75), ("{the} {at} {has} changed position", 0.25)),
    "more": ((PLAIN_FORMS["more"], 0.7), ("there are now more {many} {at}", 0.3)),
    "fewer": ((PLAIN_FORMS["fewer"], 0.7), ("there are now fewer {many} {at}", 0.3)),
    "replaced": (
        (PLAIN_FORMS["replaced"], 0.7),
        ("another {one} has taken the place of {the} {at}", 0.3),
    ),
}
"""Wordings of each type with their shares; the plain one first. ``{at}`` is the place or nothing."""

_FROM_TO = "{the} {has} moved from {start} to {end}"


def _where(box: Box, rng: np.random.Generator) -> str:
    """As people say it: often nowhere, else one or two words of the place."""
    draw, column, y = rng.random(), side(box), centre(box)[1]
    if draw < 0.36:  # noqa: PLR2004  # the measured share
        return ""
    if draw < 0.6 or TOP <= y <= BOTTOM:  # noqa: PLR2004
        return "in the middle" if column == "middle" else f"on the {column}"
    if draw < 0.75:  # noqa: PLR2004
        return place(box)
    if draw < 0.88:  # noqa: PLR2004
        return "at the top" if y < TOP else "at the bottom"
    return "in the background" if y < TOP else "in the foreground"


def caption(change: SampleChange, variety: str, rng: np.random.Generator) -> str:
    """One sentence about one change, in lower case and without a full stop, as the annotations are.

    Args:
        change: the change; its boxes decide the place.
        variety: ``plain`` or ``people``.
        rng: chooses among wordings; not used by ``plain``.

    Raises:
        ValueError: the variety, the type or the object is not known.
    """
    if variety not in VARIETIES:
        raise ValueError(f"variety {variety!r} is not one of {', '.join(VARIETIES)}")
    if change.type not in FORMS or change.object not in NOUNS:
        raise ValueError(f"no words for {change.type} {change.object}")
    people = variety == "people"
    seen = _seen(change)
    nouns = NOUNS[change.object]
    one, many = nouns[int(rng.integers(len(nouns))) if people and rng.random() < 0.3 else 0]  # noqa: PLR2004
    number = NUMBERS[change.count] if change.count <= COUNTED else "several"
    words = slots(one, many, None if change.count <= 1 else number)
    words["at"] = _where(seen, rng) if people else place(seen)
    form = FORMS[change.type][0][0]
    if people:
        shares = np.array([share for _, share in FORMS[change.type]])
        form = FORMS[change.type][int(rng.choice(len(shares), p=shares / shares.sum()))][0]
        form = _crossing(change, form, words, rng)
    return " ".join(form.format(**words).split())


def _seen(change: SampleChange) -> Box:
    """The box that a sentence's place is about: where the object was, if it was there before."""
    first, second = change.box_before, change.box_after
    if change.type in ("appeared", "more"):
        first, second = second, first
    box = first if first is not None else second
    if box is None:
        raise ValueError(f"a change without a box: {change}")
    return box


def _crossing(change: SampleChange, form: str, words: dict[str, str], rng: np.random.Generator) -> str:
    """Sometimes say both ends of a way from one side to another."""
    if change.type != "moved" or change.box_before is None or change.box_after is None:
        return form
    start, end = side(change.box_before), side(change.box_after)
    if {start, end} != {"left", "right"} or rng.random() < 0.5:  # noqa: PLR2004
        return form
    words["start"], words["end"] = f"the {start}", f"the {end}"
    return _FROM_TO


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
