"""The grammar of plain questions (`questions.lark`), filled with words and with the names of the cameras."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import resources

from lark import Lark

from daemon.questions.spans import DAY_PATTERN, NUMBERS
from daemon.questions.words import CAME, COLOURS, LEFT, OBJECT_WORDS

VERBS = {
    CAME: r"(?:c[ao]me|comes|coming) in(?:side)?"
    r"(?=$| (?:yesterday|today|tonight|last|this|since|between|before|after) )|"
    r"c[ao]me|comes|coming|arriv(?:e|es|ed|ing)|appear(?:s|ed|ing)?|enter(?:s|ed|ing)?|"
    r"(?:turn|show)(?:ed|s|n)? up",
    LEFT: r"left|leav(?:e|es|ing)|disappear(?:s|ed|ing)?|vanish(?:es|ed|ing)?|depart(?:s|ed|ing)?|"
    r"(?:went|gone?|dr[oi]ven?|walk(?:ed)?|ride|rode|ridden|r[au]n|moved?) (?:away|off)|"
    r"exit(?:s|ed)?|taken away",
    "gone": r"went|goe?s?|gone|going|walk(?:s|ed|ing)?|dr[oi]ve[sn]?|driving|runs?|ran|rode|rides?|"
    r"moved?|moves|moving",
    "moved": r"cross(?:es|ed|ing)?|pass(?:es|ed|ing)?(?: (?:by|through))?",
    "replaced": r"replaced?|swapped",
    "more": r"more",
    "fewer": r"fewer",
    "light_changed": r"light(?:s|ing)? (?:has |have )?changed?|change of light",
    "view_changed": r"view (?:has )?changed?|camera (?:was |has )?(?:turned|moved)",
    "obstructed": r"(?:view|camera|lens) (?:was |is |has been )?(?:blocked|obstructed|covered)",
    "": r"seen|see|noticed|been|be|happen(?:s|ed)?|chang(?:e|es|ed)|visit(?:s|ed)?",
}
"""Kind of change to the verbs for it; "gone" depends on where to, and the last ones name no kind."""

ANYTHING = ("something", "anything", "everything", "narrations", "narration", "changes", "events", "things")
PREPOSITIONS = (
    *("into", "towards", "toward", "to", "at", "inside", "in", "onto", "on", "near", "next to", "by", "from"),
    *(
        "out of",
        "behind",
        "beside",
        "in front of",
        "outside",
        "under",
        "through",
        "around",
        "along",
        "opposite",
    ),
)
_PLACED_VERB = re.compile(
    r"(left|leaves|leave|entered|enters|enter|crossed|passed|visited|exited) (?=the |a |our |my )"
)
GROUPED = {
    **{
        name: name
        for name in ("hour", "day", "week", "month", "weekday", "camera", "object", "kind", "colour")
    },
    "hour of the day": "hour-of-day",
    "hour of day": "hour-of-day",
    "day of the week": "weekday",
    "color": "colour",
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
}
_CLOCK = r"\d{1,2}(?:[:.]\d\d)? ?(?:am|pm|o'clock)?|noon|midday|midnight"
_SHARE = r"0?\.\d+|\d{1,3} ?(?:%|percent)"
_STOPS = (
    "did does do was were is are has have had that which who when the last first latest past yesterday "
    "today tonight this since after before until till between during within over hour hours day days "
    "week month camera by per each every hourly daily on at in from to and or morning afternoon evening "
    "night left came come comes went gone seen ever not no without with surer confidence how many often "
    "most recently ago monday tuesday wednesday thursday friday saturday sunday appeared arrived a "
    "disappeared moved about saying for weekday into near behind"
)
"""Words that are in no place's name."""
_NEVER = "\x00"


def question_parser(cameras: Sequence[str], objects: frozenset[str], is_place: Callable[[str], bool]) -> Lark:
    """What parses questions; the arguments are those of `daemon.questions.asker.Asker`."""
    nouns = {*OBJECT_WORDS, *ANYTHING, *(name.lower() for name in objects)} - {"who", "scene"}
    taken = nouns | set(COLOURS) | set(_STOPS.split()) | {"more", "fewer"}
    called = [
        f"(?:the )?camera {_loose(name)}"
        if spaced(name) in taken or is_place(spaced(name)) or spaced(name).isdecimal()
        else f"(?:the )?(?:camera )?{_loose(name)}"
        for name in sorted(cameras, key=len, reverse=True)
    ]
    filled = {
        "nouns": _either(nouns),
        "colours": _either(COLOURS),
        "verbs": "|".join(VERBS.values()),
        "cameras": "|".join(called) or _NEVER,
        "prepositions": _either(PREPOSITIONS),
        "stops": _either({*_STOPS.split(), *NUMBERS}),
        "number": rf"(?:\d+|{'|'.join(NUMBERS)}|few)",
        "days": DAY_PATTERN,
        "clock": _CLOCK,
        "groupings": _either(GROUPED),
        "share": _SHARE,
    }
    text = resources.files(__package__).joinpath("questions.lark").read_text(encoding="utf-8")
    for name, pattern in filled.items():
        text = text.replace(f"<{name}>", pattern.replace("/", r"\/"))
    return _parser(text)


@lru_cache(maxsize=4)
def _parser(grammar: str) -> Lark:
    return Lark(grammar, parser="lalr", start="question")


def plain(question: str) -> str:
    """Lower case but for what is quoted, without marks, and "left the lot" with its preposition."""
    quoted = question.replace("\N{LEFT DOUBLE QUOTATION MARK}", '"').replace(
        "\N{RIGHT DOUBLE QUOTATION MARK}", '"'
    )
    text = " ".join(
        re.sub(
            r"[?!,;]|\.(?=\s|$)", " ", quoted.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        ).split()
    )
    found = _PLACED_VERB.search(text)
    if found is None:
        return text
    way = (
        {"e": "to", "v": "to", "l": "from"}.get(found[1][0], "at")
        if not found[1].startswith("exit")
        else "from"
    )
    return f"{text[: found.end()]}{way} {text[found.end() :]}"


def _loose(name: str) -> str:
    """A camera's name, also with blanks."""
    return "[ _.-]".join(re.escape(part) for part in re.split(r"[_.-]", name.lower()))


def spaced(name: str) -> str:
    """A camera's name in lower case, with blanks for its marks."""
    return " ".join(re.split(r"[ _.-]", name.lower()))


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(word).replace(r"\ ", " ") for word in sorted(words, key=len, reverse=True))
