"""Parses a sentence into its claim: kind of change, object, number, place, colour; by a small lexicon.

All captioners' sentences are read this way, so that type and object of a narration agree with its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from models.families import NOUNS
from models.language.templates import COLOURS
from models.papers.vocabulary import tokenize

CLASSES = {noun: name for name, nouns in NOUNS.items() for noun in nouns.split()}

# Their first word is an object's name, but a place is meant.
_PLACE_NAME = re.compile(
    r"\b(?:car (?:park|lot)|bus (?:stop|lane|shelter|station)|(?:bike|bicycle) (?:rack|lane|stand|path)|"
    r"traffic (?:light|sign|signal|cone|island)|truck stop|taxi (?:rank|stand))s?\b"
)
_QUANTITY_OF = re.compile(r"\b(?:group|crowd)s? of\b")
# "near the red car": where the change is, not what changed.
_REFERENCE = re.compile(
    r"\b(?:near|by|beside|behind|under|against|between|past|around|next to|close to|in front of|at|on|in|"
    r"from|towards?) (?:the|an?|his|her|their|its|another|some) (?:\w+ )?$"
)

_BEFORE = r"(?:before|first|earlier|original|previous|old)"
_AFTER = r"(?:after|second|later|new|latest)"
_IMAGE = r"(?:image|picture|photo|pic|frame|one|shot)s?"
_OBJECT = r"(?:person|man|woman|people|car|van|bus|truck|vehicle|one)s?"
_VERB_LEFT = (
    r"(?:(?:has|have|had|just|been|he|she|they|who|and) left(?! (?:side|half|hand|edge|corner|part|lane))|"
    r"(?<!the )(?<!on )(?<!to )(?<!far )(?<!top )(?<!upper )(?<!bottom )(?<!lower )(?<!moved )left "
    r"(?:the|its|their))"
)
_GO = (
    r"(?:moved?|moving|come|came|comes|coming|walked|walking|walks|driven|drove|driving|pulled|pulling|"
    r"stepped|rode|ridden|ran|run|rolled)"
)
_CAME = r"(?:come|came|walked|driven|ridden|run|rolled|been brought) in"
_GONE = r"(?:taken|driven|drove|walked|moved|went|pulled|carried|cleared|ridden|rode|run|ran) (?:away|off)"
_SCENE = r"(?:view|sight|frame|shot|the (?:view|scene|frame|picture|image|shot))"
_NOT = r"(?:not|isn't|aren't|wasn't|weren't)"

# The first kind with a hit decides.
_KINDS: list[tuple[str, tuple[str, ...]]] = [
    (
        "none",
        (
            r"no (?:\w+ )?(?:change|difference)s?",
            r"nothing (?:\w+ ){0,2}(?:changed|changes|moved|moves|happened|modified|different|new)",
            r"(?:is|are|looks?|remains?|seems?|stays?) (?!not )(?:\w+ )?(?:the same|identical)$",
            r"unchanged",
            r"(?:has not|have not|did not|hasn't|haven't|didn't) (?:changed?|moved?)",
            r"same (?:picture|image|scene)s?",
        ),
    ),
    (
        "appeared",
        (
            rf"{_GO} (?:in|into)(?: {_SCENE}|$)",
            rf"into {_SCENE}",
            # "has come in near the gate", but not "has come in front of the car"
            rf"(?:has|have) {_CAME}(?! (?:the|an?|front|his|her|their|its|this)\b)",
        ),
    ),
    ("disappeared", (rf"out of {_SCENE}",)),
    ("moved", (r"instead of (?:on|in|near|at|by|behind|under)",)),
    (
        "replaced",
        (
            r"replace[sd]?",
            r"replacing",
            r"swapped",
            r"in (?:its|his|her|their) place",
            r"taken (?:the|its|his|her|their) place",
            r"instead of",
            rf"(?:a|is|another) different (?:\w+ )?{_OBJECT}",
            r"turned into",
        ),
    ),
    (
        "appeared",
        (
            rf"{_NOT} (?:\w+ ){{0,5}}(?:{_BEFORE} {_IMAGE}|before|earlier|previously)",
            rf"{_NOT} (?:\w+ ){{0,3}}left {_IMAGE}",
        ),
    ),
    (
        "disappeared",
        (
            r"disappear(?:s|ed|ing)?",
            r"vanish(?:es|ed|ing)?",
            r"missing|absent|no longer|no more|nobody|removed",
            r"(?:is|are|was|were|has|have|now|been|all) gone(?! (?:to|towards?|from|across|along))",
            rf"{_NOT} (?:\w+ ){{0,2}}(?:there|here|visible|present|seen)",
            rf"{_NOT} (?:\w+ ){{0,3}}(?:{_AFTER}|right) {_IMAGE}",
            r"no (?:\w+ ){1,2}(?:is|are|remains?)(?: (?:there|here|visible|present|left|anymore)|$)",
            _VERB_LEFT,
            r"leaves (?:the|its|his|her|their)|(?:is|are) leaving|departed|departs|exit(?:s|ed)",
            rf"{_GONE}|been taken",
        ),
    ),
    (
        "moved",
        (
            r"moved|moves|moving|shifted|shifts|relocated",
            r"(?:changed|switched|different|another) (?:\w+ )?(?:place|position|location|spot)s?",
            r"(?:come|came|gone|got|is|are|now) (?:\w+ )?(?:closer|nearer|farther|further)",
            r"(?:was|were) (?:\w+ ){1,6}(?:is|are) now|approach(?:es|ed|ing)",
            r"gone (?:to|towards?|from|across|along)",
            r"(?:has|have) (?:walked|driven|ridden|run|crossed|turned|travell?ed|advanced)",
        ),
    ),
    ("fewer", (r"fewer|less (?:\w+ )?(?:people|cars|vehicles|traffic)|decreased",)),
    ("more", (r"more|additional|increased|extra",)),
    (
        "appeared",
        (
            r"appear(?:s|ed|ing)?|emerge[sd]?|arrive[sd]?|arriving|enter(?:s|ed|ing)?",
            r"new|newly|added|(?:shown|showed|turned) up",
            r"(?:is|are) now|(?:there|that) (?:is|are|s) (?:[\w'-]+ )*now",
            r"now (?:(?:\w+ ){0,2}(?:is|are|has|have)|there|here|visible|present|in|on|at)",
            rf"there (?:is|are|s) (?:[\w'-]+ )*(?:(?:{_AFTER}|right) {_IMAGE}|{_IMAGE} (?:2|two))",
            r"(?:has|have) (?:parked|stopped|pulled up|come in)|been (?:parked|placed|put)",
        ),
    ),
    ("disappeared", (rf"there (?:is|are|s) (?:[\w'-]+ )*(?:{_BEFORE}|left) {_IMAGE}", r"there (?:was|were)")),
]
TYPES = [(name, re.compile(rf"\b(?:{'|'.join(patterns)})(?![\w'-])")) for name, patterns in _KINDS]

_COLOURS = {**{name: name for name in COLOURS}, "gray": "grey", "silver": "grey"}

_PLURALS = {"people", "men", "women", "children", "kids", "guys", "ladies", "traffic", "group", "crowd"}
_COUNTING = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: n for n, word in enumerate(_COUNTING, 1)} | {"both": 2, "couple": 2, "pair": 2}

_PLACES = {
    "left": r"(?:left|leftmost)",
    "right": r"(?:right(?! now)|rightmost)",
    "top": r"(?:top|upper)",
    "bottom": r"(?:bottom|lower)",
    "middle": r"(?:middle|cent(?:er|re|ral))",
    "near": r"(?:foreground|nearest|closest|close to the camera|near (?:the camera|side|end))",
    "far": r"(?:background|distance|distant|far (?:end|away|off|back))",
}
_WHERE = [(name, re.compile(rf"\b{pattern}(?![\w'-])")) for name, pattern in _PLACES.items()]
_LEFT = re.compile(rf"\b{_VERB_LEFT}(?![\w'-])")

_DIRECTIONS = ("left", "right", "middle", "background", "foreground", "camera")
# "to the left of the car" is a place.
_WAY = re.compile(
    rf"\b(from|to|towards?) the ({'|'.join(_DIRECTIONS)})\b(?! (?:of|side|half|edge|lane|corner))"
)


@dataclass(frozen=True, slots=True)
class Wording:
    """The claim of a sentence.

    Attributes:
        type: appeared, disappeared, moved, more, fewer, replaced, none (nothing changed) or unknown.
        object: class of the first noun that is not part of a place, a key of `NOUNS`, or "unknown".
        count: how many of it; 0 where there are several without a number, or no object is named.
        places: where, of left, right, top, bottom, middle, near and far; empty where it names none. Of
            arrivals and departures "from the left" and "to the right" are directions, not places.
        colour: of the object, one of `COLOURS`; None where it names none.
    """

    type: str
    object: str
    count: int = 0
    places: frozenset[str] = frozenset()
    colour: str | None = None


def read(sentence: str) -> Wording:
    """Read a sentence; one without words claims that nothing changed."""
    text = " ".join(tokenize(sentence))
    if not text:
        return Wording("none", "unknown")
    kind = next((name for name, pattern in TYPES if pattern.search(text)), "unknown")
    where = places_in(_WAY.sub(" ", text) if kind in ("appeared", "disappeared") else text)
    bare = _PLACE_NAME.sub(" ", text)
    noun = _noun(bare)
    if noun is None:
        return Wording(kind, "unknown", 0, where)
    name = CLASSES[noun[0]]
    head = bare[: noun.start()].split()
    return Wording(
        kind,
        name,
        _count(noun[0], head),
        where,
        colour=next((_COLOURS[word] for word in reversed(head) if word in _COLOURS), None),
    )


def places_in(text: str) -> frozenset[str]:
    """The places that words name: left, right, top, bottom, middle, near, far; "has left" is none."""
    text = _LEFT.sub(" ", " ".join(tokenize(text)))
    return frozenset(name for name, pattern in _WHERE if pattern.search(text))


def _noun(text: str) -> re.Match[str] | None:
    """The noun that names what changed; in "a group of cars" the cars."""
    text = _QUANTITY_OF.sub(lambda match: " " * len(match[0]), text)
    nouns = [match for match in re.finditer(r"[\w'-]+", text) if match[0] in CLASSES]
    named = [match for match in nouns if not _REFERENCE.search(text[: match.start()])]
    return next(iter(named or nouns), None)


def _count(noun: str, head: list[str]) -> int:
    """The number nearest to the noun; without one, 1 of a singular and open of a plural."""
    numbers = (int(word) if word.isdecimal() else _NUMBERS.get(word, 0) for word in reversed(head))
    plural = noun in _PLURALS or (noun.endswith("s") and not noun.endswith("bus"))
    return next((n for n in numbers if n > plural), 0 if plural else 1)
