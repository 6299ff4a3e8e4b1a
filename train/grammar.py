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

from train.samples import Box, SampleChange
from train.teacher import centre

VARIETIES = ("plain", "people")

NO_CHANGE = ("nothing has changed", "there is no difference")

LEFT, RIGHT = 0.4, 0.6
"""A centre below is on the left, above on the right, between them in the middle."""
TOP, BOTTOM = 0.33, 0.67
"""A centre below is at the top, above at the bottom."""

NUMBERS = ("zero", "one", "two", "three", "four")
"""Larger groups are told as several: the teacher does not count better than people do."""

NOUNS: dict[str, tuple[tuple[str, str], ...]] = {
    "person": (("person", "people"),),
    "car": (("car", "cars"), ("vehicle", "vehicles")),
    "vehicle": (("vehicle", "vehicles"),),
    "bus": (("bus", "buses"),),
    "truck": (("truck", "trucks"), ("lorry", "lorries")),
    "bicycle": (("bicycle", "bicycles"), ("bike", "bikes")),
    "cyclist": (("cyclist", "cyclists"),),
    "motorcycle": (("motorcycle", "motorcycles"), ("motorbike", "motorbikes")),
    "bottle": (("bottle", "bottles"),),
    "object": (("object", "objects"),),
}
"""Label to its nouns, singular and plural, the plain one first."""

FORMS: dict[str, tuple[tuple[str, float], ...]] = {
    "appeared": (
        ("{a} {has} appeared {at}", 0.3),
        ("there {is} now {a} {at}", 0.45),
        ("{a} {is} now {at}", 0.1),
        ("{new} {has} appeared {at}", 0.15),
    ),
    "disappeared": (
        ("{the} {at} {has} disappeared", 0.2),
        ("{the} {at} {is} gone", 0.4),
        ("{the} {at} {is} no longer there", 0.25),
        ("{the} {at} {is} missing", 0.15),
    ),
    "moved": (("{the} {at} {has} moved", 0.75), ("{the} {at} {has} changed position", 0.25)),
    "more": (("there are more {many} {at}", 0.7), ("there are now more {many} {at}", 0.3)),
    "fewer": (("there are fewer {many} {at}", 0.7), ("there are now fewer {many} {at}", 0.3)),
    "replaced": (
        ("{the} {at} has been replaced by another one", 0.7),
        ("another {one} has taken the place of {the} {at}", 0.3),
    ),
}
"""Wordings of each type with their shares; the plain one first. ``{at}`` is the place or nothing."""

_FROM_TO = "{the} {has} moved from {start} to {end}"


def across(box: Box) -> str:
    """The third of the frame in which a box's centre lies: left, middle or right."""
    x = centre(box)[0]
    return "left" if x < LEFT else "right" if x > RIGHT else "middle"


def place(box: Box, *, back_and_front: bool = False) -> str:
    """Words for where a box is, true of its centre.

    Args:
        box: ``(x, y, width, height)`` in 0..1.
        back_and_front: say background and foreground for top and bottom.
    """
    side, y = across(box), centre(box)[1]
    if TOP <= y <= BOTTOM:
        return "in the middle" if side == "middle" else f"on the {side}"
    if back_and_front:
        depth = "in the background" if y < TOP else "in the foreground"
        return f"{depth} in the middle" if side == "middle" else f"{depth} on the {side}"
    edge = "top" if y < TOP else "bottom"
    return f"at the {edge} in the middle" if side == "middle" else f"at the {edge} {side}"


def _where(box: Box, rng: np.random.Generator) -> str:
    """As people say it: often nowhere, else one or two words of the place."""
    draw, side, y = rng.random(), across(box), centre(box)[1]
    if draw < 0.36:  # noqa: PLR2004  # the measured share
        return ""
    if draw < 0.6 or TOP <= y <= BOTTOM:  # noqa: PLR2004
        return "in the middle" if side == "middle" else f"on the {side}"
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
    words = _words(one, many, change.count)
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
    start, end = across(change.box_before), across(change.box_after)
    if {start, end} != {"left", "right"} or rng.random() < 0.5:  # noqa: PLR2004
        return form
    words["start"], words["end"] = f"the {start}", f"the {end}"
    return _FROM_TO


def _words(one: str, many: str, count: int) -> dict[str, str]:
    if count > 1:
        number = NUMBERS[count] if count < len(NUMBERS) else "several"
        return {
            "a": f"{number} {many}",
            "new": f"{number} new {many}",
            "the": f"the {number} {many}" if number != "several" else f"several {many}",
            "one": one,
            "many": many,
            "has": "have",
            "is": "are",
        }
    article = "an" if one[0] in "aeiou" else "a"
    return {
        "a": f"{article} {one}",
        "new": f"a new {one}",
        "the": f"the {one}",
        "one": one,
        "many": many,
        "has": "has",
        "is": "is",
    }


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
