"""Plain questions in English, read word by word into the filters of options."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from daemon.questions.moments import MONTH, WEEKDAY
from daemon.questions.parts import WORDS, Parts
from daemon.questions.question import (
    SPAN,
    Filters,
    LocalTime,
    Measure,
    NoJournalsError,
    Question,
    SearchError,
    Span,
)
from daemon.questions.times import SpanReader
from daemon.questions.words import (
    CAME,
    COLOURS,
    GROUPS,
    KIND_OF,
    LEFT,
    LEXICON,
    OBJECT_WORDS,
    UNIT,
    Reading,
    Rewrite,
    Speller,
    either,
    refuse_if,
)
from models.families import FIXTURES

MEANT = {
    "NOUN": f"(?:{either(OBJECT_WORDS)})",
    "UNIT": f"(?:{UNIT})",
    "COLOUR": f"(?:{either(COLOURS)})",
    "MONTH": f"(?:{MONTH})",
    "WEEKDAY": f"(?:{WEEKDAY})",
    "GOES": f"(?:{WORDS['going']})",
    "VERB": f"(?:{either(KIND_OF)})",
}
"""Names in patterns of the lexicon."""
REWRITES: list[Rewrite] = [*map(tuple, LEXICON["otherwise"]["said"])]
_WHAT_IS = re.compile(
    "(?:what (?:is|are|was|were)|is (?:there )?(?:any|some)thing) "
    "(?:(?:still|there|now|parked|standing) )*(?:in|on|at|inside|near|by) "
)
_PIECES = re.compile(
    r"(?<=[a-z]{3})\.\s+(?=[^\W\d])|(?<=\w)\.\s+(?=(?-i:[A-Z]))|(?<=[?!;])\s+(?=\w)|(?<=\w):\s+(?=[a-z])|"
    r",\s+(?=(?:(?:and|but) )?"
    r"(?:which|who|what|where|when|how|did|do|was|were|is|are|has|have|any|anyone|anybody)\b)",
    re.IGNORECASE,
)
_TAG = re.compile(r"(?:,\s*(?:right|correct|true|yes|no)|,?\s+and (?:if so,? )?when)\s*\?*$", re.IGNORECASE)
_PERFECT = {"has", "have", "had", "been", "did", "ever", "seen", "left"}
_IS_WAITING = {"waiting", "queueing", "queuing", "parked", "stationary", "stopped"}
_STANDING = {"waiting", "stopped", "parked"}
_FROM_DAY = rf"from (?:the )?(?:(?:{WEEKDAY})|\d[^:]*(?<!m)|(?:{MONTH}) \d.*)"
_OF_SCENE = {"light_changed", "view_changed", "obstructed"}
_ORDERED = {"first", "last", "first and last"}
_MOMENTARY = {"opened", "closed", "placed", "removed"} | _OF_SCENE


@dataclass(frozen=True, slots=True)
class Asker:
    """Reads questions about some journals.

    Attributes:
        names_place: True of a place in the journals, or a line with its direction, "gate line into the yard";
            a camera of that name needs the word "camera" then.
    """

    cameras: Sequence[str]  # their names; also called by their words, "front door" for front_door
    objects: frozenset[str]  # that the journals name, beside the known nouns
    local: LocalTime  # in whose time zone days and hours are meant
    names_place: Callable[[str], bool]
    places: Callable[[], list[str]] = list  # gives the places that the journals name

    def read(self, question: str, now: datetime) -> Question:
        """Understand a question.

        Raises `SearchError` where it is not understood; the message names the word, and what is nearest.
        """
        if not self.cameras:
            raise NoJournalsError("there are no narrations yet: ask when the first one is there")
        try:
            speller = Speller(self.names)
            asked = self._parser(question, now, speller).question()
            return replace(asked, mended=(*speller.mended.items(), *asked.mended))
        except SearchError as error:
            examples = "".join(f"\n  {example}" for example in self.examples())
            reason = f"the question {question!r} cannot be answered: {error}"
            reason += "" if reason.endswith("?") else "."
            raise SearchError(f"{reason} Understood here, for example:{examples}") from None

    def _parser(self, question: str, now: datetime, speller: Speller) -> Parser:
        """Read one question; another sentence or clause may greet, or name time, place, or what "it" is."""

        def parsed(text: str) -> Parser:
            parser = Parser(self, Reading.of(text, REWRITES, meant, speller), now)
            parser.take_all()
            return parser

        meant, question = {**MEANT, "CAMERA": f"(?:{either(self.called())})"}, _TAG.sub("", question)
        pieces = _PIECES.split(question)
        asks = [each for each in map(parsed, pieces) if each.asks_more] if pieces[1:] else []
        if asks[1:] and (asks[2:] or not asks[1].goes_on(asks[0])):
            raise SearchError("it says more than one thing: ask one question at a time")
        return parsed(question)

    def called(self) -> dict[str, list[str]]:
        """The cameras by what each is called: its name, and that in words."""
        found = defaultdict[str, list[str]](list)
        for name in self.cameras:
            for words in {name.lower(), " ".join(re.split(r"[ _.-]", name.lower()))}:
                found[words].append(name)
        return found

    def names(self) -> set[str]:
        """The words that cameras, objects and places are called by."""
        names = " ".join((*self.cameras, *self.objects, *self.places())).lower()
        return {*re.split(r"[ _.-]", names)}

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


class Parser(Parts):
    """A question, or a part of a rule, on its way to a `Question`; see `Asker.read` for its errors."""

    def question(self) -> Question:
        """The whole question."""
        if not self.known and not self.span.phrases:
            word = self.read.previous
            raise SearchError(f"{word!r} names nothing that can be looked for" if word else "it is empty")
        kinds, objects, words = {*self.filters["kinds"]}, self.filters["objects"], {*self.read.words}
        if kinds & {"placed", "removed"} and (self._of_people() or objects == ("object",)):
            if self._of_people() and not words & {"something", "anything", "things"}:
                raise SearchError("of what? write a bag, or something: who does it is not told")
            objects = self.filters["objects"] = ()  # an item is any of them
        if now := self._is_now(kinds, words):
            self.present = self.filters["open"] = True
        if now or self._is_of_state(kinds):
            kinds, self.filters["kinds"] = set(), ()  # all that was there so long, as in rules
        self._take_since(kinds)
        self._take_parts()
        self._take_group()
        if "there" in self.measure:
            self._check_there(kinds)
        measure = Measure(**self.measure)
        self._check(measure, kinds, words)
        self.span.every |= "day" in measure.by  # "daily between 8 and 9"
        self.span.nightly |= self.habitual
        counted = measure.count and not measure.by
        if (counted or self.was_open) and not kinds and self.span.at and not self.span.near:
            for each in (*self.span.before, self.span):
                each.at = each.at and replace(each.at, exact=True)  # how many were there at once
        span = self.span.span()
        if (measure.order == "first" or self._is_yet(kinds)) and not (
            self.span.phrases or self.filters.get("open")
        ):
            span = read_span("today", self.now, self.asker.local)
        what = bool(_WHAT_IS.match(" ".join(self.read.words))) and not kinds
        self.filters["open"] = self._is_open(measure, kinds, what=what)
        moving = words & {*WORDS["motion"].split("|")}
        things = what or bool(words & {"visit", "visits"} or objects) or ("there" in words and not moving)
        presence = things and not (kinds or self.filters.get("text") or measure.by_time or measure.there)
        return Question(Filters(**self.filters), span, measure, presence, self.now, tuple(self.remarks))

    def _take_since(self, kinds: set[str]) -> None:
        """Read "still there since yesterday" as still there, and for longer than since its end."""
        span, said = self.span, self.span.said
        if self.filters.get("open") and not (kinds or self.past) and said.startswith("since "):
            day = read_span(said.removeprefix("since "), self.now, self.asker.local)
            begin = span.span().since if span.lasting else day.until
            if begin is None or begin >= self.now:
                raise SearchError(f"{said!r} is not over: ask who is still there")
            self._add(longer_s=(self.now - begin).total_seconds())
            span.since, span.low, span.lasting, span.phrases = None, None, False, []

    def _is_yet(self, kinds: set[str]) -> bool:
        """True of "has the parcel come", which is of today."""
        words = self.read.words
        perfect = words[0] in ("has", "have") and kinds in ({CAME}, {"placed"})
        yet = {"yet", "already"} & {*words} and kinds <= {CAME, LEFT, "placed", "opened"} and not self.measure
        yet = yet and (kinds or not self.present)  # is anyone there already
        return bool(perfect or yet) and not {*words} & {"ever", "before", "again"}

    def _is_now(self, kinds: set[str], words: set[str]) -> bool:
        """True of "is anybody waiting at the desk" and "anyone at the gate", without a time."""
        other = self.past or self.span.phrases or self.filters.get("text") or self.measure.get("by")
        other = other or {*self.measure} - ({"count", "durations"} if words & _IS_WAITING else set())
        if other or not kinds <= _STANDING:
            return False
        first = self.read.words[0]
        at = self.filters["cameras"] or self.filters["zones"] or self.on_site
        bare = first in ("any", "anyone", "anybody", "anything") and not kinds and at
        waiting = kinds and (self.present or first.startswith("any")) and (words & _IS_WAITING)
        what = self.filters["objects"] or first == "anything"
        over = set() if "durations" in self.measure else _PERFECT
        return bool(what and (bare or waiting) and not words & (over | {*WORDS["motion"].split("|")}))

    def _is_of_state(self, kinds: set[str]) -> bool:
        """True of what stands for so long, and of a gate that is open now or for so long."""
        of_length = self.measure.get("durations") or self.measure.get("order") == "longest"
        lasts = of_length or (self.present and not (self.past or self.span.phrases))
        if self.was_open:
            return True
        is_open = "opened" in kinds and bool(self.filters["objects"])
        waits = kinds & {"waiting", "stopped"} and self.filters.get("open") and self.present
        several = "there" in self.measure and self.measure["there"] != (0, 0)
        waits = waits or (several and kinds <= _STANDING and {*self.read.words} & _IS_WAITING)
        return bool((kinds & _STANDING and "longer_s" in self.filters) or waits or (is_open and lasts))

    @property
    def habitual(self) -> bool:
        """True of "how often do lorries come before 6" and "our quietest hour in the afternoon"."""
        general = self.extreme and self.present and not self.past
        return bool(general or re.search(r"(?<!\S)do(?:es)? (?!you )", " ".join(self.read.words)))

    def _take_parts(self) -> None:
        """Count people and vehicles beside each other."""
        by, several = self.measure.get("by", ()), len(self.filters["objects"]) > 1
        if "durations" in self.measure and not by:
            self.measure.pop("count", None)  # each visit with its length is told
        if SPAN in by and re.search("(?:which|what) camera", " ".join(self.read.words)):
            self._count(by=("camera", *by))  # saw more today than yesterday
        if self.measure.get("count") and re.fullmatch(_FROM_DAY, " ".join(self.span.phrases)):
            self.span.take_since()  # how many since then, but what happened from 3 June
        if self.measure.get("count") and not by and several and "or" not in self.read.words:
            self._count(by=("object",))
        elif SPAN in by and self.present and not self.past and self.span.of_day_alone:
            raise SearchError("of which day? write in the morning or the afternoon yesterday")
        elif self.measure.get("order") == "first and last" and (
            {"durations", "there"} & {*self.measure} or not self.span.phrases
        ):
            raise SearchError("'first and last' is of what came or left, and of a time: write its day")
        elif by and (self.measure.get("durations") or self.measure.get("order") in ("longest", "shortest")):
            raise SearchError("how long by each is not told: ask for one at a time")

    def _take_group(self) -> None:
        """Settle by what the most, the fewest, and what is compared are counted."""
        cameras, objects = self.filters["cameras"], self.filters["objects"]
        several = ("camera",) * (len(cameras) > 1) or ("object",) * (len(objects) > 1)
        by = self.measure.get("by")
        if self.unit and not (self.extreme or by or {*self.measure} & {"there", "order", "durations"}):
            self._count(by=(self.unit,))  # on which days somebody came
        elif self.unit and self.measure.get("there", (0, 0)) != (0, 0) and not self.extreme:
            raise SearchError("on which days so many were there is not told: ask when they were")
        if self.comparing and (self.versus or not by):
            if not (several or by):
                raise SearchError("more or fewer than what? write more today than yesterday")
            self._count(by=tuple(dict.fromkeys((*several, *(by or ())))))
        if self.extreme and "there" in self.measure:
            if self.extreme != "most":
                raise SearchError("the fewest at once are not told: ask when nobody was there")
            self.told = True
        elif self.extreme:
            when = "when" in self.read.words or self.read.words[:2] == ["what", "time"]
            unit = self.unit or ("hour" if when else "")
            general = self.habitual and (self.span.of_day_alone or not self.span.phrases)
            span = self.span.span()
            long = span.since is None or (span.until or self.now) - span.since > timedelta(hours=25)
            if unit == "hour" and (general or (when and long)):
                unit = "hour-of-day"
            of_each = by and self.unit and self.unit not in by  # the busiest hour of each day
            if of_each or not (by := by or (unit and (unit,)) or several):
                raise SearchError(f"the {self.extreme} of what? write which hour or camera, or at once")
            self._count(by=by, most=self.extreme == "most", fewest=self.extreme != "most")

    def _check_there(self, kinds: set[str]) -> None:
        """Refuse what a number of those who are there at once goes not with; of now it is who is there."""
        absent, filters, words = self.measure["there"] == (0, 0), self.filters, {*self.read.words}
        where = filters["cameras"] or filters["zones"] or self.span.phrases
        refuse_if(there_of_what=not filters["objects"], absent_where=absent and not where)
        if kinds and not absent and not words & {"simultaneously", "peak"}:
            self.measure = {"count": True}  # did more than 20 people come
            return
        counted = self.measure.pop("count", False)
        several = any(len(filters[each]) > 1 for each in ("cameras", "objects"))
        now = (self.present or filters["open"]) and not (self.past or self.span.phrases)
        now = now and not (self.measure["most"] and not filters["open"])
        refuse_if(
            who_did_not=kinds and absent,
            acts_at_once=kinds,
            others_at_once=self.measure.get("by") or filters.get("text") or filters.get("other"),
            at_once_of_what=self.measure["most"] and not (counted or self.told),
            several_at_once=not absent and several and "and" in words,
            absent_now=now and self.measure.get("durations"),
        )
        if now:
            self.measure = {} if absent else {"count": True}  # "is nobody there" is answered by who is
            self._add(open=True)

    def _check(self, measure: Measure, kinds: set[str], words: set[str]) -> None:
        """Refuse what never happens, what records do not answer, or what may mean two things."""
        filters, span, objects = self.filters, self.span, {*self.filters["objects"]}
        doors, cameras = kinds & {"opened", "closed"}, objects & FIXTURES & {*self.asker.cameras}
        by = measure.by and not (self.beside and (kinds or "many" in words))  # how many now and then
        of_each = span.every or span.listed or (self.habitual and span.of_day_alone)
        both = len(objects) > 1 and "and" in words  # the last car and van
        of_length, now = measure.durations or measure.by_length, self.present or filters["open"]
        refuse_if(
            no_doors=doors and not FIXTURES & self.asker.objects,
            who_opens=doors and objects - FIXTURES,
            while_changed=kinds & _OF_SCENE and objects,
            door_or_camera=not (kinds or self.was_open or filters["cameras"]) and "".join([*cameras][:1]),
            through_door=objects and objects <= FIXTURES and kinds - doors,
            site_open=doors and self.on_site and not objects,
            with_vehicle=kinds & {"placed", "removed"} and objects & {*GROUPS["vehicle"], "vehicle"},
            left_still=LEFT in kinds and filters["open"],
            no_length=filters.get("longer_s", 0) > filters.get("shorter_s", math.inf),
            count_of_what=measure.count and not (self.told or objects or kinds - {CAME, LEFT} or by),
            order_of_each=(measure.count or of_each or both) and _ORDERED & {measure.order} and measure.order,
            act_now=kinds and now and not (self.past or span.phrases) and next(iter(kinds)),
            of_what_rule="rule" in kinds and (objects or filters["zones"] or len(kinds) > 1),
            left_again=filters.get("ended") and kinds != {CAME},
            while_gap=kinds & {"gap", "deletion"} and objects,
            gap_now="gap" in kinds and now and not (span.phrases or of_length),
            rules_now="rule" in kinds and self.present and not span.phrases,
            moment_long=kinds & _MOMENTARY and (of_length or words & {"stay", "stayed"}),
        )

    def _is_open(self, measure: Measure, kinds: set[str], *, what: bool) -> bool:
        """True of what is still there, or is there now."""
        timed, still = bool(self.span.phrases), bool(self.filters["open"])
        came = still and kinds in ({CAME}, {"placed"}, {"parked"})  # "came yesterday and is still there"
        past = self.past and not (self.present or kinds)
        if still and timed and not (came or past or (self.span.at and not kinds)):
            raise SearchError("'still' goes with no time: ask who was there then, or who is still there")
        lasting = (
            self.present
            and not (self.past or measure.there or self.extreme or self.unit)
            and not (self.comparing and "there" not in self.read.words)
            and (what or bool(self.filters["objects"]) or measure.count)
        )
        return (still or lasting) and (came or not timed)


def read_span(words: str, now: datetime, local: LocalTime) -> Span:
    """A span alone, as questions name it: "yesterday", "last night", "since 8 am", or "since I left at 8".

    Raises `SearchError` where it is none; the message names the word.
    """
    rewrites = [("left", "since i left(?: at)?", "since"), *REWRITES]
    reader = SpanReader(Reading.of(words, rewrites, MEANT), now, local)
    while reader.read.next:
        if not reader.take():
            raise SearchError(f"{reader.read.next!r} is no time: write yesterday, last night or since 8 am")
    return reader.span()
