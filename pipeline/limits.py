"""Limits on messages: what keeps a busy camera from flooding its readers. The record is never limited.

All of them go by the times of the frames, so that a replay of the same footage holds back the same. A
narration beyond a limit is journalled and streamed like any other, marked with the limit that holds it from
messages and from the page's first view:

* cooldown: of each camera a kind of event (type, family of the object, place) is sent once within so many
  seconds. What is held does not prolong that: rain on a lens is sent every 20 seconds, not once and never
  again.
* hourly: of each camera so many narrations are sent within any hour.
* summary: what happens at this camera all the time (`MinuteSummary.is_usual`) is held, and so is what goes
  beyond so many sentences within a minute; one further record at the end of the minute counts the events of
  the minute and names those that it held.

Where a clock steps back, what was sent in the future counts as sent now, so that no limit lasts longer than
it says.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.captioner import PlacedSentence, Sentence
from models.families import FIXTURES, KINDS, family_of
from models.language.catalogue import N_, _, ngettext
from models.language.places import Zone, place_bin, zone_of
from models.language.templates import PAST, noun_phrase

HOUR = timedelta(hours=1)

_MINUTES, _KNOWN = 60, 30  # minutes with events by which a camera is known, and from how many on it is
_MANY = 6  # events of a kind within a minute: who reads one every ten seconds reads none
_AT_FIRST = 9  # sentences about tracks within a minute of a camera that is not known yet

_Kind = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """Limits on messages; None is no limit."""

    cooldown_s: float | None = 20.0  # a kind of event is sent once within this
    max_per_hour: int | None = 60  # narrations within any hour
    per_minute: int | None = 20  # sentences within a minute, the summary of the others among them


NO_LIMITS = LimitOptions(None, None, None)  # everything is sent


class MessageLimits:
    """Limits of a camera's messages, in order of time; what stands in one of `zones` is of that place."""

    def __init__(self, options: LimitOptions, zones: Sequence[Zone] = ()) -> None:
        self.options, self.zones = options, zones
        self._last_sent: dict[_Kind, datetime] = {}
        self._sent: deque[datetime] = deque()

    def inherit(self, earlier: MessageLimits) -> None:
        """Continue with what other limits of the same camera remember, whatever their options were."""
        self._last_sent, self._sent = earlier._last_sent, earlier._sent

    def hold(self, time: datetime, event: str, sentences: Sequence[PlacedSentence]) -> str:
        """Why a narration is held from messages, empty where it is sent; it is remembered then."""
        self._advance(time)
        if self.options.cooldown_s and all(self._kind(event, each) in self._last_sent for each in sentences):
            return "cooldown"
        if self.at_hourly_limit:
            return "hourly"
        self.remember(time, event, sentences)
        return ""

    def remember(self, time: datetime, event: str, sentences: Sequence[PlacedSentence]) -> None:
        """Take note of what was sent, also by an earlier process: a restart is no way around a limit."""
        self._sent.append(time)
        self._last_sent.update((self._kind(event, each), time) for each in sentences)

    @property
    def at_hourly_limit(self) -> bool:
        """True where the camera's next narration would be held, by the time of its last one."""
        return self.options.max_per_hour is not None and len(self._sent) >= self.options.max_per_hour

    def _advance(self, now: datetime) -> None:
        oldest = now - timedelta(seconds=self.options.cooldown_s or 0.0)
        latest = {kind: min(at, now) for kind, at in self._last_sent.items()}
        self._last_sent = {kind: at for kind, at in latest.items() if at > oldest}
        self._sent = deque(min(at, now) for at in self._sent if min(at, now) > now - HOUR)

    def _kind(self, event: str, sentence: PlacedSentence) -> _Kind:
        box = sentence.after or sentence.before or sentence.box
        if event != "change" or box is None:
            return event, sentence.object, ""
        if sentence.object in FIXTURES:  # a gate that has closed again is news
            return sentence.action or "", sentence.object, str(place_bin(box))
        zone = zone_of(box, self.zones)
        return sentence.type, family_of(sentence.object), zone.phrase if zone else str(place_bin(box))


