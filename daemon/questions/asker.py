"""Plain questions in English, read word by word into the filters of options."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from importlib import resources
from typing import Any

from daemon.questions.errors import NoJournalsError, SearchError
from daemon.questions.local_time import LocalTime
from daemon.questions.question import GROUPINGS, TIME_GROUPINGS, Question
from daemon.questions.reading import NUMBERS, Reading
from daemon.questions.spans import MONTHS, PARTS, Span, take_duration
from daemon.questions.words import CAME, COLOURS, GROUPS, LEFT, NOUNS, OBJECT_WORDS

_LEXICON: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8")
)
_KIND_OF: dict[str, str] = {
    verb: kind for kind, verbs in _LEXICON["verbs"].items() for verb in verbs.split("|")
}
_LONGEST_FIRST = sorted(_KIND_OF, key=len, reverse=True)
_WORDS = {name: tuple(words.split("|")) for name, words in _LEXICON["words"].items()}
_PREPOSITIONS, _PICTURE, _FILLERS = _WORDS["prepositions"], _WORDS["picture"], _WORDS["fillers"]
_UNKNOWABLE = {word: each["reason"] for each in _LEXICON["unknowable"] for word in each["words"].split("|")}
_PRESENT = ("is", "are")
_GROUPINGS = {
    "hour of the day": "hour-of-day",
    "hour of day": "hour-of-day",
    "day of the week": "weekday",
    "change": "kind",
    **{name: name for name in GROUPINGS if name not in ("hour-of-day", "kind")},
}
_TIMES = ("yesterday", "today", "between", "since", "before", "after", *PARTS, *MONTHS)
_STOPS = {*_FILLERS, *_KIND_OF, *_TIMES, "on", "in", "at", "to"}


@dataclass(frozen=True, slots=True)
class Asker:
    """Reads questions.

    Attributes:
        cameras: of the journals; also called by their words, "front door" for front_door.
        objects: that the journals name, beside the known nouns.
        local: in whose time zone days and hours are meant.
        names_place: True of a place in the journals; a camera of that name needs the word "camera" then.
        places: gives the places that the journals tell of.
    """

    cameras: Sequence[str]
    objects: frozenset[str]
    local: LocalTime
    names_place: Callable[[str], bool]
    places: Callable[[], list[str]] = list

    def read(self, question: str, now: datetime) -> Question:
        """What a question asks.

        Raises:
            SearchError: it is not understood; the message names the word, and what is nearest.
        """
        if not self.cameras:
            raise NoJournalsError("there are no narrations yet: ask when the first one is there")
        try:
            return _Parser(self, Reading.of(question), now).question()
        except SearchError as error:
            examples = "".join(f"\n  {example}" for example in self.examples())
            reason = f"the question {question!r} cannot be answered: {error}"
            raise SearchError(f"{reason}. Understood here, for example:{examples}") from None

    def examples(self) -> list[str]:
        """Questions that are understood here."""
        camera, place = self.cameras[0] if self.cameras else "yard", next(iter(self.places()), "")
        return [
            "how many people came in today",
            f"which vehicles were on camera {camera} between 9 am and 5 pm yesterday",
            f"when did a person last come {f'to the {place}' if place else 'in'}",
            "what happened last night",
            "busiest hour yesterday",
        ]

    def camera_names(self) -> list[tuple[list[str], str]]:
        """The words of each camera, and its name; the most words first."""
        spaced = [(re.split(r"[ _.-]", name.lower()), name) for name in self.cameras]
        whole = [([name.lower()], name) for name in self.cameras]
        return sorted(spaced + whole, key=lambda each: -len(each[0]))


@dataclass(slots=True)
class _Parser:
    """One question on its way to filters."""

    asker: Asker
    read: Reading
    now: datetime
    asked: Question = field(default_factory=Question)
    span: Span = field(init=False)
    direction: str = ""
    present: bool = False
    past: bool = False
    conjunction: bool = False
    known: bool = False
    after_verb: bool = False
    after_noun: bool = False

    def __post_init__(self) -> None:
        self.span = Span(self.read, self.now, self.asker.local)
        self.asked = replace(self.asked, asked_at=self.now)

    def question(self) -> Question:
        named = {word for words, _ in self.asker.camera_names() for word in words}
        for word in self.read.words:
            if word in _UNKNOWABLE and word not in named and word not in NUMBERS:
                raise self._not_understood(word)
        parts = (
            *(self._scene, self._grouping, self._camera, self._length, self._sureness, self._wanted),
            *(self._span, self._order, self._colour, self._verb, self._noun, self._place, self._quoted),
            self._filler,
        )
        while word := self.read.next:
            begin = self.read.place
            for part in parts:
                if part():
                    break
                self.read.place = begin
            else:
                raise self._not_understood(word)
            self.conjunction = self.read.words[self.read.place - 1] in ("and", "or")
            self.after_verb = part == self._verb or (self.after_verb and self.conjunction)
            self.after_noun = part == self._noun or (self.after_noun and self.conjunction)
        if not self.known and not self.span.said:
            word = self.read.words[-1] if self.read.words else ""
            raise SearchError(f"{word!r} names nothing that can be looked for" if word else "it is empty")
        return self._whole()

    def _whole(self) -> Question:
        asked, span = self.asked, self.span
        span.every = span.every or "day" in asked.by  # "daily between 8 and 9"
        since, until, between = span.bounds()
        if asked.order == "first" and not span.said:
            today = Span(Reading(["today"]), self.now, self.asker.local)
            today.take()
            since, until, between = today.bounds()
        timed = bool(span.said)
        filters = replace(asked.filters, since=since, until=until, between=between)
        if filters.kinds and (self.present or asked.open) and not (self.past or timed):
            kind = filters.kinds[0]
            state = "open" if kind == "opened" else kind
            raise SearchError(f"what is {state} now is not known; ask when it {kind}")
        lasting = asked.open or (self.present and not self.past and bool(filters.objects))
        if asked.open and timed and not self.past and filters.kinds != (CAME,):
            raise SearchError("'still' goes with no time: ask who was there then, or who is still there")
        came = asked.open and filters.kinds == (CAME,)  # "came yesterday and is still there"
        things = filters.objects or "there" in self.read.words
        presence = bool(things) and not filters.kinds and not {*asked.by} & {*TIME_GROUPINGS}
        asked = replace(asked, open=lasting and (came or not timed), presence=presence)
        return replace(asked, filters=filters)

    # Parts of a question: each reads on and is true, or is false

    def _scene(self) -> bool:
        """The camera itself, its view, or the light."""
        read = self.read
        read.take("the")
        noun = read.take_one_of(_WORDS["scene"])
        if not noun:
            return False
        if read.take("of"):
            read.take("the")
            if not self._named_camera():
                return False
        kinds = []
        while True:
            read.take("has", "have", "was", "is", "been", "or", "and")
            verb = read.next
            found = next((kind for kind in ("view_changed", "obstructed") if verb in _WORDS[kind]), "")
            if not found:
                break
            if noun.startswith("light") and verb in ("change", "changed"):
                found = "light_changed"
            elif noun == "camera" and verb in ("change", "changed"):
                break
            kinds.append(found)
            read.place += 1
        if kinds:
            self._add(kinds=tuple(kinds))
        return bool(kinds)

    def _camera(self) -> bool:
        read = self.read
        begin = read.place
        preposition = read.take(*_PREPOSITIONS, "of", "with")
        read.take("the")
        if not self._named_camera(said=bool(read.take("camera", "cameras")), preposition=preposition):
            read.place = begin
            return False
        while True:
            begin = read.place
            if not read.take("and", "or"):
                break
            read.take("the")
            if not self._named_camera(said=bool(read.take("camera"))):
                read.place = begin
                break
        if read.next in _WORDS["obstructed"] and read.words[read.place - 1] == "camera":
            read.place -= 1
        return True

    def _named_camera(self, *, said: bool = False, preposition: str = "") -> bool:
        read, found = self.read, list[str]()
        begin = read.place
        for words, name in self.asker.camera_names():
            longest = not found or len(words) == read.place - begin
            if longest and name not in found and read.words[begin : begin + len(words)] == words:
                found.append(name)
                read.place = begin + len(words)
        if not found:
            if said and read.next and read.next not in _FILLERS:
                raise self._unknown_name(read.next, "camera", self.asker.cameras)
            return False
        name = read.said(begin)
        said = bool(read.take("camera", "cameras")) or said
        taken = name in OBJECT_WORDS or name in COLOURS or name.isdecimal() or name in self.asker.objects
        subject = not said and not preposition and read.next in _KIND_OF
        if not said and (
            subject or taken or (not preposition and name in _KIND_OF) or self.asker.names_place(name)
        ):
            read.place = begin
            return False
        self._add(cameras=tuple(found))
        return True

    def _length(self) -> bool:
        read = self.read
        read.take("for", "that stayed", "who stayed")
        sign = read.take(*_WORDS["longer"], *_WORDS["shorter"])
        if not sign:
            return False
        length = take_duration(read)
        if length is None:
            if sign in ("longer than", "shorter than"):
                raise SearchError(f"{read.next!r} is no length: write {sign} 10 minutes")
            return False
        self._add(**{"longer_s" if sign in _WORDS["longer"] else "shorter_s": length.total_seconds()})
        return True

    def _sureness(self) -> bool:
        read = self.read
        read.take("that are", "which are", "who are", "with")
        read.take("at least", "surer than", "confidence of", "confidence above", "confidence")
        found = read.take_match(r"\d+(?:\.\d+)?")
        if not found:
            return False
        sign = read.take("%", "percent")
        if not sign and not found[0].startswith("0."):
            return False
        read.take("sure", "confidence")
        share = float(found[0]) / (100 if sign else 1)
        if share > 1:
            raise SearchError(f"{found[0]}% is more than sure")
        self._add(confidence=share)
        return True

    def _grouping(self) -> bool:
        read, by = self.read, list[str]()
        adverbs = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}
        if adverb := read.take_one_of(adverbs):
            by.append(adverbs[adverb])
        elif word := read.take("by", "per", "for each", "for every", "each"):
            if word == "by" and read.next == "kind":
                raise SearchError("'kind' may be of things or of changes: write by object, or by change")
            while name := read.take(*_GROUPINGS):
                if name == "camera" and self._named_camera():
                    return False
                by.append(_GROUPINGS[name])
                begin = read.place
                if not read.take("and"):
                    break
                read.take(word)
                if not any(read.at(name) for name in _GROUPINGS):
                    read.place = begin
                    break
        if by:
            self.known = True
            self.asked = replace(self.asked, count=True, by=(*self.asked.by, *by))
        return bool(by)

    def _wanted(self) -> bool:
        """How many, how long, which camera most, the busiest hour."""
        read = self.read
        if read.take("how many times", "how many", "how often", "count", "number of"):
            self.asked = replace(self.asked, count=True)
            return True
        if read.take("how long"):
            read.take("ago")
            self.asked = replace(self.asked, durations=True)
            self.present |= read.next in ("has", "have")
            return True
        if read.next == "how":
            following = read.words[read.place + 1] if read.place + 1 < len(read.words) else "how"
            raise self._not_understood(following, ("many", "long", "often"))
        begin = read.place
        read.take("what", "the", "on", "at")
        read.take("was the", "is the")
        if read.take("busiest"):
            unit = read.take(*_GROUPINGS)
        elif read.take("which", "what"):
            unit = read.take(*_GROUPINGS)
            rest = read.words[read.place :]
            if unit and {"most", "busiest"} & {*rest}:
                read.words[read.place :] = [
                    w for w in rest if w not in ("saw", "had", "the", "most", "busiest", "was")
                ]
            else:
                unit = ""
        else:
            unit = ""
        if not unit:
            read.place = begin
            return False
        self.known = True
        self.asked = replace(self.asked, count=True, most=True, by=(_GROUPINGS[unit],))
        return True

    def _order(self) -> bool:
        read = self.read
        read.take("the")
        if read.take("longest"):
            self.asked, self.known = replace(self.asked, order="longest"), True
            return True
        order = read.take(*_WORDS["last"], *_WORDS["first"])
        if not order:
            return False
        if self.asked.order != "all":
            raise SearchError(f"{order!r} is a second order: ask for one at a time")
        if read.take("of") and read.next in MONTHS:
            raise SearchError(f"{order} of {read.next!r} may be a day: write 1 {read.next.capitalize()}")
        limit = read.take_number()
        read.take("time")
        self.asked = replace(self.asked, order="first" if order in _WORDS["first"] else "last", limit=limit)
        return True

    def _colour(self) -> bool:
        read = self.read
        worn = read.take("in", "wearing", "dressed in")
        begin = read.place
        colour = read.take_one_of(COLOURS)
        if not colour or (not worn and not read.next) or (colour in ("light", "dark") and not worn):
            read.place = begin
            return False
        read.take("clothes", "clothing")
        if self.asked.filters.objects and not worn:
            raise SearchError(f"{colour!r} is of one thing of several: ask for one at a time")
        self._add(colours=(COLOURS[colour],))
        return True

    def _verb(self) -> bool:
        read = self.read
        before = read.words[read.place - 1] if read.place else ""
        verb = read.take(*_LONGEST_FIRST) or read.take_one_of(_WORDS["going"])
        if not verb:
            return False
        kind = self._kind_of(verb)
        kinds = self.asked.filters.kinds
        if kinds and kind not in kinds and not self.after_verb:
            raise SearchError(f"{verb!r} is a second act with words of its own: ask for one at a time")
        if kinds and kind not in kinds and before == "and" and read.words[0] != "when":
            raise SearchError(
                f"'and {verb}' may mean both acts or either: write or, or ask for one at a time"
            )
        if kind == "parked" and before in ("were", "was", "is", "are"):
            raise SearchError("'parked' is when a car parked: ask which cars were there")
        if kind in ("got_in", "got_out"):
            read.take("of")
            if read.take("a", "the", "an") and not read.take_one_of([n for n in OBJECT_WORDS if n != "who"]):
                raise self._not_understood(read.next)
        self.direction = kind if kind in (CAME, LEFT) else ""
        self.past |= verb not in ("open", "closed", "close", "shut", "parked")
        self._add(kinds=(kind,) if kind else ())
        begin = read.place
        if kind in (CAME, LEFT) and read.take("the"):  # "left the lot", "entered the lobby"
            if self._named_camera():
                return True
            read.place = begin
            if not self._named_place("the"):
                read.place = begin
        return True

    def _kind_of(self, verb: str) -> str:
        """The kind of a verb; of "went" by where to, empty of "went past"."""
        if verb in _KIND_OF:
            return _KIND_OF[verb]
        if self.read.next in _WORDS["to"]:
            return CAME
        if self.read.next in ("from", "out"):
            return LEFT
        if not self.read.take("past", "by", "through"):
            raise SearchError(f"{verb!r} needs where to, or from where: write {verb} to the entrance")
        return ""

    def _noun(self) -> bool:
        read = self.read
        read.take("the", "a", "an")
        word = read.next
        known = {name.lower() for name in self.asker.objects} - {"scene"}
        noun = word if word in OBJECT_WORDS or word in known else word.removesuffix("s")
        if word in NUMBERS or word in _UNKNOWABLE or not (noun in OBJECT_WORDS or noun in known):
            return False
        if word == "who" and self.asked.filters.objects:  # "people who"
            read.place += 1
            return True
        name = OBJECT_WORDS.get(noun, noun)
        if noun in NOUNS.get(name, ()) and not noun.startswith(name) and noun not in _WORDS["same"]:
            raise SearchError(f"{word!r} is not told apart from others: ask for {name}")
        objects = self.asked.filters.objects
        if objects == ("somebody",) and name in GROUPS["somebody"] and "who" in read.words[: read.place]:
            self.asked = replace(self.asked, filters=replace(self.asked.filters, objects=()))
        elif objects and not (self.conjunction and self.after_noun) and name not in objects:
            raise SearchError(f"{word!r} is a second thing: join things with and, or ask for one at a time")
        read.place += 1
        self._add(objects=(name,))
        return True

    def _span(self) -> bool:
        if self.read.take(*_WORDS["now"]):
            self.known = True
            self.asked = replace(self.asked, open=True)
            return True
        if self.read.take("happening"):
            ten = Span(Reading(["last", "10", "minutes"]), self.now, self.asker.local)
            ten.take()
            self.span.since, self.present = ten.since, False
            self.span.said.append("in the last 10 minutes")
            return True
        begin = self.read.place
        if self.conjunction and self.read.next in OBJECT_WORDS:
            return False
        if self.span.take():
            return True
        self.read.place = begin
        return False

    def _place(self) -> bool:
        read = self.read
        preposition = read.take(*_PREPOSITIONS)
        if not preposition:
            return False
        if preposition == "to" and read.next in _KIND_OF:  # "the last car to leave"
            return True
        if preposition in ("to", "from", "out of", "into") and read.next in NUMBERS:
            return False
        return self._named_place(preposition)

    def _named_place(self, preposition: str) -> bool:
        read = self.read
        article = bool(read.take("the", "a", "an", "my", "our")) or preposition == "the"
        begin = read.place
        if not read.next:
            return False
        for length in (3, 2, 1):
            words = read.words[begin : begin + length]
            name = " ".join(words)
            if len(words) < length:
                continue
            if name in _PICTURE or (not set(words) & _STOPS and self.asker.names_place(name)):
                read.place = begin + length
                self._set_place(name, preposition)
                return True
        if preposition == "the" or (not article and read.next in _FILLERS):
            read.place = begin
            return False
        raise self._unknown_name(read.next, "place", self.asker.places())

    def _set_place(self, name: str, preposition: str) -> None:
        if self.asked.filters.zones and not self.conjunction:
            raise SearchError(f"{name!r} is a second place: ask for one at a time")
        if preposition in _WORDS["to"] and self.direction == LEFT:
            raise SearchError(f"who left to {name!r} is not known: ask who came there")
        if preposition in _WORDS["from"] and self.direction == CAME:
            raise SearchError(f"who came from {name!r} is not known: ask who left there")
        self._add(zones=(name,))

    def _quoted(self) -> bool:
        read = self.read
        read.take("saying", "with the words", "with the word", "that say", "about")
        if not (found := read.take_match(r'"[^"]+"')):
            return False
        self._add(text=found[0])
        return True

    def _filler(self) -> bool:
        read = self.read
        if read.take_one_of(_PRESENT):
            self.present = True
            return True
        word = read.take_one_of(_FILLERS)
        self.known |= word in _WORDS["everything"]
        self.past |= word in ("was", "were", "did", "had")
        return bool(word)

    # What they share

    def _add(self, **more: object) -> None:
        self.known = True
        filters = self.asked.filters
        for name, value in more.items():
            before = getattr(filters, name)
            joined = tuple(dict.fromkeys((*before, *value))) if isinstance(value, tuple) else value
            if not isinstance(value, tuple) and before not in (None, ""):
                raise SearchError(f"it says two of the same kind ({value}); ask them one by one")
            filters = replace(filters, **{name: joined})  # type: ignore[arg-type]
        self.asked = replace(self.asked, filters=filters)

    def _not_understood(self, word: str, instead: Sequence[str] = ()) -> SearchError:
        if reason := _UNKNOWABLE.get(word):
            return SearchError(f"{word!r} cannot be asked for: {reason}")
        if word in NUMBERS or word.isdecimal():
            return SearchError(
                f"{word!r} needs its unit, as in 10 minutes, 6 pm, the last 5; or ask how many"
            )
        cameras = [name.lower() for name in self.asker.cameras]
        verbs = [verb for phrase in _KIND_OF for verb in phrase.split()]
        known = [*OBJECT_WORDS, *verbs, *COLOURS, *cameras, *self.asker.places(), *_TIMES, *_FILLERS]
        near = get_close_matches(word, instead, 1, 0.6) or get_close_matches(word, known, 1, 0.7)
        meant = f"; did you mean {near[0]}?" if near and near[0] != word else ""
        return SearchError(f"{word!r} is not understood{meant}")

    def _unknown_name(self, word: str, what: str, names: Sequence[str]) -> SearchError:
        if word in _UNKNOWABLE:
            return self._not_understood(word)
        near = get_close_matches(word, names, 1, 0.6)
        meant = f"did you mean {near[0]}? " if near else ""
        cameras = f"; cameras: {', '.join(self.asker.cameras)}" if what == "place" else ""
        there = ", ".join(list(names)[:8]) or "none yet"
        return SearchError(f"{word!r} is no {what} here; {meant}{what}s: {there}{cameras}")
