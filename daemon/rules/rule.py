"""Rules in words, by the grammar of questions: "a van stands at the gate longer than 10 min"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from daemon.questions.asker import MEANT, REWRITES, Asker, Parser
from daemon.questions.facts import place_name
from daemon.questions.question import (
    MINUTES,
    Filters,
    LocalTime,
    Question,
    SearchError,
    Span,
    not_here,
    parse_hours,
)
from daemon.questions.restatement import restate, span_words
from daemon.questions.words import GROUPS, NUMBERS, UNITS, Reading
from models.language.catalogue import N_, tell
from pipeline.report.words import duration_words

if TYPE_CHECKING:
    from daemon.config.settings import Camera, Configuration, RuleSettings

Hours = tuple[int, int] | None  # minutes of every local day
Rules = dict[str, "tuple[Rule, ...]"]  # by camera

LONGEST_S = 12 * 3600  # of lengths and cooldowns: who begins two days before knows all that matters

_LENGTH = rf"(?:half an?|an?|\d+|{'|'.join(NUMBERS)}) (?:{UNITS})s?"
_VEHICLE = "|".join((*GROUPS["vehicle"], "lorry"))
_REWRITES = [
    *REWRITES,
    # "For 15 min" is at least so long; who leaves a car gets out of it.
    ("for", rf"for (?:at least )?({_LENGTH})", r"longer than \1"),
    (
        "",
        rf"(?:left|leaves|leave) (?:the|an?|his|her|their) ({_VEHICLE})(?! (?:park|lot))",
        r"got out of a \1",
    ),
    ("there", "there (?:is|are)", ""),
]
_STILL = re.compile(
    rf"(?P<first>.+?)(?: and| then)+ (?:the |an? |that )?(?P<then>\S.*?) (?:(?:is|are) )?still "
    rf"(?:(?:stands?|stays?|lies|waits?|is|are) ?)*"
    rf"(?:there)?(?P<place>.*?) ?(?:(?:after|longer than) )(?P<length>{_LENGTH})(?: later)?(?P<rest>.*)"
)
_THEN = re.compile(
    rf"(?P<first>.+?)(?: and| then)+ (?P<no>absent )?(?P<then>\S.*?) within (?P<length>{_LENGTH})(?P<rest>.*)"
)
_OF_SCENE = {"light_changed", "view_changed", "obstructed"}
_UNKNOWN = ("why", "which", "what", "when", "how", "who")
NOTHING = Filters()


class Form(StrEnum):
    EVENT = "event"  # a sentence
    STAY = "stay"  # somebody or something is there for so long
    COUNT = "count"  # so many are there, or fewer
    STILL = "still"  # after an event something is still there
    THEN = "then"  # two events, the second soon after the first
    NEVER = "never"  # an event, and not the second soon after it


_RESTATED = {
    Form.STAY: N_("{first}, each that comes"),
    Form.STILL: N_("{first}; {length} later still there: {then}"),
    Form.THEN: N_("{first}; within {length}: {then}"),
    Form.NEVER: N_("{first}; within {length} not: {then}"),
}
_LASTING = {Form.COUNT: N_("{first}, for {length}"), Form.STAY: N_("{first}, for longer than {length}")}


@dataclass(frozen=True, slots=True)
class Rule:
    name: str  # of the configuration
    when: str  # its words
    form: Form
    filters: Filters  # of its first event, or of who is there
    then: Filters = NOTHING  # of the second event, or of what is still there
    seconds: float = 0.0  # the shortest stay, or the longest time between two events
    least: int | None = None  # least, most: COUNT is met while at least, or at most, so many are there
    most: int | None = None
    between: tuple[int, int] | None = None  # minutes of every local day in which it may fire
    cooldown_s: float = 0.0  # after it has fired, it does not for so long

    @property
    def asks_absence(self) -> bool:
        """True where it is met by few being there."""
        return self.most is not None

    def restate(self, local: LocalTime) -> str:
        first, then = (restate(Question(each), local) for each in (self.filters, self.then))
        span = duration_words(self.seconds)
        if self.form is Form.COUNT:
            fewer = N_("No {what}") if self.most == 0 else N_("Fewer than {most} {what}")
            message = N_("At least {least} {what}") if self.most is None else fewer
            what = f"{first[0].lower()}{first[1:]}"
            first = tell(message, least=self.least, most=(self.most or 0) + 1, what=what)
        messages = _LASTING if self.seconds and self.form in _LASTING else _RESTATED
        first = tell(messages.get(self.form, "{first}"), first=first, then=then, length=span)
        return ", ".join(filter(None, (first, span_words(Span(between=self.between), local))))


def read_rule(
    name: str, when: str, asker: Asker, *, between: tuple[int, int] | None = None, cooldown_s: float = 0.0
) -> Rule:
    """A rule in words, with the cameras, zones and lines that the asker knows; see `Rule`.

    A `SearchError` names the word that is not understood, and what is nearest.
    """
    text = " ".join(Reading.of(when, _REWRITES, MEANT).words)
    if not text or text.split()[0] in _UNKNOWN:
        raise SearchError(f"{when!r} is no rule: write what happens, such as a car parks in the lot")
    if match := _STILL.fullmatch(text) or _THEN.fullmatch(text):
        rule, hours = _of_two(match, asker)
    else:
        rule, hours = _of_one(text, asker)
    given = [each for each in (between, *hours) if each]
    if len(given) > 1:
        raise SearchError("it has hours twice, in its words or under hours: write them once")
    hours_given = next((hours for hours in given if (hours[1] - hours[0]) % MINUTES), None)  # of a day, none
    return _checked(replace(rule, name=name, when=when, between=hours_given, cooldown_s=cooldown_s))


def _of_two(match: re.Match[str], asker: Asker) -> tuple[Rule, list[Hours]]:
    """A rule of an event, and of what is still there or happens after it; and its hours."""
    parts = match.groupdict(default="")
    first, hours, there = _part(parts["first"] + parts["rest"], asker)
    then, more, others = _part(parts["then"] + parts.get("place", ""), asker)
    if there or others:
        raise SearchError("how many are there is a rule of its own: more than 5 people in the lobby")
    form = Form.STILL if "place" in parts else Form.NEVER if parts["no"] else Form.THEN
    if form is Form.STILL and (not first.kinds or then.kinds):
        raise SearchError("a rule with 'still' is an event, and a thing: a person gets out and the car ...")
    if form is not Form.STILL and not then.objects and {*then.kinds} - _OF_SCENE:
        raise SearchError(f"{parts['then']!r} does not say who or what: write a person leaves")
    then = then if form is Form.STILL else _event(then)
    length = Reading.of(parts["length"]).take_duration() or timedelta()
    return Rule("", "", form, _event(first), then, length.total_seconds()), [hours, more]


def _of_one(text: str, asker: Asker) -> tuple[Rule, list[Hours]]:
    """A rule of an event, of a stay, or of how many are there; and its hours."""
    filters, hours, there = _part(text, asker)
    seconds, filters = filters.longer_s or 0.0, replace(filters, longer_s=None)
    if there:
        if filters.kinds:
            raise SearchError("it counts who is there: leave the verb out, or ask for each event")
        low, high = there
        if 0 < low == high:
            raise SearchError("exactly so many is no rule: write at least, or at most")
        least, most = (int(low), None) if high == math.inf else (None, int(high))
        return Rule("", "", Form.COUNT, filters, seconds=seconds, least=least, most=most), [hours]
    if filters.kinds and not seconds:
        return Rule("", "", Form.EVENT, filters), [hours]
    if filters.kinds not in ((), ("waiting",), ("parked",), ("stopped",)):
        raise SearchError("a length goes with who is there, not with what happens: leave the verb out")
    return Rule("", "", Form.STAY, replace(filters, kinds=()), seconds=seconds), [hours]


def _part(words: str, asker: Asker) -> tuple[Filters, Hours, tuple[int, float] | None]:
    """One part of a rule as filters, its hours of every day, and how many are there at least and at most."""
    parser = Parser(asker, Reading.of(words), datetime.now(UTC))
    parser.span.every = True
    parser.take_all()
    filters, there = Filters(**parser.filters), parser.measure.pop("there", None)
    any_number = parser.measure.pop("most", False) and not {"1", "one"} & {*parser.read.words}
    if parser.measure or parser.extreme or any_number:
        raise SearchError(f"{words.strip()!r} asks, and a rule says what happens: a car parks in the lot")
    if filters.other == Filters(objects=("car",)):
        filters = replace(filters, other=None)  # said of any vehicle
    for given, what in (
        (filters.text, "quoted words or a direction"),
        (filters.shorter_s, "a longest length"),
        (filters.other, "which vehicle it was"),
        (filters.lacking or filters.ended or filters.marked, "how a visit ends, or what it is without,"),
        (parser.remarks, " and ".join(repr(word) for word, _ in parser.remarks)),
    ):
        if given:
            raise SearchError(f"{what} cannot be part of a rule")
    if not (filters.objects or filters.kinds):
        raise SearchError(f"{words.strip()!r} names nothing that can happen: write a person, or a car parks")
    if {*filters.kinds} & {"placed", "removed"} and {*filters.objects} & {"somebody", *GROUPS["somebody"]}:
        raise SearchError(
            "who puts down or takes away is not recorded: write a bag is put down, or is taken away"
        )
    if any(len(each) > 1 for each in (filters.objects, filters.zones)) and "and" in words.split():
        raise SearchError("'and' may mean both at once or either: write or, or a rule for each")
    if filters.open:
        raise SearchError("'still' and 'now' go with an event before: a car parks and is still there")
    span = parser.span.span()
    if span.since or span.until:
        raise SearchError(
            f"{parser.span.phrases[0]!r} is one span, and a rule is for every day: write its hours"
        )
    return filters, span.between, there


def _event(filters: Filters) -> Filters:
    """What happens; of what is merely named, that it comes."""
    if filters.longer_s is not None:
        raise SearchError("a length in one of two events is not understood: write within 10 min at the end")
    return filters if filters.kinds else replace(filters, kinds=("came",))


def _checked(rule: Rule) -> Rule:
    present = rule.then if rule.form is Form.STILL else rule.filters
    if rule.form in (Form.STAY, Form.COUNT, Form.STILL) and not present.objects:
        raise SearchError(f"{rule.when!r} does not say who or what is there: write people, or a car")
    for seconds, what in ((rule.seconds, "a length"), (rule.cooldown_s, "the cooldown")):
        if seconds > LONGEST_S:
            raise SearchError(f"{what} is longer than 12 hours: a rule does not look back further")
    if rule.between:
        minutes = (rule.between[1] - rule.between[0]) % MINUTES
        if rule.seconds >= minutes * 60 and rule.form is Form.COUNT:
            raise SearchError("it can never be met: its hours are shorter than its length")
    return rule


def configured_rules(configuration: Configuration) -> Rules:
    """The rules of each camera; a `ConfigurationError` has a line with the word for each not understood."""
    from daemon.config.configuration import ConfigurationError  # noqa: PLC0415 - half of the time to start

    local, problems = LocalTime.named(configuration.timezone), list[str]()
    rules = {name: list[Rule]() for name in configuration.cameras}
    for settings in configuration.rules:
        try:
            rule, cameras = _read_configured(settings, configuration, local)
        except SearchError as error:
            problems.append(f"rules: {settings.name}: {error}")
            continue
        for name in cameras:
            rules[name].append(rule)
    if problems:
        raise ConfigurationError(problems)
    return {name: tuple(each) for name, each in rules.items()}


def _read_configured(
    settings: RuleSettings, configuration: Configuration, local: LocalTime
) -> tuple[Rule, tuple[str, ...]]:
    """A rule, and the cameras that it is about."""
    known = tuple(configuration.cameras)
    for name in settings.cameras:
        if name not in known:
            raise not_here(name, "camera", known)
    cameras = settings.cameras or known
    places = places_of(configuration.cameras[name] for name in cameras)
    doors = frozenset(door.door.object for name in cameras for door in configuration.cameras[name].doors)
    asker = Asker(known, doors, local, places.__contains__, lambda: list(places))
    between = parse_hours(settings.hours) if settings.hours else None
    rule = read_rule(settings.name, settings.when, asker, between=between, cooldown_s=settings.cooldown)
    if said := rule.filters.cameras or rule.then.cameras:
        cameras = tuple(name for name in cameras if name in said)
    if not cameras:
        raise SearchError(f"{settings.when!r} is about another camera than its cameras")
    return replace(rule, filters=replace(rule.filters, cameras=())), cameras


def places_of(cameras: Iterable[Camera]) -> dict[str, None]:
    """What zones and lines are called, lines also with the direction of a crossing."""
    names = dict[str, None]()
    for camera in cameras:
        names |= {place_name(zone.name).lower(): None for zone in camera.zones}
        for line in camera.lines:
            name = place_name(line.name).lower()
            names |= dict.fromkeys((name, *(f"{name} {each.lower()}" for each in line.line.ways)))
    return names
