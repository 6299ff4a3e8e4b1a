"""A rule as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Question, Span
from daemon.questions.restatement import restate, span_words
from pipeline.report.words import duration_words

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
