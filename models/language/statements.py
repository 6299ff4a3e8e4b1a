"""From facts about two pictures to statements: places, and one statement for equal objects that are near."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from models.boxes import Box, area, hull
from models.language.places import Zone, is_at, phrase_of, side, way, zone_of
from models.language.templates import COUNTED, Statement

TYPES = ("appeared", "disappeared", "moved")

NEIGHBOURS = 6.0  # largest box around equal objects, in smallest boxes, for one sentence on them
_ALIKE = 3  # sentences of one wording at most; of more the nearest are merged
_DOUBTFUL = {"appeared": "present", "disappeared": "absent"}  # hold even if one object moved
_COVERED = {"appeared": "visible", "disappeared": "hidden"}  # hold even if one object stayed or moved
_LEAST_AREA = 1e-9
_PHRASE = re.compile(r"[^\W_](?:(?:[^\W_]|[' -])*[^\W_])?")
_LONGEST = 40
_BEFORE_A_PLACE = {
    *("above", "across", "along", "alongside", "among", "around", "at", "before", "behind", "below"),
    *("beneath", "beside", "between", "beyond", "by", "close", "down", "downstairs", "in", "indoors"),
    *("inside", "near", "next", "on", "opposite", "outdoors", "outside", "over", "past", "round"),
    *("through", "toward", "towards", "under", "underneath", "up", "upstairs", "within"),
}
"""First words of a phrase for a place."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One change of one object or several."""

    type: str  # one of `TYPES`
    object: str  # one of `models.families.KINDS`
    before: Box | None  # box on each side; None where it is absent or unknown
    after: Box | None
    confidence: float  # calibrated probability 0..1 of all of it
    large: bool = False  # a vehicle, either a bus or a lorry
    doubtful: bool = False  # an arrival or departure of what may be elsewhere in the other picture
    covered: bool = False  # ... of what may be behind something in the other picture
    others: tuple[Box, ...] = ()  # of its family, in sight in the picture in which its place is told

    def others_there(self, zones: Sequence[Zone] = (), *, depth: bool = False) -> list[Box]:
        """Others at what is called the same place: "the car on the left" would be ambiguous."""
        own = self.before or self.after
        where = phrase_of(own, zones, depth=depth) if own else ""
        return [box for box in self.others if is_at(box, where, zones, depth=depth)]


def statement_of(fact: Fact, *, zones: Sequence[Zone] = (), depth: bool = False) -> Statement:
    """The statement of a fact; zones take precedence over the picture's own places; `depth` as of `place`.

    Raises ValueError where the type is unknown, or a box is missing.
    """
    if fact.type not in TYPES:
        raise ValueError(f"no words for a {fact.object} that {fact.type}")
    actions = _COVERED if fact.covered else _DOUBTFUL if fact.doubtful else {}
    action = actions.get(fact.type, fact.type)
    statement = Statement(action, fact.object, large=fact.large)
    if fact.type == "moved":
        return _move(statement, fact, zones, depth=depth)
    box = fact.after if fact.type == "appeared" else fact.before
    if box is None:
        raise ValueError(f"a fact without a place: {fact}")
    return replace(statement, place=phrase_of(box, zones, depth=depth))


def _move(statement: Statement, fact: Fact, zones: Sequence[Zone], *, depth: bool) -> Statement:
    """A move between two places, as far as they have names."""
    end = fact.before or fact.after
    if end is None:
        raise ValueError(f"a fact without a place: {fact}")
    was = zone_of(end, zones)
    at = phrase_of(end, zones, depth=depth)
    if fact.before is None or fact.after is None:
        return replace(statement, place=at)
    now = zone_of(fact.after, zones)
    origin, target = way(fact.before, fact.after, depth=depth)
    if now or not target:
        return replace(statement, place=at, end=now.phrase if now and now is not was else "")
    if not was and origin:
        return replace(statement, origin=origin, target=target)
    if not was and target in ("far", "near"):  # "in the background to the foreground" is not so of either end
        at = f"on the {side(fact.before)}" if side(fact.before) != "middle" else "in the middle"
    return replace(statement, place=at, target=target)


