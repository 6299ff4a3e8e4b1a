"""Words as the field's scorers count them: the PTB tokeniser in Python.

The published scores of captions are counted on the tokens of Stanford's PTBTokenizer (CoreNLP 3.4.1, options
``-preserveLines -lowerCase``), punctuation taken out, as pycocoevalcap does. That is a Java program; this is
its behaviour on captions, so that training needs no Java. It gives the same tokens on every one of the 20,571
distinct sentences of Spot-the-diff, and on the usual contractions, quotes, brackets, numbers, abbreviations,
dashes and symbols (a test compares both). Known differences: rare abbreviations,
text of other scripts, and a caption that ends in "no." or a single letter and full stop, where the Java
program looks into the next caption.
"""

import re
from functools import lru_cache

_PLAIN = str.maketrans(
    "\u2018\u2019\u201b`\u00b4\u201c\u201d\u2013\u2010\u2011\u00a3\u20ac\u00a0", "'''''\"\"\u2014--#$ "
) | {0x2026: " ... "}

_TITLES = "mr mrs ms dr drs prof profs sen rep lt col gen gov adm rev maj sgt cpl pvt capt st ste ave pres"
_COMPANIES = "inc co cos corp ltd plc dept assn univ"
_TIMES = "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri"
_OTHERS = "etc vs al seq bldg blvd rd"
_ABBREVIATIONS = "|".join(f"{_TITLES} {_COMPANIES} {_TIMES} {_OTHERS}".split())

_TOKEN = re.compile(
    rf"""
    https?://\S+ | [\w.+-]+@[\w-]+(?:\.[\w-]+)+        # addresses stay whole
    | <[a-z/][^<>\s]*>                                 # tags, too
    | (?<!\w)(?:{_ABBREVIATIONS})\.(?!\w)
    | (?<!\w)no\.(?=\s*\d)
    | (?<![\w.])(?:[a-z]\.)+(?:[a-z](?!\w))?           # u.s., p.m., i.e.
    | \.?\d+(?:[.,:/]\d+)+(?:'s)?(?![\w-]) | (?<!\w)\.\d+     # 1,000  3.5  12:30  1/2
    | [^\W_](?:\w|(?:[-/'&]|[.?!](?=[a-z]))(?=\w))*(?:\.(?=[,;]))?   # words, with what joins their parts
    | (?<![\w'])'(?:s|em|til|cause|n|\d\ds|tis|twas)(?![\w'])'?
    | [:;]-?[()]                                       # faces
    | \.\.+ | [?!]+ | -+ | \u2014 | .
    """,
    re.VERBOSE,
)

_NOT_COUNTED = frozenset(
    ("''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";", '"', "\u2014")
)
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
_FACES = {f"{eyes}{mouth}": f"{eyes}{_BRACKETS[mouth]}" for eyes in (":", ":-", ";", ";-") for mouth in "()"}
_NAMES = {**_BRACKETS, **_FACES}
"""Scorers take the capital names of brackets out, but the text is in small letters by then: they count."""

_JOINED = {
    parts.replace(" ", ""): tuple(parts.split())
    for parts in ("can not", "gon na", "got ta", "wan na", "gim me", "lem me", "'t is", "'t was")
}
_ENDING = re.compile(r"(.+)('(?:s|re|ve|ll|d|m))")
_NEGATION = re.compile(r"(.+)(n't)")
_WHOLE = re.compile(r"(?:[odl]'\w+|ma'am|ne'er|e'er|'\w+)")
_MIDDLE = re.compile(r"(\w+)('n')(\w+)")


@lru_cache(maxsize=100_000)
def ptb_tokens(text: str) -> tuple[str, ...]:
    results: list[str] = []
    for match in _TOKEN.finditer(text.translate(_PLAIN).lower()):
        token = match[0]
        if token.isspace() or token in _NOT_COUNTED or not token.strip("-"):
            continue
        if token[0] == "." and not token.strip("."):
            continue
        if "'" in token and not token.endswith("."):
            results += _split(token)
        else:
            results += _JOINED.get(token, (_NAMES.get(token, token),))
    return tuple(results)


def _split(word: str) -> list[str]:
    if word in _JOINED:
        return list(_JOINED[word])
    word = word.removesuffix("'") if word != "'n'" else word
    for pattern in (_NEGATION, _ENDING):
        if parts := pattern.fullmatch(word):
            return [*_split(parts[1]), parts[2]]
    if parts := _MIDDLE.fullmatch(word):
        return list(parts.groups())
    if _WHOLE.fullmatch(word):
        return [word]
    return [part for part in word.split("'") if part]
