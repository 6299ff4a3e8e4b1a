"""A rule as a value, and what it means of one sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from daemon.questions.local_time import LocalTime
from daemon.questions.places import RecordPlace
from daemon.questions.question import Filters, Question, Span
from daemon.questions.restatement import restate, span_words
from daemon.questions.words import ARRIVALS, CAME, DEPARTURES, LEFT, objects_of, open_classes_of
from pipeline.report.words import duration_words

NO, MAYBE, YES = 0, 1, 2
NOTHING = Filters()


class Form(StrEnum):
    """What a rule waits for."""

    EVENT = "event"  # a sentence
    STAY = "stay"  # somebody or something is there for so long
    COUNT = "count"  # so many are there, or fewer
    STILL = "still"  # after an event something is still there
    THEN = "then"  # two events, the second soon after the first
    NEVER = "never"  # an event, and not the second soon after it


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        name: of the configuration.
        when: its words.
        filters: of its first event, or of who is there.
        then: of the second event, or of what is still there.
        seconds: the shortest stay, or the longest time between two events.
        least, most: COUNT is met while at least, or at most, so many are there.
        between: minutes of every local day in which it may fire.
        cooldown_s: after it has fired, it does not for so long.
    """

    name: str
    when: str
    form: Form
    filters: Filters
    then: Filters = NOTHING
    seconds: float = 0.0
    least: int | None = None
    most: int | None = None
    between: tuple[int, int] | None = None
    cooldown_s: float = 0.0

    @property
    def asks_absence(self) -> bool:
        """True where it is met by few being there."""
        return self.most is not None

    def restated(self, local: LocalTime) -> str:
        """The rule in plain words, so that people see how it was understood."""
        first, then = (restate(Question(each), local) for each in (self.filters, self.then))
        span = duration_words(self.seconds)
        if self.form is Form.COUNT:
            number = f"At least {self.least}" if self.most is None else f"Fewer than {self.most + 1}"
            first = f"{number if self.most != 0 else 'No'} {first[0].lower()}{first[1:]}"
            first += f", for {span}" if self.seconds else ""
        elif self.form is Form.STAY:
            first += f", for longer than {span}" if self.seconds else ", each that comes"
        elif self.form is Form.STILL:
            first += f"; {span} later still there: {then}"
        elif self.form in (Form.THEN, Form.NEVER):
            first += f"; within {span}{' not' if self.form is Form.NEVER else ''}: {then}"
        return ", ".join(filter(None, (first, span_words(Span(between=self.between), local))))


class RecordedFact(NamedTuple):
    """A sentence of a record, as rules see it; times in microseconds since 1970.

    Attributes:
        record: names it.
        time: of the record.
        at: when it happened.
        other, track: ids of its camera, of whom or what it was done with and of itself; None without one.
    """

    record: str | int
    time: int
    at: int
    kind: str
    action: str | None
    object: str
    colour: str
    confidence: float
    counted: bool
    other: str | int | None
    track: str | int | None
    text: str


@dataclass(slots=True)
class Matcher:
    """Filters, tried on one sentence after another.

    Attributes:
        objects, open_classes, kinds, actions: names in records that meet them.
    """

    filters: Filters
    objects: frozenset[str] = frozenset()
    open_classes: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()
    _spoken: dict[str, set[str]] = field(default_factory=dict)
    _places: list[RecordPlace] = field(default_factory=list)
    _known: dict[tuple[str, str], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look the words up once."""
        filters = self.filters
        for word in filters.objects:
            names, spoken = objects_of(word, {word})
            for name in names:
                self._spoken.setdefault(name, set()).add(spoken if spoken != name else "")
        self.objects = frozenset(self._spoken)
        self.open_classes = frozenset(open_classes_of(filters.objects))
        self._places = [RecordPlace(zone) for zone in filters.zones]
        meant = {CAME: ARRIVALS[:1], LEFT: DEPARTURES[:1]}
        self.kinds = frozenset(each for kind in filters.kinds for each in meant.get(kind, (kind,)))
        self.actions = frozenset(filters.kinds) - {LEFT}
        if self._places and {CAME, LEFT} & {*filters.kinds}:
            self.kinds |= {"moved"}

    def happens(self, fact: RecordedFact) -> int:
        """Whether a sentence is an event of these filters: `YES`, `MAYBE` or `NO`."""
        acts = fact.action in self.actions or (fact.counted and fact.kind in self.kinds)
        return self._about(fact, self.filters.kinds) if acts else NO

    def stands(self, fact: RecordedFact) -> int:
        """Whether a sentence has what it is about there."""
        return NO if fact.kind in DEPARTURES else self._about(fact, (CAME,))

    def _about(self, fact: RecordedFact, kinds: tuple[str, ...]) -> int:
        filters, sure = self.filters, YES
        if self.objects:
            if fact.object in self.objects:
                spoken = self._spoken[fact.object]
                if "" not in spoken and not any(word in fact.text for word in spoken):
                    return NO
            elif fact.object in self.open_classes:
                sure = MAYBE
            else:
                return NO
        if filters.colours and fact.colour not in filters.colours:
            return NO
        if filters.confidence is not None and fact.confidence < filters.confidence:
            return NO
        if not self._places:
            return sure
        key = fact.text, fact.kind
        if key not in self._known:
            if len(self._known) > 100_000:  # noqa: PLR2004 - texts name durations
                self._known.clear()
            self._known[key] = any(place.holds(*key, kinds) for place in self._places)
        return sure if self._known[key] else NO
