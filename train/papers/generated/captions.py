"""Captions of a generated pair as annotators would write them: true, varied, in real proportions.

The wordings and shares follow the 23,093 sentences of Spot-the-diff: no place in 36 %, what it stands on in
about 33 %, another thing in 16 %, a side in 12 %, top or bottom in the rest; a colour in a third.
Every sentence is read by `models.papers.wording` as the type and the class that it tells.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from models.boxes import Box
from models.families import VEHICLES as PAINTED
from train.papers.generated.scenery import Scenery
from train.papers.generated.stage import Prop, Stage, StagedChange, surface_name

_WORDINGS = yaml.safe_load(Path(__file__).with_name("captions.yaml").read_text(encoding="utf-8"))
NO_CHANGE: list[str] = _WORDINGS["no_change"]
_FORMS: dict[str, list[tuple[str, float]]] = _WORDINGS["forms"]
NOUNS: dict[str, list[tuple[str, str]]] = _WORDINGS["nouns"]
_DOING: dict[str, list[str]] = _WORDINGS["doing"]

_NUMBERS = ("zero", "one", "two", "three", "four")
_TELLS = (0.97, 0.75, 0.55, 0.4)  # of the largest change, the second, ...
_NEAR = 0.16
_MIDDLE, _BETWEEN = (0.4, 0.6), (0.36, 0.7)  # shares of the frame that have no side, neither near nor far
_DEPTHS = (("at the top", "in the background"), ("at the bottom", "in the foreground"))


def annotate(stage: Stage, boxes: Sequence[Box], rng: np.random.Generator) -> dict[str, int | None]:
    """Describe a pair as one annotator: sentences in their order, and the position of each one's change.

    `boxes` are of what is named in each change, the largest first.
    """
    if not stage.changes:
        return {NO_CHANGE[int(rng.integers(len(NO_CHANGE)))]: None}
    chance = [_TELLS[min(k, len(_TELLS) - 1)] for k in range(len(stage.changes))]
    chosen = [k for k, share in enumerate(chance) if rng.random() < share] or [0]
    if len(chosen) > 1 and rng.random() < 0.15:  # noqa: PLR2004
        chosen[0], chosen[1] = chosen[1], chosen[0]
    said: dict[str, int | None] = {}
    for k in chosen:
        said.setdefault(_sentence(stage, stage.changes[k], boxes[k], rng), k)
    return said


def form_words(one: str, many: str, number: int = 1, colour: str | None = None) -> dict[str, str]:
    """The words for the braces of a form, but for the place, of one noun and its plural."""
    one, many = (f"{colour} {noun}" if colour else noun for noun in (one, many))
    several = f"{_NUMBERS[number]} {many}"
    a, the, has, are = (_a(one), one, "has", "is") if number == 1 else (several, several, "have", "are")
    return {"a": a, "the": f"the {the}", "one": one, "many": many, "has": has, "is": are}


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _side(box: Box) -> str:
    """At which side of the picture a box is; empty in the middle."""
    x = box[0] + box[2] / 2
    return "on the left" if x < _MIDDLE[0] else "on the right" if x > _MIDDLE[1] else ""


def _depth(box: Box) -> int | None:
    """0 of a box far away, 1 of a near one; None between."""
    y = box[1] + box[3] / 2
    return 0 if y < _BETWEEN[0] else 1 if y > _BETWEEN[1] else None


def plain_sentence(change: str, label: str, box: Box) -> str:
    """The most usual wording of a change of one object, with the side of the picture where it is."""
    depth = _depth(box)
    at = _side(box) or ("" if depth is None else _DEPTHS[depth][1])
    one, many = NOUNS.get(label, [(label, f"{label}s")])[0]
    return " ".join(_FORMS[change][0][0].format(**form_words(one, many), at=at).split())


def _sentence(stage: Stage, change: StagedChange, box: Box, rng: np.random.Generator) -> str:
    shares = np.array([share for _, share in _FORMS[change.type]])
    form = _FORMS[change.type][int(rng.choice(len(shares), p=shares / shares.sum()))][0]
    things = change.before if change.type in ("disappeared", "fewer", "moved", "replaced") else change.after
    one, many = _nouns(things[0], rng)
    words = form_words(one, many, len(things), _colour(change, things, rng))
    if stage.places:
        at = stage.places[int(rng.integers(len(stage.places)))]
    else:
        at = _place(stage.scenery, stage.still, change, box, rng)
    if change.type == "appeared" and form.startswith("there") and at and rng.random() < 0.5:  # noqa: PLR2004
        ways = _DOING.get(things[0].label, [""])
        at = ways[int(rng.integers(len(ways)))] + at
    if form.startswith("{a} {is} now") and not at:
        at = "there"
    if change.type == "replaced":
        words["other"] = _other(things[0], change.after[0])
        if things[0].label in PAINTED:
            words["the"] = f"the {things[0].colour} {one}"
    return " ".join(form.format(**words, at=at).split())


def _nouns(thing: Prop, rng: np.random.Generator) -> tuple[str, str]:
    nouns = NOUNS[thing.label]
    return nouns[int(rng.integers(len(nouns))) if rng.random() < 0.25 else 0]  # noqa: PLR2004


def _colour(change: StagedChange, things: Sequence[Prop], rng: np.random.Generator) -> str | None:
    same = len({t.colour for t in things}) == 1
    says = change.type not in ("more", "fewer") and same and things[0].label in PAINTED
    return things[0].colour if says and rng.random() < 0.6 else None  # noqa: PLR2004


def _other(first: Prop, second: Prop) -> str:
    """The replacement of the first object; within one class only the colour differs."""
    noun = NOUNS[second.label][0][0]
    if second.label not in PAINTED:
        return f"another {noun}" if first.label == second.label else f"a {noun}"
    return _a(f"{second.colour} {noun}")


def _place(
    scenery: Scenery, still: Sequence[Prop], change: StagedChange, box: Box, rng: np.random.Generator
) -> str:
    draw = rng.random()
    if draw < 0.36:  # noqa: PLR2004 - shares of the head of this file
        return ""
    surface = surface_name(change.named)
    on = f"{'in' if surface == 'parking lot' else 'on'} the {surface}"
    if draw < 0.69:  # noqa: PLR2004
        return on
    beside = _landmark(scenery, still, change.named) if draw < 0.81 else ""  # noqa: PLR2004
    side = _side(box) if draw < 0.92 else ""  # noqa: PLR2004
    if beside or side:
        return beside or side
    depth = _depth(box)
    return on if depth is None else _DEPTHS[depth][int(rng.integers(2))]


def _landmark(scenery: Scenery, still: Sequence[Prop], thing: Prop) -> str:
    """Near which landmark or standing thing; empty where there is none that only one place can mean."""
    x, y = thing.left + thing.width / 2, thing.top + thing.height
    marks = [(mx, my, f"near the {name}", name) for name, mx, my in scenery.landmarks]
    marks += [
        (t.left + t.width / 2, t.top + t.height, f"next to the {t.colour} {t.label}", t.label) for t in still
    ]
    names = [name for *_, name in marks]
    near = [
        (abs(mx - x) + abs(my - y), words)
        for mx, my, words, name in marks
        if names.count(name) == 1 and name != thing.label and (words.startswith("near") or name in PAINTED)
    ]
    distance, words = min(near, default=(math.inf, ""))
    return words if distance < _NEAR * scenery.side else ""
