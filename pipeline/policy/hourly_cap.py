"""The hourly cap: so many records of a camera within any hour; then a silence, which is told and ends.

A silence begins with the narration that finds the hour full, and ends when a quarter of it has room again, so
that a flood that goes on is a few long silences and not a great many short ones. Both are worth a `Notice`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from models.sentences import Sentence
from pipeline.narration.narration import CapEvent, Narration

HOUR = timedelta(hours=1)

_ROOM = 4  # a silence ends when one part in so many has room
_SHOWN = 5  # kinds that are worded

SaidKind = tuple[str, str]
"""Type and object of a sentence."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What is told of a silence.

    Attributes:
        event: whether it begins or ends.
        text: in words.
        counts: by type and object, sentences told in the hour before, or held back meanwhile.
        until: when the camera is heard again, where that is still to come.
        fallback: why the captioner did not tell what was counted; empty where it did.
    """

    event: CapEvent
    text: str
    counts: tuple[tuple[str, str, int], ...]
    until: datetime | None = None
    fallback: str = ""

    def narration(self, latest: Narration) -> Narration:
        """As a narration of the frames that were looked at last."""
        said = Sentence(self.text, type="none", object="scene", box=None, salience=1.0, confidence=1.0)
        return replace(
            latest,
            id=f"{latest.id}-{self.event.value}",
            event=self.event,
            sentences=(said,),
            counts=self.counts,
            until=self.until,
            abstained="",
            fallback=self.fallback,
        )


@dataclass(slots=True)
class _Silence:
    """From `since` to `until`; `held` are the sentences held back, the last ones at `last`."""

    since: datetime
    until: datetime
    last: datetime
    fallback: str = ""
    held: Counter[SaidKind] = field(default_factory=Counter)


class HourlyCap:
    """Counts the records of a camera that the captioner told, or those that it did not.

    Args:
        most: records within any hour; None is no cap.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        self._records: deque[tuple[datetime, tuple[SaidKind, ...]]] = deque()
        self._silence: _Silence | None = None
        self._notices: list[Notice] = []

    @property
    def silent_until(self) -> datetime | None:
        """When the silence ends; None where there is none."""
        return self._silence.until if self._silence else None

    def follow(self, earlier: HourlyCap) -> None:
        """Go on from what another cap has counted."""
        self._records = earlier._records

    def count(self, time: datetime, kinds: Iterable[SaidKind]) -> None:
        """A record is told, whose after frame is of this time."""
        self._records.append((time, tuple(kinds)))

    def resume(self, since: datetime, until: datetime) -> None:
        """Go on with a silence that an earlier process has told; `forget` it where that told its end, too."""
        self._silence = _Silence(since, until, since)

    def forget(self) -> None:
        """There is no silence, or it was told that it is over."""
        self._silence = None

    def advance(self, now: datetime) -> None:
        """Forget what is over; after a step of the clock to the past what was told counts as told now."""
        self._records = deque((min(at, now), kinds) for at, kinds in self._records if at > now - HOUR)
        if self._silence:
            self._silence.until = min(self._silence.until, now + HOUR)
            if now >= self._silence.until:
                self.end()

    def holds_back(self, now: datetime, kinds: Iterable[SaidKind], fallback: str = "") -> bool:
        """Whether sentences of these kinds are held back now; the first ones begin a silence.

        Args:
            now: of the after frame.
            kinds: of the sentences.
            fallback: why the captioner did not tell them; empty where it did.
        """
        if self._silence is None:
            if self.most is None or len(self._records) < self.most:
                return False
            self._silence = self._begin(now, self.most, fallback)
        self._silence.last = now
        self._silence.held.update(kinds)
        return True

    def end(self) -> None:
        """End the silence, if there is one; what an earlier process held back is known to nobody."""
        silence, self._silence = self._silence, None
        if silence and silence.held:
            text = (
                f"Held back from {_clock(silence.since)} to {_clock(silence.last)} UTC by the hourly limit: "
                f"{_worded(silence.held)}."
            )
            self._notices.append(
                Notice(CapEvent.ENDED, text, _counts(silence.held), fallback=silence.fallback)
            )

    def notices(self) -> Iterator[Notice]:
        """What is to be told of silences since the last time, in order."""
        given, self._notices = self._notices, []
        yield from given

    def _begin(self, now: datetime, most: int, fallback: str) -> _Silence:
        times = sorted(at for at, _ in self._records)
        until = times[len(times) - most + (most - 1) // _ROOM] + HOUR
        counts = Counter(kind for _, kinds in self._records for kind in kinds)
        end = _clock(until + timedelta(seconds=59, microseconds=999999))  # a minute that has begun counts
        reason = (
            f"{most} record{'s' * (most != 1)}{' without the captioner' if fallback else ''} within an hour"
        )
        text = f"{reason}: nothing more{' of that kind' if fallback else ''} is told until {end} UTC."
        self._notices.append(Notice(CapEvent.REACHED, text, _counts(counts), until, fallback))
        return _Silence(now, until, now, fallback)


def _clock(time: datetime) -> str:
    return f"{time:%H:%M}"


def _counts(kinds: Counter[SaidKind]) -> tuple[tuple[str, str, int], ...]:
    """The most frequent first, then by name, so that equal counts stand in one order."""
    ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    return tuple((*kind, count) for kind, count in ordered)


def _worded(kinds: Counter[SaidKind]) -> str:
    """Such as "person appeared (7), car disappeared (5)"."""
    counts = _counts(kinds)
    shown = [
        f"{thing} ({count})" if kind in ("none", "unknown") else f"{thing} {kind} ({count})"
        for kind, thing, count in counts[:_SHOWN]
    ]
    if rest := sum(count for *_, count in counts[_SHOWN:]):
        shown.append(f"others ({rest})")
    return ", ".join(shown)
