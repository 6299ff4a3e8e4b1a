"""Plain questions in English, read by a small grammar (`questions.lark`) into the same filters as options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lark import Token, Tree, UnexpectedInput

from daemon.questions.errors import SearchError
from daemon.questions.grammar import ANYTHING, GROUPED, PREPOSITIONS, VERBS, plain, question_parser, spaced
from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Question
from daemon.questions.spans import PARTS, TimeSpan, day_span, recent_span
from daemon.questions.time_of_day import MINUTES, parse_time_of_day
from daemon.questions.words import CAME, COLOURS, LEFT, OBJECT_WORDS

EXAMPLES = (
    "when did a person last come to the entrance",
    "how many lorries yesterday between 6 and 9 by hour",
    "which red cars left the lot last night",
    "show the last 5 people in dark clothes on camera front_door",
    "how many people in the last 7 days by day",
    "what happened since monday between 22:00 and 6:00",
)
"""Questions that are understood."""
_LEFT_BEHIND = re.compile(r"(?:from|out of)\b")
_ENTERED = re.compile(r"(?:to|into|toward|towards|through)\b")


@dataclass(frozen=True, slots=True)
class Asker:
    """Reads questions.

    Attributes:
        cameras: of the journals; also called by their words, "front door" for front_door.
        objects: that the journals name, beside the known nouns.
        local: in whose time zone days and hours are meant.
        is_place: whether the journals tell of a place of that name; a camera of the same name is then
            meant only where "camera" is said.
    """

    cameras: Sequence[str]
    objects: frozenset[str]
    local: LocalTime
    is_place: Callable[[str], bool]

    def read(self, question: str, now: datetime) -> Question:
        """What a question asks.

        Raises:
            SearchError: it is not understood; the message shows what is.
        """
        text = plain(question)
        try:
            tree = question_parser(self.cameras, self.objects, self.is_place).parse(text)
        except UnexpectedInput as error:
            rest = text[_where(error) :].split()
            raise _not_understood(
                question, f"{rest[0]!r} is not understood" if rest else "it ends too soon"
            ) from None
        return _Reading(self, now).of(tree, question)

    def named(self, words: str) -> list[str]:
        """The cameras that are called so: those whose name it is, else all that sound alike."""
        exact = [name for name in self.cameras if name.lower() == words]
        return exact or [name for name in self.cameras if spaced(name) == spaced(words)]


class _Reading:
    """One question on its way from a tree to filters."""

    def __init__(self, asker: Asker, now: datetime) -> None:
        self._asker, self._now, self._local = asker, now, asker.local
        self._span = TimeSpan(None, None)
        self._way = ""

    def of(self, tree: Tree[Token], question: str) -> Question:
        asked = Question()
        trees = [part for part in tree.children if isinstance(part, Tree)]
        once = [part.data for part in trees if part.data not in ("opening", "worn")]
        for name in set(once):
            if once.count(name) > 1:
                raise _not_understood(
                    question, f"it says two things of the same kind ({name}); ask them one by one"
                )
        if not trees:
            raise _not_understood(question, "it names nothing that can be looked for")
        for part in trees:
            asked = getattr(self, f"_{part.data}")(asked, part)
        filters = replace(asked.filters, since=self._span.begin, until=self._span.end)
        return replace(asked, filters=replace(filters, kinds=self._kinds(filters.kinds)))

    def _kinds(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Who goes to a place comes there, and who goes from it leaves it."""
        entered, left = _ENTERED.match(self._way), _LEFT_BEHIND.match(self._way)
        found = []
        for kind in kinds:
            if kind == "gone":
                found += [CAME if entered else LEFT if left else "moved"]
            elif kind == CAME and left:
                found += ["appeared", "moved"]
            elif kind:
                found.append(kind)
        return tuple(dict.fromkeys(found))

    def _opening(self, asked: Question, part: Tree[Token]) -> Question:
        if _words(part)[0] == "who":
            return asked if asked.filters.objects else self._with(asked, objects=("somebody",))
        return replace(asked, count=True)

    def _thing(self, asked: Question, part: Tree[Token]) -> Question:
        nouns = [str(child) for child in part.children if isinstance(child, Token)]
        painted = [str(child.children[0]) for child in part.children if isinstance(child, Tree)]
        named = tuple(dict.fromkeys(OBJECT_WORDS.get(noun, noun) for noun in nouns if noun not in ANYTHING))
        return self._with(
            asked, objects=named, colours=(*asked.filters.colours, *(COLOURS[p] for p in painted))
        )

    def _worn(self, asked: Question, part: Tree[Token]) -> Question:
        colour = next(COLOURS[word] for word in _words(part)[0].split() if word in COLOURS)
        return self._with(asked, colours=(*asked.filters.colours, colour))

    def _act(self, asked: Question, part: Tree[Token]) -> Question:
        kinds = [next(k for k, verbs in VERBS.items() if re.fullmatch(verbs, verb)) for verb in _words(part)]
        return self._with(asked, kinds=tuple(dict.fromkeys(kinds)))

    def _order(self, asked: Question, part: Tree[Token]) -> Question:
        which, *number = part.children
        last = isinstance(which, Token) and which.type == "LAST"
        return replace(
            asked, order="last" if last else "first", limit=int(str(number[0])) if number else None
        )

    def _place(self, asked: Question, part: Tree[Token]) -> Question:
        words = _words(part)[0]
        preposition = next(
            p for p in sorted(PREPOSITIONS, key=len, reverse=True) if words.startswith(p + " ")
        )
        self._way = preposition
        name = re.sub(r"^(?:the|a|an|my|our) ", "", words[len(preposition) + 1 :])
        return self._with(asked, zones=(name,))

    def _camera(self, asked: Question, part: Tree[Token]) -> Question:
        pattern = r"^(?:(?:on|at|by|from|of|in|with) )?(?:the )?(?:camera )?| camera$"
        called = (re.sub(pattern, "", word) for word in _words(part))
        return self._with(asked, cameras=tuple(name for each in called for name in self._asker.named(each)))

    def _grouping(self, asked: Question, part: Tree[Token]) -> Question:
        names = [re.sub(r"^(?:by|per|(?:for )?(?:each|every)) ", "", word) for word in _words(part)]
        return replace(asked, count=True, by=tuple(GROUPED[name] for name in names))

    def _sureness(self, asked: Question, part: Tree[Token]) -> Question:
        share = re.search(r"[\d.]+", _words(part)[0])
        value = float(share[0]) if share else 0.0
        return self._with(asked, confidence=value / 100 if value > 1 else value)

    def _said(self, asked: Question, part: Tree[Token]) -> Question:
        return self._with(asked, text='"' + _words(part)[0].split('"')[1] + '"')

    def _recent(self, asked: Question, part: Tree[Token]) -> Question:
        return self._within(asked, recent_span(_words(part)[0], self._now))

    def _on_day(self, asked: Question, part: Tree[Token]) -> Question:
        return self._within(asked, self._day(part.children[0]))

    def _days(self, asked: Question, part: Tree[Token]) -> Question:
        first, last = (self._day(child) for child in part.children)
        return self._within(asked, TimeSpan(first.begin, last.end))

    def _part_of_day(self, asked: Question, part: Tree[Token]) -> Question:
        begin, end = PARTS[_words(part)[0].split()[-1]]
        return self._with(asked, between=(60 * begin, 60 * end))

    def _hours(self, asked: Question, part: Tree[Token]) -> Question:
        first, last = _words(part)
        half = last[-2:] if last.endswith(("am", "pm")) and not first.endswith(("am", "pm")) else ""
        begin, end = parse_time_of_day(first), parse_time_of_day(last)
        if half and first.strip().split(":")[0].isdecimal() and begin <= MINUTES // 2:
            meant = parse_time_of_day(first.strip() + half) if begin else begin
            begin = meant if meant < end else begin
        return self._with(asked, between=(begin, end))

    def _since(self, asked: Question, part: Tree[Token]) -> Question:
        word, *rest = part.children
        day, clock = self._moment(rest)
        if day is None and clock is not None:
            if str(word) == "after":
                return self._with(asked, between=(clock, 0))
            today = day_span("today", self._now, self._local)
            begin = self._at(today, clock)
            return self._within(
                asked, TimeSpan(begin if begin <= self._now else begin - timedelta(days=1), None)
            )
        assert day is not None  # noqa: S101 - the grammar asks for one of the two
        begin_of = day.end if str(word) == "after" and clock is None else self._at(day, clock)
        return self._within(asked, TimeSpan(begin_of, None))

    def _until(self, asked: Question, part: Tree[Token]) -> Question:
        word, *rest = part.children
        day, clock = self._moment(rest)
        if day is None and clock is not None:
            return self._with(asked, between=(0, clock))
        assert day is not None  # noqa: S101 - the grammar asks for one of the two
        whole = day.begin if str(word) == "before" else day.end
        return self._within(asked, TimeSpan(None, whole if clock is None else self._at(day, clock)))

    def _moment(self, rest: Sequence[Token | Tree[Token]]) -> tuple[TimeSpan | None, int | None]:
        day = next((self._day(each) for each in rest if isinstance(each, Tree)), None)
        clock = next((parse_time_of_day(str(each)) for each in rest if isinstance(each, Token)), None)
        return day, clock

    def _at(self, day: TimeSpan, clock: int | None) -> datetime:
        assert day.begin is not None  # noqa: S101 - days begin
        begin = self._local.of(day.begin)
        return self._local.aware(begin.replace(tzinfo=None) + timedelta(minutes=clock or 0))

    def _day(self, part: Token | Tree[Token]) -> TimeSpan:
        return day_span(_words(part)[0] if isinstance(part, Tree) else str(part), self._now, self._local)

    def _within(self, asked: Question, span: TimeSpan) -> Question:
        begins = [moment for moment in (self._span.begin, span.begin) if moment]
        ends = [moment for moment in (self._span.end, span.end) if moment]
        self._span = TimeSpan(max(begins, default=None), min(ends, default=None))
        return asked

    def _with(self, asked: Question, **changed: object) -> Question:
        filters: Filters = replace(asked.filters, **changed)  # type: ignore[arg-type]
        return replace(asked, filters=filters)


def _where(error: UnexpectedInput) -> int | None:
    """The place of what is not understood; None, as far as a slice can begin there, for the end."""
    token = getattr(error, "token", None)
    place: int | None = error.pos_in_stream
    return 10**9 if place is None or place < 0 or (token is not None and token.type == "$END") else place


def _words(part: Tree[Token]) -> list[str]:
    return [str(token) for token in part.scan_values(lambda value: isinstance(value, Token))]


def _not_understood(question: str, reason: str) -> SearchError:
    shown = "\n".join(f"  {example}" for example in EXAMPLES)
    return SearchError(
        f"the question {question!r} cannot be answered: {reason}. What is understood, for example:\n{shown}"
    )
