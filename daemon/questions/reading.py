"""The words of a question, read from left to right."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from daemon.questions.question import SearchError

NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_TOKEN = re.compile(
    r'"[^"]*"|\d{4}[-/]\d\d[-/]\d\d|\d\d?\.\d\d?\.(?:\d{4}|\d\d)(?!\d)|\d\d?/\d\d?/(?:\d{4}|\d\d)(?!\d)|'
    r"\d\d?-\d\d?-\d{4}|\d\d?\.\d\d?\.(?!\d)|\d+(?:[:.]\d+)?|"
    r"(?<=\d)(?:am|pm|st|nd|rd|th)(?=-)|[^\W\d_](?:[\w-]*\w)?(?:'[^\W\d]+)?|\S"
)
_ISO = re.compile(r"(?<=\d)t(?=\d\d:\d\d)")
_SKIPPED = set("?!,;.:()")
_CURLY = str.maketrans({"\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"})
_NUMBERS = {name: n for n, name in enumerate(NUMBERS)}
_NUMBERS |= {"a": 1, "an": 1, "couple": 2, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3}
_NUMBERS |= {"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "forty-five": 45, "fifty": 50}
_NUMBERS |= {"sixty": 60, "ninety": 90}
_UNIT_S = {"second": 1, "sec": 1, "s": 1, "minute": 60, "min": 60, "hour": 3600, "h": 3600}
_UNIT_S |= {"day": 86400, "week": 7 * 86400}
UNITS = "|".join([*_UNIT_S, "month", "year"])
_MOST = 10**6

Rewrite = tuple[str, str, str]
"""Parts of words with a bar between them, one of which stands in all that match, so that few are compiled; a
pattern of whole words; and what is read in its place."""


def either(phrases: Iterable[str]) -> str:
    """The pattern of any of these phrases, the longest first."""
    return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True))).replace(r"\ ", " ")


@dataclass(slots=True)
class Reading:
    """Lower-case words; `place` is the number of the next."""

    words: list[str]
    place: int = 0

    @classmethod
    def of(
        cls,
        question: str,
        rewrites: Iterable[Rewrite] = (),
        meant: Mapping[str, str] | None = None,
        spell: Callable[[str], str] = str,
    ) -> Reading:
        """Split a question; marks are left out, quoted text is one word.

        Args:
            question: as it was typed.
            rewrites: what is read in place of some words, one after another.
            meant: names in their patterns, and the pattern that each stands for.
            spell: gives what is read for a word.
        """
        results = _TOKEN.findall(_ISO.sub(" ", question.translate(_CURLY).lower()))
        text = " ".join(spell(word) for word in results if word not in _SKIPPED)
        outside = r'(?=[^"]*(?:"[^"]*"[^"]*)*$)' if '"' in text else ""  # of quoted words; slow to compile
        for cues, pattern, instead in rewrites:
            if any(cue in text for cue in cues.split("|")):
                for name, words in (meant or {}).items():
                    pattern = pattern.replace(name, words)  # noqa: PLW2901
                text = re.sub(rf"(?<![^ ])(?:{pattern})(?![^ ]){outside}", instead, text).strip()
        return cls(_TOKEN.findall(text))

    @property
    def next(self) -> str:
        """The next word, empty at the end."""
        return self.words[self.place] if self.place < len(self.words) else ""

    @property
    def rest(self) -> str:
        """All words that come next."""
        return " ".join(self.words[self.place :])

    @property
    def previous(self) -> str:
        """The word before, empty at the begin."""
        return self.words[self.place - 1] if self.place else ""

    def take(self, pattern: str) -> re.Match[str] | None:
        """Go past the next words if they begin with a match that ends where a word does."""
        match = re.match(rf"(?:{pattern})(?!\S)", self.rest)
        if not match or not match[0]:
            return None
        self.place += len(_TOKEN.findall(match[0]))
        return match

    def words_from(self, begin: int) -> str:
        """The words from a place up to here."""
        return " ".join(self.words[begin : self.place])

    def take_number(self) -> int | None:
        """Go past digits or a number word; "a" and "an" are one, "a few" three.

        Raises `SearchError` where it is above a million.
        """
        if not (match := self.take(rf"\d+|{either(_NUMBERS)}")):
            return None
        word = match[0]
        if word.isdecimal() and int(word) > _MOST:
            raise SearchError(f"{word} is too large a number")
        return int(word) if word.isdecimal() else _NUMBERS[word]

    def take_duration(self, *, recent: bool = False) -> timedelta | None:
        """Go past a length such as "10 min", "half an hour", "a day"; `recent` also "hour"."""
        begin = self.place
        part = self.take("half(?: an?)?|(?:an? )?quarter(?: of)? an|(?:three|3) quarters of an")
        number = None if part else self.take_number()
        more = 0.5 if number is not None and self.take("and a half") else 0.0
        unit = self.take(f"({'|'.join(_UNIT_S)})s?")
        if not unit or (number is None and not part and not recent):
            self.place = begin
            return None
        count = (1 if number is None else number) + (more or 0.5 * bool(self.take("and a half")))
        if part:
            count = 0.5 if part[0].startswith("half") else 0.75 if "quarters" in part[0] else 0.25
        return timedelta(seconds=_UNIT_S[unit[1]] * count)