class MinuteSummary:
    """The events of one camera by the minute of their after frames.

    Of a minute `most` sentences are sent, None is all: the last one is the summary, the one before is kept
    for what happens to the camera. What is usual here is learnt from `minutes`, the latest in which anything
    happened: how many events of each kind, action and family.
    """

    def __init__(self, most: int | None) -> None:
        self.minutes = deque[Mapping[str, int]](maxlen=_MINUTES)
        self._most = most
        self._minute: datetime | None = None
        self._ids: list[str] = []
        self._further = False  # some of these have no event that can be counted
        self._counts: Counter[_Kind] = Counter()
        self._kinds: Counter[str] = Counter()  # of tracks
        self._sent = 0

    def is_over(self, time: datetime) -> bool:
        return self._minute is not None and _minute(time) != self._minute

    def is_usual(self, event: _Kind) -> bool:
        """True of what is no news here: half of the minutes had many events of its kind."""
        counts = sorted(minute.get(_kind_of(event), 0) for minute in self.minutes)
        is_known = len(counts) >= _KNOWN and self._most is not None
        return is_known and counts[len(counts) // 2] >= _MANY

    def add(
        self,
        time: datetime,
        narration_id: str,
        events: Sequence[_Kind],
        held: str = "",
        *,
        of: str = "track",
        sentences: int = 1,
    ) -> str:
        """Count a narration's events, and take it into the summary where it is usual, or one too many.

        It is `of` a track, a pair or the camera; what is `held` by another limit takes no place.
        Returns why it is held, empty where it is sent. Call `close` first where a minute is over.
        """
        self._minute = _minute(time)
        self._counts.update(events)
        if of == "track":
            self._kinds.update(map(_kind_of, events))
        if not held and self._most is not None:
            room = self._most - (1 if of == "camera" or (of == "pair" and not self._sent) else 2)
            if of == "track" and len(self.minutes) < _KNOWN:
                room = min(room, _AT_FIRST)
            if self._sent + sentences > room:
                held = "summary"
            else:
                self._sent += sentences
        if held == "summary":
            self._ids.append(narration_id)
            self._further |= of != "track" and not _count_words(Counter(events))
        return held

    def close(self) -> tuple[Sentence, tuple[str, ...]] | None:
        """The sentence about the minute and the ids of the narrations held; None where none was."""
        ids, self._ids, self._minute = tuple(self._ids), [], None
        counts, self._counts, self._sent = self._counts, Counter(), 0
        self.minutes.extend([self._kinds] if self._kinds else [])
        self._kinds, further, self._further = Counter(), self._further, False
        if not ids:
            return None
        counted = _count_words(counts)
        words = [counted] * bool(counted) + [_("further changes")] * (further or not counted)
        text = _("Within a minute: {events}.").format(events=", ".join(words))
        return Sentence(text, "none", "scene", None, salience=1.0, confidence=1.0), ids


def _kind_of(event: _Kind) -> str:
    return f"{event[0]} {family_of(event[1])}"


def _minute(time: datetime) -> datetime:
    return time.replace(second=0, microsecond=0)


_SIDES = {
    "far": N_("at the back"),  # "came in in the background" is no English
    "near": N_("at the front"),
    "left": N_("on the left"),
    "right": N_("on the right"),
}


def _count_words(counts: Counter[_Kind]) -> str:
    """Such as "23 cars came in on the left, 6 people left on the right", the most frequent first."""
    known = [(n, *kind) for kind, n in counts.items() if kind[0] in PAST and kind[1] in KINDS]
    parts = []
    for count, action, name, edge in sorted(known, key=lambda each: (-each[0], each[1:])):
        did, place = ngettext(*PAST[action], count), _(_SIDES.get(edge, ""))
        some = _("{some} {did} {place}").format(some=noun_phrase(name, count), did=did, place=place)
        parts.append(some.strip())
    return ", ".join(parts)
