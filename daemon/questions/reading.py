"""The words of a question with a place in them, and the errors that name a word."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from daemon.questions.errors import SearchError

_TOKEN = re.compile(
    r'"[^"]*"|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4}|\d{1,2}\.\d{1,2}\.(?!\d)|\d+(?:[:.]\d+)?|'
    r"[^\W\d_](?:[\w-]*\w)?(?:'[^\W\d]+)?|\S"
)
_SKIPPED = set("?!,;.:()")
_CURLY = str.maketrans({"\u2019": "'", "\u201c": '"', "\u201d": '"'})
NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_MOST = 10**6


@dataclass(slots=True)
class Reading:
    """Lower-case words of a question, read from left to right.

    Attributes:
        place: number of the next word.
    """

    words: list[str]
    place: int = 0

    @classmethod
    def of(cls, question: str) -> Reading:
        """Split a question; marks are left out, quoted text is one word."""
        text = question.translate(_CURLY).lower().replace("what's", "what is").replace("who's", "who is")
        return cls([word for word in _TOKEN.findall(text) if word not in _SKIPPED])

    @property
    def next(self) -> str:
        """The next word, empty at the end."""
        return self.words[self.place] if self.place < len(self.words) else ""

    def at(self, phrase: str) -> bool:
        """True where the next words are these."""
        wanted = phrase.split()
        return self.words[self.place : self.place + len(wanted)] == wanted

    def take(self, *phrases: str) -> str:
        """Go past the first of some phrases that comes next; empty where none does."""
        for phrase in phrases:
            if self.at(phrase):
                self.place += len(phrase.split())
                return phrase
        return ""

    def take_one_of(self, words: Collection[str]) -> str:
        """Go past the next word if it is one of these; else empty."""
        word = self.next
        if word and word in words:
            self.place += 1
            return word
        return ""

    def take_match(self, pattern: str) -> re.Match[str] | None:
        """Go past the next word if all of it matches."""
        found = re.fullmatch(pattern, self.next) if self.next else None
        self.place += found is not None
        return found

    def take_number(self) -> int | None:
        """Go past digits or a number word up to twelve; "a" and "an" are one, "a few" three."""
        if self.take("a few", "few"):
            return 3
        if self.take_one_of(("a", "an")):
            return 1
        if word := self.take_one_of(NUMBERS):
            return NUMBERS.index(word)
        if found := self.take_match(r"\d+"):
            if int(found[0]) > _MOST:
                raise SearchError(f"{found[0]} is too large a number")
            return int(found[0])
        return None

    def take_pattern(self, pattern: str) -> re.Match[str] | None:
        """Go past the next words if, joined by blanks, they begin with a match of whole words."""
        found = re.match(rf"(?:{pattern})(?!\S)", " ".join(self.words[self.place :]))
        if not found or not found[0]:
            return None
        self.place += len(found[0].split())
        return found

    def said(self, begin: int) -> str:
        """The words from a place on, up to here."""
        return " ".join(self.words[begin : self.place])
