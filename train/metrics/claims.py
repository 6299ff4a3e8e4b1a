"""Whether what is said is right: type, polarity, object and place of the first sentence, and no change.

Text scores hardly punish a reversed polarity and reward a constant sentence, so these stand beside them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from models.language.vocabulary import tokenize
from models.language.wording import read

Claim = tuple[str, str, frozenset[str]]
"""Type, object and place words of a sentence."""

_ADDS, _REMOVES = ("appeared", "more"), ("disappeared", "fewer")
_PLACE = re.compile(r"\b(left|right|top|bottom|middle|center|centre|front|back|near|far)\b")


@dataclass(frozen=True, slots=True)
class Truth:
    """How many pairs with a change have a first sentence that agrees with some gold sentence.

    Shares 0..1; None where there is nothing to share.

    Attributes:
        pairs: pairs with a change that were told something.
        type: the kind of change ("more" counts as appeared, "fewer" as disappeared).
        polarity: the same of appeared and disappeared, where gold says one of them about that object.
        object: the class of the object.
        place: the place words are the same.
        all: type, object and place of one gold sentence.
        no_change_precision, no_change_recall: of pairs told nothing about, and of pairs without a change.
    """

    pairs: int
    type: float | None
    polarity: float | None
    object: float | None
    place: float | None
    all: float | None
    no_change_precision: float | None
    no_change_recall: float | None

    def plain(self) -> dict[str, float | None]:
        """As plain values for JSON, rounded to 4 places."""
        return {name: None if value is None else round(value, 4) for name, value in asdict(self).items()}


def truth(first: Sequence[str], silent: Sequence[bool], gold: Sequence[Sequence[str]]) -> Truth:
    """Compare first sentences with gold ones by the type, object and place that their words claim.

    Args:
        first: one sentence per pair.
        silent: whether nothing is told about the pair.
        gold: all gold sentences of each pair; a pair without a word in them is not judged.
    """
    right = {"type": 0, "object": 0, "place": 0, "all": 0}
    pairs = polar = polar_right = silent_right = unchanged = quiet = 0
    for text, nothing, truths in zip(first, silent, gold, strict=True):
        claims = [claim(t) for t in truths if tokenize(t)]
        if not claims:
            continue
        quiet += nothing
        changed = [c for c in claims if c[0] != "none"]
        unchanged += not changed
        silent_right += nothing and not changed
        said = claim(text)
        if not changed or said[0] == "none":
            continue
        pairs += 1
        for position, name in enumerate(("type", "object", "place")):
            right[name] += any(said[position] == c[position] for c in changed)
        right["all"] += said in changed
        signs = {c[0] for c in changed if c[1] == said[1] and c[0] in ("appeared", "disappeared")}
        if signs and said[0] in ("appeared", "disappeared"):
            polar += 1
            polar_right += said[0] in signs
    shares = {name: _share(n, pairs) for name, n in right.items()}
    return Truth(
        pairs=pairs,
        **shares,
        polarity=_share(polar_right, polar),
        no_change_precision=_share(silent_right, quiet),
        no_change_recall=_share(silent_right, unchanged),
    )


def told_truth(predicted: Sequence[str], gold: Sequence[Sequence[str]]) -> Truth:
    """`truth` of bare captions: one that says that nothing changed is silence."""
    return truth(predicted, [claim(text)[0] == "none" for text in predicted], gold)


def claim(text: str) -> Claim:
    """What a sentence says; "more" is read as appeared, "fewer" as disappeared."""
    wording = read(text)
    kind = wording.type
    kind = "appeared" if kind in _ADDS else "disappeared" if kind in _REMOVES else kind
    return kind, wording.object, frozenset(_PLACE.findall(" ".join(tokenize(text))))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
