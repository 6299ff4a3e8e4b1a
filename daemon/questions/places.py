"""Places as sentences name them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daemon.questions.words import CAME, LEFT

_PLACE = re.compile(
    r"(?:(?:in|on|at|by|near|to|from|of|into|towards?|behind|beside|before|under|outside|inside|around) )?"
    r"(?:the |an? )?(?P<name>.+)",
    re.IGNORECASE,
)
_PREPOSITIONS = (
    "above|across|along|alongside|among|around|at|before|behind|below|beneath|beside|between|beyond|by|close|crossed|"
    "down|from|in|inside|into|near|next|of|on|opposite|outside|over|past|round|through|to|toward|towards|under|"
    "underneath|up|within"
)
_ADVERBS = {"downstairs", "upstairs", "indoors", "outdoors", "inside", "outside"}
"""Zones that need no word before them."""


class RecordPlace:
    """A zone as sentences name it."""

    def __init__(self, words: str) -> None:
        name = re.escape(" ".join(place_name(words).lower().split()))
        before = (
            "" if name in _ADVERBS else rf"(?:{_PREPOSITIONS}) (?:the |an? )?(?:(?!ha[sv]|is |are )[\w'-]+ )?"
        )
        self._named = re.compile(rf"(?<![\w-]){before}{name}(?![\w-])")
        self._end = re.compile(
            rf"\b(?:now|to|into|towards?|stopped|parked)(?: [a-z]+){{0,2}}? {name}(?![\w-])"
        )

    def holds(self, text: str, kind: str, kinds: Sequence[str]) -> bool:
        """True of a sentence about the place; of what moved, where it came there, or went from there."""
        text = text.lower()
        if self._named.search(text) is None:
            return False
        if kind != "moved" or kind in kinds or not {CAME, LEFT} & {*kinds}:
            return True
        return (CAME if self._end.search(text) else LEFT) in kinds


def place_name(words: str) -> str:
    """The words of a place without their preposition and article."""
    named = _PLACE.fullmatch(words.strip())
    return named["name"] if named else words
