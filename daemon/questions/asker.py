"""Plain questions in English, read word by word into filters, times, and the measure that is asked for."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from daemon.questions.question import (
    SPAN,
    Filters,
    LocalTime,
    Measure,
    NoJournalsError,
    Question,
    SearchError,
    Span,
    not_here,
)
from daemon.questions.times import MONTH, WEEKDAY, SpanReader
from daemon.questions.words import (
    CAME,
    COLOURS,
    GROUPING_OF,
    GROUPS,
    KIND_OF,
    LEFT,
    LEXICON,
    MONTHS,
    NOUNS,
    NUMBERS,
    OBJECT_WORDS,
    PARTS,
    UNIT,
    Reading,
    Rewrite,
    Speller,
    by_word,
    either,
    refuse_if,
)
from models.families import FIXTURES

WORDS: dict[str, str] = LEXICON["words"]
_FORMS: dict[str, str] = LEXICON["forms"]
_FILLERS, _ASKING, _PICTURE = ({*WORDS[name].split("|")} for name in ("fillers", "asking", "picture"))
_FILLERS |= _ASKING
_VERBS, _PREPOSITIONS = either(KIND_OF), either(WORDS["prepositions"].split("|"))
_UNKNOWABLE = by_word("unknowable")
_FIXTURE_OF = {noun: name for noun, name in OBJECT_WORDS.items() if name in FIXTURES} | {
    name: name for name in FIXTURES
}
_TIMES = ("yesterday", "today", "between", "since", "before", "after", *PARTS, *MONTHS)
_VEHICLES = {"vehicle", *GROUPS["vehicle"]}
_THINGS = {*NOUNS, "object"} - {*GROUPS["vehicle"], *GROUPS["somebody"], *GROUPS["animal"], "bicycle"}
"""What does not leave by itself."""
_NARROWER = {n for k in NOUNS for n in NOUNS[k] if not n.startswith(k)} - {*WORDS["same"].split("|")}
_AMBIGUOUS = {each for each in _NARROWER if OBJECT_WORDS[each] not in {*_VEHICLES, "bag"}}
_THERE = r"(?:in|at|by|on|near|behind|for|over) (?!\d|noon|midnight|half|quarter)"
_WAYS = {"over": "crossed", "across": "crossed", "out of": LEFT, "into": CAME, "onto": CAME}
_NO_CAMERA = {*_FILLERS, *" ".join((*KIND_OF, *_TIMES, "is are last right")).split()}
_NO_CAMERA |= {*f"{WORDS['going']}|{WORDS['prepositions']}".split("|")}
_EXTREME = (
    r"(?:the )?(?:(most|busiest)|(?:fewest|least|quietest))(?! recent)"
    r"(?: (?:busy|quiet|common|popular|frequent))?"
)
_TIME_OF = {"time of day": "hour-of-day", "time of the day": "hour-of-day", "time": "hour", "period": "hour"}
_ASKED_UNIT = (
    rf"(?:(?:at|on|in|during|by|over) )?(?:(which|what|an?|any|one|any one|a single|the)(?: of the)? )?"
    rf"(?:({either(_TIME_OF)})|({UNIT}))s?(?! of (?:the )?\d)"
)
_ON_WHICH = "(?:(?:on|in|at|during) )?(?:which|what) (days?|dates?|weeks?|months?|weekdays?)"
_FEWER = {"fewer than", "less than", "under", "at most", "or fewer", "or less"}
_SO_MANY = (
    r"(?:(?P<word>more than|over|at least|fewer than|less than|under|at most|exactly) )?"
    rf"(?P<n>\d+|{either(NUMBERS)})(?: (?P<more>or more|or fewer|or less))?"
)
_PARTS = (
    *("grouping", "compare", "camera", "at_once", "length", "sureness", "wanted", "now", "time"),
    *("order", "colour", "excluding", "lacking", "verb", "place", "noun", "quoted", "filler", "bare_place"),
)
"""What is tried at each word, in this order."""
_AT = ("in", "inside", "on", "at", "the", "from", "to", "into", "onto")
_LONGEST_PLACE = 6  # words
_NO_PLACE = {*_FILLERS, *KIND_OF, *_TIMES, *COLOURS, *WORDS["prepositions"].split("|")}
_NO_PLACE -= {"inside", "outside"}
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


class Parser:
    """A question, or a part of a rule, as far as its words are read; see `Asker.read` for its errors."""

    def __init__(self, asker: Asker, read: Reading, now: datetime) -> None:
        self.asker, self.read, self.now = asker, read, now
        self.span = SpanReader(read, now, asker.local)
        self.filters: dict[str, Any] = defaultdict(tuple)
        self.measure: dict[str, Any] = {}
        self.direction = self.extreme = self.unit = ""
        self.comparing = self.versus = self.beside = self.came_from = False
        self.remarks = list[tuple[str, str]]()
        self.present = self.past = self.known = self.told = self.was_open = self.on_site = False
        self.conjunction = self.after_verb = self.after_noun = False
        self.camera_names = asker.called()
        self.cameras = either(self.camera_names)

    @property
    def asks_more(self) -> bool:
        """It asks for more than a time and a place."""
        named = any(value for name, value in self.filters.items() if name not in ("cameras", "zones"))
        when = "it" in self.read.words and bool(self.span.phrases)  # was it there at 5
        return named or when or self.told or bool(self.measure or self.extreme or self.unit)

    def goes_on(self, before: Parser) -> bool:
        """True of "a bag at the desk, when was it put there", but not of an act and of a day before."""
        acts, told = (bool(each.filters.get("kinds")) for each in (self, before))
        of_it = "it" in self.read.words and not self.filters.get("objects")
        bare = not (any(self.filters.values()) or self.span.phrases)  # for how long
        apart = (told and not self.filters.get("open")) or (before.span.phrases and acts)
        return bare or (of_it and not apart)

    def take_all(self) -> None:
        """Read all words into `filters`, `span` and `measure`."""
        read = self.read
        self._refuse()
        text = " ".join(read.words)
        extreme = [each for each in re.finditer(_EXTREME, text) if not text[: each.start()].endswith("at ")]
        self.extreme = "" if not extreme else "most" if extreme[0][1] else "fewest"
        if len({bool(each[1]) for each in extreme}) > 1:
            raise SearchError("the most and the fewest are two questions: ask one at a time")
        parts: list[Callable[[], bool]] = [getattr(self, f"_{name}") for name in _PARTS]
        while read.next:
            part = next((part for part in parts if read.first_of(part)), None)
            if part is None:
                raise self._not_understood(read.next)
            joined = read.previous in ("and", "or", "than", "versus", "vs", "against")
            joined |= self.versus and read.previous in ("with", "to")
            listed = re.match(r"(?:the )?(\S+) (?:and|or) ", read.rest)  # cars, vans and lorries
            alike = listed and (listed[1] in OBJECT_WORDS) == (part == self._noun)
            one_of_three = bool(alike and part in (self._noun, self._place, self._bare_place))
            within = self.conjunction and read.previous in ("the", "a", "an")
            self.conjunction = joined or within or one_of_three
            self.after_verb = part == self._verb or (
                self.after_verb and (self.conjunction or part == self._colour)
            )
            self.after_noun = part == self._noun or (self.after_noun and self.conjunction)

    def _refuse(self) -> None:
        """Refuse what cannot be asked for, and what may mean two things."""
        named = {word for phrase in self.camera_names for word in phrase.split()}
        for word in self.read.words:
            if word in _UNKNOWABLE and word not in named:
                raise self._not_understood(word)
        text = " ".join(self.read.words)
        for cues, pattern, why in LEXICON["refused"]["said"]:
            cued = any(cue in text for cue in cues.split("|"))
            if cued and re.search(rf"(?<![^ ])(?:{pattern})(?![^ ])", text):
                raise SearchError(why)

    # Parts of a question: each reads on and is true, or is false

    def _grouping(self) -> bool:
        unit = rf"(?:{UNIT})(?!(?<=camera) (?:{self.cameras})(?!\S))"
        match = self.read.take(
            r"(?:(by)|per|(?:(?:for|on|at|in) )?each|every(?= (?:minute|hour|week|month)(?: |$))|for every) "
            rf"({unit}(?: and (?:(?:by|per|each) )?{unit})*)"
        )
        if match:
            names = re.findall(rf"(?<!\S)(?:{UNIT})(?!\S)", match[2])
            self._count(by=(*self.measure.get("by", ()), *(GROUPING_OF[name] for name in names)))
        return bool(match)

    def _compare(self) -> bool:
        """A count of two spans, or of two things, beside each other."""
        read = self.read
        if not read.place and read.take("compare(?: the)?(?: number of)?"):
            self.comparing = self.span.compared = self.versus = True
            self._count()
            return True
        several = len(self.filters["cameras"]) > 1 or bool(re.search(" (?:than|or) ", read.rest))
        more = "(?:more|fewer|less)(?! than)(?: common| popular| frequent| often)?|busier|quieter"
        if several and read.previous != "or" and read.take(f"(?:any |a |the )?(?:{more})"):
            self.comparing = self.span.compared = True
            self._count()
            return True
        if match := read.take(rf"than norm(?: ({WEEKDAY}))?"):
            self.span.usual, self.comparing = match[1] or "day", True
            self._count(by=(*self.measure.get("by", ()), SPAN))
            return True
        other = "than|(?:as )?compared (?:to|with)|versus|vs|against" + "|or" * self.comparing
        other += "|and|with|to" * self.versus
        begin, match = read.place, read.take(f"(?:{other})(?: (?:on|in|at|for))?")
        things = match and read.next in OBJECT_WORDS  # "more vans than lorries"
        if not (things or (match and self.span.compare())):
            read.place = begin
            return self.versus and bool(read.take("with|to|against"))
        by = {**dict.fromkeys(self.measure.get("by", ())), "object" if things else SPAN: None}
        self._count(by=(*by,))
        self.beside |= not things
        return True

    def _excluding(self) -> bool:
        """Things of a group but one."""
        read, objects = self.read, self.filters["objects"]
        if not read.take("excluding(?: the| any)?"):
            return False
        noun = f"(?:{either(OBJECT_WORDS)})"
        match = read.take(f"{noun}(?: (?:and|or) {noun})*")
        names = {OBJECT_WORDS[word] for word in match[0].split()[::2]} if match else set[str]()
        if not names or not objects or names & {*objects, *GROUPS} or read.next in ("and", "or"):
            raise SearchError("'except' is of things alone, and of a group: write vehicles except cars")
        held = {group: [each for each in GROUPS.get(group, ()) if each != group] for group in objects}
        self.filters["objects"] = tuple(
            each
            for group in objects
            for each in (held[group] if names & {*held[group]} else (group,))
            if each not in names
        )
        return True

    def _lacking(self) -> bool:
        """What somebody left without: stopping, say."""
        if not self.read.take("lacking"):
            return False
        verb = self.read.take(_VERBS)
        kind = KIND_OF[verb[0]] if verb else ""
        if kind not in LEXICON["lacking"] or (kind == CAME and self.filters["kinds"] != (LEFT,)):
            raise SearchError("'without' works only with coming in, stopping, parking and waiting")
        self._add(lacking=[kind], kinds=[] if self.filters["kinds"] else [LEFT])
        begin = self.read.place
        where = self.read.take(f"({_PREPOSITIONS})(?: (?:the|an?|my|our))?|the|an?|my|our")
        at_place = where and (self._take_place("at") or (kind == CAME and not where[1]))
        self.read.place = begin
        lasting = re.match("(?:for|longer|shorter|more|less) ", self.read.rest)
        refuse_if(lacking_so_long=lasting, lacking_where=at_place)
        return True

    def _camera(self) -> bool:
        read, name, begin = self.read, rf"(?:{self.cameras})", self.read.place
        match = read.take(
            rf"(?P<at>(?:{_PREPOSITIONS}|of|with) )?(?:the )?(?P<word>cameras? )?(?P<name>{name})"
            rf"(?P<after> cameras?)?(?P<more>(?:(?: (?:the )?{name})?"
            rf" (?:and|or) (?:the )?(?:camera )?{name}(?: camera)?)*)"
        )
        if not match:
            unknown = read.take(rf"(?:(?:{_PREPOSITIONS}|of|with) )?(?:the )?camera (\S+)")
            if unknown and unknown[1] not in _NO_CAMERA:
                raise not_here(unknown[1], "camera", self.asker.cameras)
            return False
        name = match["name"]
        if not (match["word"] or match["after"]):
            verb = not match["at"] and (name in KIND_OF or re.match(rf"(?:{_VERBS})(?!\S)", read.next))
            things = self.asker.objects - (FIXTURES if match["at"] else set())  # who was at the gate
            thing = name in OBJECT_WORDS or name in COLOURS or name in things
            fixture = _FIXTURE_OF.get(name.split()[-1])
            if verb and not thing and fixture in self.asker.objects:
                verb = False  # the front door opened, on the camera of that name
                self._add(objects=[fixture])
            if verb or thing or name.isdecimal() or self.asker.names_place(name):
                return False
            words = read.words[begin + len(match[0][: match.start("name")].split()) :]
            lengths = range(len(name.split()) + 1, min(_LONGEST_PLACE, len(words)) + 1)
            if any(self._names_place(" ".join(words[:length])) for length in lengths):
                return False  # at the yard gate, before the camera yard
        self._check_joined("zones")
        if self.filters["cameras"] and not self.conjunction:
            raise SearchError(f"{name!r} is a second camera: join cameras with and, or ask for one at a time")
        self._check_way((match["at"] or "").strip(), name)
        more = re.findall(rf"(?<!\S)(?:{self.cameras})(?!\S)", match["more"])
        self._add(cameras=[each for words in (name, *more) for each in self.camera_names[words]])
        return True

    def _length(self) -> bool:
        read, longer, begin = self.read, WORDS["longer"], self.read.place
        match = read.take(rf"(?:for |that stayed |who stayed )?(?:({longer})|({WORDS['shorter']}))")
        read.take("for")
        length = read.take_duration()
        if not match and (
            read.take("ago") or not (read.take("or (?:more|longer)") or "for" in read.words_from(begin))
        ):
            return False
        if length:
            shorter = bool(match and match[2])
            self._add(**{"shorter_s" if shorter else "longer_s": length.total_seconds()})
        elif match and match[0].endswith(("longer than", "shorter than")):
            raise SearchError(f"{read.next!r} is no length: write {match[0]} 10 minutes")
        return length is not None

    def _at_once(self) -> bool:
        """How many were there at once: none, more than five, the most."""
        read, there, before = self.read, self.measure.get("there"), self.read.previous
        if read.take("absent"):
            there = 0, 0
            if self.filters["objects"]:
                raise SearchError("who was there without others cannot be answered: ask for one at a time")
        elif match := read.take(_SO_MANY):
            number = NUMBERS.index(match["n"]) if match["n"] in NUMBERS else int(match["n"])
            word = match["word"] or match["more"] or "at least"
            things = {*read.words[read.place : read.place + 2]} & {*OBJECT_WORDS}
            one = before in {"the", "first", "last", "number", "all"}  # the two cars
            if one or not (number and things):
                return False
            if before in ("about", "around", "only", "just"):
                raise SearchError(f"{before!r} so many cannot be answered: write exactly, or at most")
            fewer, beside = word in _FEWER, word.endswith("than") or word in ("over", "under")
            there = (0, number - beside) if fewer else (number + beside, math.inf)
            there = (number, number) if word == "exactly" else there
        elif match := read.take("simultaneously|peak"):
            there = there or (1, math.inf)
            self.told |= match[0] == "peak"
        else:
            return False
        self.measure |= {"there": there, "most": there == (1, math.inf)}
        return True

    def _sureness(self) -> bool:
        match = self.read.take(
            r"(?:with |at least |surer than )*(?:confidence (?:of |above )?)?"
            r"(\d+(?:\.\d+)?) (?:%|percent)(?: (?:sure|confidence))?"
        )
        if match:
            self._add(confidence=float(match[1]) / 100)
        return bool(match)

    def _wanted(self) -> bool:
        """The measure: number, duration, busiest camera or busiest hour."""
        read, before = self.read, self.read.previous
        if match := read.take(WORDS["count"]):
            self.measure["count"] = True
            self.told |= match[0] in ("how busy", "how often", "how many times")
        elif read.take("how long"):
            self.measure["durations"] = True
            self.present |= read.next in ("has", "have")
        elif read.take("how"):
            raise self._not_understood(read.next or "how", ("many", "long", "often"))
        elif read.take(_EXTREME):
            self.known = True
        elif not self.extreme and (match := read.take(_ON_WHICH)):
            self.unit, self.known = GROUPING_OF[match[1].removesuffix("s").replace("date", "day")], True
        elif self.extreme and not self.unit and (match := read.take(_ASKED_UNIT)):
            if match[2] and not (match[1] in ("which", "what") or before in ("busiest", "quietest")):
                return False
            self.unit = _TIME_OF[match[2]] if match[2] else GROUPING_OF[match[3]]
        elif match := read.take(f"noneby ({UNIT})"):
            self._count(fewest=True, none=True, by=(GROUPING_OF[match[1]],))
        else:
            return False
        return True

    def _now(self) -> bool:
        read = self.read
        if read.take(WORDS["now"]):
            self._add(open=True)
            return True
        if self.read.take("ended"):
            if re.match(r"(?:at|after|since|by|around|about) ", self.read.rest):
                raise SearchError("that time may be of coming or of leaving: ask for one of them")
            self._add(ended=True)
            return True
        if match := self.read.take("remarked(?: as (mistaken|corrected))?"):
            self._add(marked=match[1] or "at all")
        return bool(match)

    def _time(self) -> bool:
        return not (self.conjunction and self.read.next in OBJECT_WORDS) and self.span.take()

    def _order(self) -> bool:
        read = self.read
        first, last = WORDS["first"], WORDS["last"]
        both = f"(?:{first}) and (?:the )?(?:{last})"
        match = read.take(
            rf"(?:the )?(?:(?P<order>longest|shortest)|(?P<last>{last})|(?P<both>{both})|{first})"
        )
        if not match:
            return False
        if self.measure.get("order"):
            raise SearchError(f"{match[0]!r} is a second order: ask for one at a time")
        if read.take(f"of(?= (?:{either(MONTHS)}))"):
            raise SearchError(f"{match[0]} of {read.next!r} may be a day: write 1 {read.next.capitalize()}")
        self.known |= bool(match["order"])
        ends = "first and last" if match["both"] else "last" if match["last"] else "first"
        self.measure["order"] = match["order"] or ends
        limit = None if read.next == "one" or match["both"] else read.take_number()
        self.measure["limit"] = None if limit == 1 else limit
        read.take("time")
        return True

    def _colour(self) -> bool:
        read = self.read
        worn = read.take("(?:in|wearing|dressed in|with)(?: an?| the)?")
        _ = self.after_verb and not worn and read.take("an?|the|any|some|my|our")
        match = read.take(either(COLOURS))
        if not match or (not worn and (not read.next or match[0] in ("light", "dark"))):
            return False
        if read.take(_FORMS["clothes"]) and not self.filters["objects"]:
            self._add(objects=["somebody"])
        of_thing = self._of_people() and OBJECT_WORDS.get(read.next) in {*_THINGS, "bicycle"}
        if self.filters["objects"] and not (worn or (of_thing and self.filters["kinds"])):
            raise SearchError(f"{match[0]!r} is of one thing of several: ask for one at a time")
        self._add(colours=[COLOURS[match[0]]])
        return True

    def _verb(self) -> bool:
        read, before = self.read, self.read.previous
        if not (match := read.take(f"{_VERBS}|{WORDS['going']}")):
            return False
        verb, kind = match[0], self._kind_of(match[0])
        if FIXTURES & {*self.filters["objects"]} and self._is_passive():
            self.was_open |= verb == "open"
            if verb in ("closed", "shut") and not {"when", "time", "many"} & {*read.words}:
                raise SearchError(f"whether it was {verb} all the time is not recorded: ask when it was open")
        self._check_verb(verb, kind, before)
        if kind in ("got_in", "got_out"):
            kind = self._with_vehicle(kind)
        self.direction = kind if kind in (CAME, LEFT) else ""
        states = ("open", "closed", "close", "shut", "parked", "stopped", "gone")
        self.past |= verb not in states and not verb.endswith("ing")
        carried = kind == "moved" and {*self.filters["objects"]} & _THINGS
        self._add(kinds=["moved", "removed"] if carried else [kind] if kind else [])
        return True

    def _with_vehicle(self, kind: str) -> str:
        """Read which vehicle somebody got into or out of; into anything else is to come there."""
        read, begin = self.read, self.read.place
        of, article = read.take("of"), read.take("an?|the|that|this|his|her|their")
        colour, thing = read.take(either(COLOURS)), OBJECT_WORDS.get(read.next, "")
        if thing in ("vehicle", *GROUPS["vehicle"]):
            read.place += 1
            if colour or thing != "vehicle":
                colours = (COLOURS[colour[0]],) if colour else ()
                self._add(other=Filters(objects=(thing,), colours=colours))
        elif of or colour or thing:
            raise self._not_understood(read.next)
        elif article and kind == "got_in":
            read.place, kind = begin, CAME
        return kind

    def _check_verb(self, verb: str, kind: str, before: str) -> None:
        """Refuse a second act, unless it is an alternative to the first, and a state in place of an act."""
        other = self.filters["kinds"] and (kind not in self.filters["kinds"] or self.span.phrases)
        if other and not (self.after_verb and self.conjunction):
            raise SearchError(f"{verb!r} is a second act with words of its own: ask for one at a time")
        if other and before == "and" and (self.read.words[0] != "when" or self.measure.get("order")):
            raise SearchError(f"'and {verb}' may mean both acts or either: write or, or ask for one")
        going = before in WORDS["going"].split("|") or (not self.read.next and "any" in self.read.words[0])
        if verb == "left" and kind == LEFT and (going or self._is_passive() or self._remains()):
            raise SearchError("'left' may mean gone or remaining: ask who left, or who is still there")
        if kind in ("placed", "removed") and self._of_people() and self._is_passive():
            raise SearchError(f"who puts down or takes away is not recorded: {verb} is of things")

    def _remains(self) -> bool:
        """True of "a van left in the yard", false of "a van left in the evening"."""
        there = re.match(r"(?:in|inside|on|at|by|near) (?:the )?(?!camera)(\S+)", self.read.rest)
        place = there[1] if there and self.after_noun else ""
        here = {*self.camera_names, *WORDS["site"].split("|")}
        return bool(place) and (place in here or self._names_place(place))

    def _is_passive(self) -> bool:
        """True after "was a bag" or "is anybody", False after "who was there and"."""
        words = self.read.words[: self.read.place - 1]
        active = {"who", "that", "which", "when", "did", "has", "have", "and", "or"}
        to_be = [k for k, word in enumerate(words) if word in ("is", "are", "was", "were", "been")]
        return bool(to_be) and ("been" in words or not active & {*words[to_be[-1] :]})

    def _kind_of(self, verb: str) -> str:
        """The kind of a verb: of "went" by where to, none of "went past", placed of a bag that "was left"."""
        objects, before = {*self.filters["objects"]}, self.read.words[max(0, self.read.place - 2)]
        if KIND_OF.get(verb) == "parked" and objects == {"somebody"}:
            self.filters["objects"] = ("vehicle",)  # of whoever parks only that is seen
        put = (
            self._is_passive()
            or (objects and self.after_noun)
            or (before in ("anything", "something") and re.match(_THERE, self.read.rest))
        )
        if verb == "left" and objects <= _THINGS and put and self.read.next != "the":
            if not self.read.next or (self.present and not self.past):
                raise SearchError("'left' may mean put down or remaining: ask what is still there")
            return "placed"
        if verb == "parked" and self.read.next in OBJECT_WORDS:
            return ""  # parked cars
        when = "when" in self.read.words and "long" not in self.read.words
        act = when or self.measure.get("order") in ("first", "last", "first and last")
        asked = {*self.read.words} & {"which", "what", "that", "who", "did", "how", "has", "have"}
        stood = self._is_passive() or (self.after_noun and not asked)  # cars parked overnight
        if verb == "parked" and stood and not act:
            if not (objects or self.present):
                self._add(objects=["vehicle"])
            return ""  # it stood there
        if verb in KIND_OF:
            return KIND_OF[verb]
        where = self.read.next
        if where in (*WORDS["to"].split("|"), "from", "out"):
            return LEFT if where in ("from", "out") else CAME
        self.read.take(r"(?:past|by|through)(?! (?:the|our|camera) )")
        if where not in (*_WAYS, "past", "by", "through") and not verb.endswith("ing"):
            raise SearchError(f"{verb!r} needs where to, or from where: write {verb} to the entrance")
        return ""

    def _noun(self) -> bool:
        read, objects = self.read, self.filters["objects"]
        article = read.take("the|an?|every|each|all|any")
        word, known = read.next, {name.lower() for name in self.asker.objects} - {"scene"}
        before, _, last = word.rpartition("-")
        if before and last in OBJECT_WORDS and word not in known:  # delivery-van
            self.remarks.append((f"{before} {last}", OBJECT_WORDS[last]))
            word = last
        noun = word if word in OBJECT_WORDS or word in known else word.removesuffix("s")
        used = noun in _AMBIGUOUS and not self.filters["kinds"] and self._names_place(word)  # the bench
        if used or word in NUMBERS or word in _UNKNOWABLE or not (noun in OBJECT_WORDS or noun in known):
            return False
        read.place += 1
        if word == "who" and objects:  # "people who"
            return True
        name = OBJECT_WORDS.get(noun, noun)
        if noun in _AMBIGUOUS:
            raise SearchError(f"{word!r} is ambiguous: ask for {name}")
        if noun in _NARROWER:
            self.remarks.append((word, name))
        if name in _THINGS and self.after_verb and self.filters["kinds"] == (LEFT,):
            self.filters["kinds"] = ("placed",)  # who left a bag
        moved = bool({*self.filters["kinds"]} & {"placed", "removed"}) and name in {*_THINGS, "bicycle"}
        joined = self.conjunction and self.after_noun
        narrower = name in GROUPS["somebody"] and "who" in read.words[: read.place]
        worn = len(self.filters["colours"]) > (read.words[read.place - 2] in COLOURS)
        if moved and worn and self._of_people():
            raise SearchError(f"who it was is not recorded for {word!r}: leave the colour of the clothes out")
        if (moved and self._of_people()) or (narrower and objects == ("somebody",)):
            self.filters["objects"] = ()
        elif objects and ((article and self.filters["colours"]) or not joined) and name not in objects:
            raise SearchError(f"{word!r} is a second thing: join things with and, or ask for one at a time")
        self._add(objects=[name])
        return True

    def _place(self) -> bool:
        read = self.read
        if not (match := read.take(_PREPOSITIONS)):  # "left the lot", "entered the lobby"
            reached = self.after_verb and {*self.filters["kinds"]} & {CAME, LEFT, "crossed"}
            return bool(reached and read.take("the")) and self._named_place("the")
        if match[0] == "to" and re.match(rf"(?:{_VERBS})(?!\S)", read.next):  # "the last car to leave"
            return True
        return self._named_place(match[0])

    def _bare_place(self) -> bool:
        return self._named_place("")

    def _named_place(self, preposition: str) -> bool:
        read, filters = self.read, self.filters
        article = bool(read.take("(?:any of )?(?:the|an?|my|our|your)")) or preposition == "the"
        if not preposition and read.next in _PICTURE:  # "going right"
            return False
        name = self._take_place(preposition)
        if name:
            if filters["zones"] and not self.conjunction:
                raise SearchError(f"{name!r} is a second place: ask for one at a time")
            self._check_joined("cameras")
            self._check_way(preposition, name)
            self._add(zones=[name])
            return True
        bare = not preposition and (article or read.previous == "the")
        if (preposition in _AT or bare) and (match := read.take(WORDS["everywhere"])):
            self.on_site = match[0] in WORDS["site"].split("|")
            if self.on_site and read.next in {*OBJECT_WORDS, *_FIXTURE_OF} - {"who"}:  # the shop door
                raise SearchError(f"{match[0]!r} is no place here; name the camera, or its place")
            self.remarks += [(match[0], "everywhere here")] * self.on_site
            return True
        called = [each for each in self.asker.cameras if re.split(r"[ _.-]", each.lower())[-1] == read.next]
        if preposition in WORDS["prepositions"].split("|") and len(called) == 1:  # at the door: front_door
            self._check_way(preposition, called[0])
            self.remarks += [(read.next, called[0])] * (read.next != called[0].lower())
            self._add(cameras=called)
            read.place += 1
            return True
        if not read.next or preposition in ("", "the") or (not article and read.next in _FILLERS):
            return False
        error, known = not_here(read.next, "place", self.asker.places()[:8]), WORDS["prepositions"].split("|")
        where = f"{preposition!r} of which place? " * (read.next in {*_TIMES, *known})  # outside between 8
        raise SearchError(f"{where}{error}; cameras: {', '.join(self.asker.cameras)}")

    def _take_place(self, preposition: str) -> str:
        """Go past a place, as long a name as there is; its name, or nothing."""
        begin = self.read.place
        for length in range(min(_LONGEST_PLACE, len(self.read.words) - begin), 0, -1):
            said = " ".join(self.read.words[begin : begin + length])
            forms = [said]
            # "car park" is a place, but not in "did a car park"
            known = self.asker.names_place if preposition and said.endswith(" park") else self._names_place
            if not known(said):  # "the fence line", "the bin area", "the school gate"
                name = re.sub(f"^(?:{_FORMS['area']}|{_FORMS['main']}) | (?:{_FORMS['area']})$", "", said)
                forms = [name, f"{name}s", name.removesuffix("s")] if preposition else [name]
            if found := next(filter(known, filter(None, forms)), ""):
                self.read.place = begin + length
                if re.match(f"(?:{_FORMS['main']}) ", said) and found != said:
                    self.remarks.append((said, found))
                return found
        return ""

    def _check_joined(self, others: str) -> None:
        """Refuse a camera or a place: filters of both mean both at once."""
        if self.conjunction and (self.filters[others] or self.on_site):
            raise SearchError("a camera and a place are not alternatives here: ask for one at a time")

    def _check_way(self, preposition: str, name: str) -> None:
        """Refuse where somebody left to or came from; "over the fence" crosses it."""
        to, away = (preposition in WORDS[each].split("|") for each in ("to", "from"))
        if preposition == "outside" and name.lower() in self.camera_names:
            raise SearchError(f"what is outside {name!r} may be on another camera: ask for that")
        if to and self.came_from:
            raise SearchError(f"from one place to {name!r} cannot be answered: ask for one place")
        self.came_from |= away
        if (to and self.direction == LEFT) or (away and self.direction == CAME):
            way = "left to" if to else "came from"
            raise SearchError(f"who {way} {name!r} is not known: ask who came there, or who left there")
        kind = _WAYS.get(preposition)
        if kind and (not self.filters["kinds"] or (kind == "crossed" and self.direction)):
            self.filters["kinds"] = ()
            self._add(kinds=[kind])

    def _names_place(self, name: str) -> bool:
        words = name.split()
        ends = {word for word in (words[0], words[-1]) if not (words[1:] and word.endswith("ing"))}
        known = re.search(r"[^\W\d]", name) and (words[1:] or not ends & _NO_PLACE)
        # Pieces of sentences begin and end with any word; what a place is called in the file may, too.
        named = (
            known and self.asker.names_place(name) and (not ends & _NO_PLACE or name in self.asker.places())
        )
        return name in _PICTURE or bool(named)

    def _quoted(self) -> bool:
        match = self.read.take(r'(?:(?:saying|with the words?|that say|about) )?("[^"]+"(?: \| "[^"]+")*)')
        if match:
            self._add(text=match[1].replace(" | ", "|"))
        return bool(match)

    def _filler(self) -> bool:
        word = self.read.next
        asks_late = word in _ASKING and self.filters.get("objects")  # did anyone search the desk
        if asks_late or (word not in _FILLERS and word not in ("is", "are")):
            return False
        self.read.place += 1
        self.present |= word in ("is", "are")
        self.past |= word in ("was", "were", "did", "had")
        told = word in WORDS["everything"].split("|")
        self.known, self.told = self.known or told, self.told or told
        return True

    # What they share

    def _of_people(self) -> bool:
        objects = {*self.filters["objects"]}
        return bool(objects) and objects <= {"somebody", *GROUPS["somebody"]}

    def _count(self, **more: Any) -> None:
        self.known = True
        self.measure |= {"count": True, **more}

    def _add(self, **more: Any) -> None:
        """Add values to filters: a list to those that are there, a single one where none is."""
        self.known = True
        for name, value in more.items():
            if isinstance(value, list):
                self.filters[name] = tuple(dict.fromkeys((*self.filters[name], *value)))
            elif name in self.filters and value != self.filters[name]:
                raise SearchError(f"it says two of the same kind ({value}); ask them one by one")
            else:
                self.filters[name] = value

    def _not_understood(self, word: str, instead: Collection[str] = ()) -> SearchError:
        if reason := _UNKNOWABLE.get(word):
            return SearchError(f"{word!r} cannot be asked for: {reason}")
        if word in NUMBERS or word.isdecimal():
            return SearchError(
                f"{word!r} needs its unit: write 10 minutes, 6 pm, the last 5; or ask how many"
            )
        verbs, here = " ".join(KIND_OF).split(), (*self.camera_names, *self.asker.places())
        known = [*OBJECT_WORDS, *verbs, *COLOURS, *here, *_TIMES, *_FILLERS]
        near = get_close_matches(word, instead, 1, 0.6) or get_close_matches(word, known, 1, 0.66)
        meant = f"; did you mean {near[0]}?" if near and near[0] != word else ""
        return SearchError(f"{word!r} is not understood{meant}")

    # The question of all parts

    def question(self) -> Question:
        """The whole question."""
        if not self.known and not self.span.phrases:
            word = self.read.previous
            raise SearchError(f"{word!r} names nothing that can be looked for" if word else "it is empty")
        kinds, objects, words = {*self.filters["kinds"]}, self.filters["objects"], {*self.read.words}
        if kinds & {"placed", "removed"} and (self._of_people() or objects == ("object",)):
            if self._of_people() and not words & {"something", "anything", "things"}:
                raise SearchError("of what? write a bag, or something: who does it is not recorded")
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
        span = self.span
        from_day = span.days and not (span.low or span.at) and re.fullmatch(_FROM_DAY, span.said)
        if self.measure.get("count") and span.days and from_day:  # what happened from 3 June is of that day
            span.since, span.days = span.days.begin, None
        if self.measure.get("count") and not by and several and "or" not in self.read.words:
            self._count(by=("object",))
        ends = self.measure.get("order") == "first and last"
        refuse_if(
            which_day=SPAN in by and self.present and not self.past and self.span.of_day_alone,
            ends_of_what=ends and ({"durations", "there"} & {*self.measure} or not self.span.phrases),
            length_by_each=by and (self.measure.get("durations") or Measure(**self.measure).by_length),
        )

    def _take_group(self) -> None:
        """Settle by what the most, the fewest, and what is compared are counted."""
        cameras, objects = self.filters["cameras"], self.filters["objects"]
        several = ("camera",) * (len(cameras) > 1) or ("object",) * (len(objects) > 1)
        by = self.measure.get("by")
        there = self.measure.get("there", (0, 0))
        if self.unit and not (self.extreme or by or {*self.measure} & {"there", "order", "durations"}):
            self._count(by=(self.unit,))  # on which days somebody came
        refuse_if(
            days_of_number=self.unit and there != (0, 0) and not self.extreme,
            more_than_what=self.comparing and not (several or by),
            fewest_at_once=self.extreme == "fewest" and "there" in self.measure,
        )
        if self.comparing and (self.versus or not by):
            self._count(by=tuple(dict.fromkeys((*several, *(by or ())))))
        if self.extreme and "there" in self.measure:
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