def merge(
    statements: Sequence[Statement],
    boxes: Sequence[tuple[Box | None, Box | None]],
    others: Sequence[Sequence[Box]] = (),
) -> list[tuple[Statement, tuple[int, ...]]]:
    """Merge equal statements about neighbours; of those that are apart all but the first are about "another".

    Moves are merged only where too many are alike: each has a match of its own, which may be the wrong one.
    Boxes are of each statement, before and after, and of `others` at its place. Returns each with the
    positions of the statements that it stands for, by the first of them.
    """
    kinds: dict[Statement, list[tuple[int, ...]]] = {}
    for k, each in enumerate(statements):
        groups = kinds.setdefault(replace(each, count=1), [])
        fits = (n for n, g in enumerate(groups) if _spread([boxes[i] for i in (*g, k)]) <= NEIGHBOURS)
        near = None if each.action == "moved" else next(fits, None)
        if near is None:
            groups.append((k,))
        else:
            groups[near] += (k,)
    merged = [m for kind, groups in kinds.items() for m in _separate_groups(kind, groups, statements, boxes)]
    referents = Counter(_referent(statement) for statement, _ in merged)

    def among(statement: Statement, members: tuple[int, ...]) -> bool:
        own = {box for k in members for box in boxes[k]}
        untold = others and any(box not in own for k in members for box in others[k])
        return statement.action in _DEFINITE and (bool(untold) or referents[_referent(statement)] > 1)

    return [(replace(s, among=among(s, own)), own) for s, own in sorted(merged, key=lambda each: each[1])]


_DEFINITE = ("disappeared", "absent", "hidden", "moved")


def _referent(statement: Statement) -> tuple[bool, str, str]:
    """Equal for objects that "the car on the left" could refer to."""
    origin = statement.origin
    at = statement.place or {"middle": "in the middle"}.get(origin, f"on the {origin}")
    return statement.action in _DEFINITE, statement.object, at


def _separate_groups(
    kind: Statement,
    groups: list[tuple[int, ...]],
    statements: Sequence[Statement],
    boxes: Sequence[tuple[Box | None, Box | None]],
) -> list[tuple[Statement, tuple[int, ...]]]:
    """Merge groups of one wording until `_ALIKE` at most are left; all but the first are "another"."""
    while True:
        counted: dict[int, list[tuple[int, ...]]] = {}
        for group in groups:
            count = sum(statements[k].count for k in group)
            counted.setdefault(min(count, COUNTED + 1), []).append(group)
        crowd = next((g for n, g in counted.items() if len(g) > (1 if n > COUNTED else _ALIKE)), None)
        if crowd is None:
            break
        near = min(combinations(crowd, 2), key=lambda two: _spread([boxes[k] for k in (*two[0], *two[1])]))
        groups = [g for g in groups if g not in near] + [tuple(sorted((*near[0], *near[1])))]
    return [
        (replace(kind, count=count, several=count > COUNTED, other=n > 0), group)
        for same in counted.values()
        for n, group in enumerate(sorted(same))
        for count in [sum(statements[k].count for k in group)]
    ]


def _spread(boxes: Sequence[tuple[Box | None, Box | None]]) -> float:
    """Area of the box around all, in smallest boxes; the larger of before and after."""
    most = 0.0
    for own in zip(*boxes, strict=True):
        there = [box for box in own if box is not None]
        if there and len(there) < len(boxes):
            return math.inf
        around = hull(there)
        if around:
            most = max(most, area(around) / max(min(area(box) for box in there), _LEAST_AREA))
    return most


def check_zone(phrase: str, *, english: bool = True) -> None:
    """Refuse a zone's name that cannot stand in a sentence, "A car has appeared <name>.", as a place.

    In English it begins as a place does; a ValueError says what to write instead.
    """
    words = phrase.split()
    if not words or phrase != " ".join(words) or len(phrase) > _LONGEST or not _PHRASE.fullmatch(phrase):
        raise ValueError(f"write a few plain words without full stop, {_LONGEST} letters at most")
    if english and words[0].lower() not in _BEFORE_A_PLACE:
        raise ValueError(
            f'"A car has appeared {phrase}." is not a sentence: write the words of the place as spoken, '
            '"at the entrance", "in the lot"'
        )
