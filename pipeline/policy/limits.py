"""Limits: what keeps a busy camera from flooding its readers.

All of them go by the times of the frames, so that a replay of the same footage holds back the same:

* cooldown: of each camera a kind of change (type, family of the object, place in the picture) is told at
  most once within so many seconds. What is suppressed does not prolong that: rain on a lens is told every
  20 seconds, not once and never again.
* merge: narrations within so many seconds of one that is told become one record with it.
* hourly cap: of each camera at most so many records within any hour (`pipeline.policy.hourly_cap`); as
  many more that were told without the captioner, which must not use it up.

A cooldown or an hour begins with what is told, never with what is suppressed. Where a clock steps back,
what was told in the future counts as told now, so that no limit lasts longer than it says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from models.language.places import Zone, place_bin, zone_of
from models.sentences import PlacedSentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import CapEvent, Narration, narration_id
from pipeline.policy.deduplication import family_of
from pipeline.policy.hourly_cap import HourlyCap, Notice, SaidKind

_EVENTS = {event.value for event in SceneEvent if event is not SceneEvent.NONE}

_CooldownKind = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """How much is told at most; None is no limit.

    Attributes:
        merge_s: narrations no later than this after one that is told share its record.
        cooldown_s: a kind of change is told once within this.
        max_per_hour: records within any hour, and as many that the captioner did not tell.
    """

    merge_s: float | None = None
    cooldown_s: float | None = 20.0
    max_per_hour: int | None = 60


NO_LIMITS = LimitOptions(None, None, None)
"""Everything is told."""


class Fate(StrEnum):
    """What becomes of a narration; the values are reasons of the accounts."""

    TOLD = "told"
    MERGED = "merged"
    COOLDOWN = "cooldown"
    CAPPED = "hourly cap"


class Limits:
    """What one camera has told lately; to be asked narration by narration, in order.

    Args:
        options: see there.
        zones: the camera's own places; what stands in one is of that place.

    Attributes:
        dropped: sentences held back, by `Fate`.
    """

    def __init__(self, options: LimitOptions, zones: Sequence[Zone] = ()) -> None:
        self.options, self.zones = options, zones
        self.dropped: Counter[str] = Counter()
        self._last_told: dict[_CooldownKind, datetime] = {}
        self._cap = HourlyCap(options.max_per_hour)
        self._facts_cap = HourlyCap(options.max_per_hour)
        self._open: datetime | None = None

    def follow(self, earlier: Limits) -> None:
        """Go on from what other limits of the same camera remember, whatever their options were."""
        self._last_told = earlier._last_told
        self._cap.follow(earlier._cap)
        self._facts_cap.follow(earlier._facts_cap)

    def remember(
        self,
        time: datetime,
        event: str,
        sentences: Sequence[PlacedSentence],
        *,
        fallback: bool = False,
        until: datetime | None = None,
    ) -> None:
        """Take note of a record that an earlier process wrote, so that a restart is no way around a limit.

        Args:
            time: of its after frame.
            event: its scene event, or another word where there is none.
            sentences: what it tells.
            fallback: it was told without the captioner.
            until: when a camera at its cap is heard again.
        """
        cap = self._facts_cap if fallback else self._cap
        if event == CapEvent.REACHED and until:
            cap.resume(time, until)
        elif event == CapEvent.ENDED:
            cap.forget()
        if event in set(CapEvent):
            return
        cap.count(time, _said(sentences))
        self._last_told.update((self._kind(event, sentence), time) for sentence in sentences)

    def admit(self, narration: Narration) -> tuple[Narration, Fate]:
        """Decide about a narration, and remember it where it is told.

        Args:
            narration: the camera's next one, with sentences.

        Returns:
            With TOLD the narration without the sentences held back, which begins a record; with MERGED the
            same, which belongs to the record begun last; with the others the narration, which is not told.
        """
        now = narration.after.time
        self.advance(now)
        event = narration.event.value
        kept = tuple(s for s in narration.sentences if self._kind(event, s) not in self._last_told)
        if not kept:
            self.dropped[Fate.COOLDOWN] += len(narration.sentences)
            return narration, Fate.COOLDOWN
        merged = self._open is not None and narration.event is SceneEvent.NONE
        facts = bool(narration.fallback) and self._cap.silent_until is None
        cap = self._facts_cap if facts else self._cap
        if not merged and cap.holds_back(now, _said(kept), narration.fallback if facts else ""):
            self.dropped[Fate.CAPPED] += len(narration.sentences)
            return narration, Fate.CAPPED
        self._last_told.update((self._kind(event, sentence), now) for sentence in kept)
        if len(kept) < len(narration.sentences):
            self.dropped[Fate.COOLDOWN] += len(narration.sentences) - len(kept)
            narration = replace(narration, sentences=kept)
        if merged:
            return narration, Fate.MERGED
        cap.count(now, _said(kept))
        mergeable = self.options.merge_s is not None and narration.event is SceneEvent.NONE
        self._open = now if mergeable else None
        return narration, Fate.TOLD

    def close(self) -> None:
        """The record begun last is written: nothing can be merged into it any more."""
        self._open = None

    def open_at(self, time: datetime) -> bool:
        """Whether a narration whose after frame is of this time could still be merged."""
        if self._open is None or self.options.merge_s is None:
            return False
        return 0 <= (time - self._open).total_seconds() <= self.options.merge_s

    @property
    def silent_until(self) -> datetime | None:
        """When the camera is heard again, which is at its hourly cap now; else None."""
        ends = [cap.silent_until for cap in self._caps]
        return max((end for end in ends if end), default=None)

    def notices(self) -> list[Notice]:
        """What is to be told of the hourly cap since the last time, in order."""
        return [notice for cap in self._caps for notice in cap.notices()]

    def end_silences(self) -> None:
        """Nothing is held back any more, or nothing more will come."""
        for cap in self._caps:
            cap.end()

    def advance(self, now: datetime) -> None:
        """Forget what is over at the time of a frame."""
        oldest = now - timedelta(seconds=self.options.cooldown_s or 0.0)
        latest = {kind: min(at, now) for kind, at in self._last_told.items()}
        self._last_told = {kind: at for kind, at in latest.items() if at > oldest}
        for cap in self._caps:
            cap.advance(now)
        if not self.open_at(now):
            self._open = None

    @property
    def _caps(self) -> tuple[HourlyCap, HourlyCap]:
        return self._cap, self._facts_cap

    def _kind(self, event: str, sentence: PlacedSentence) -> _CooldownKind:
        if event in _EVENTS:
            return event, "scene", ""
        box = sentence.after or sentence.before or sentence.box
        if box is None:
            return sentence.type, family_of(sentence.object), ""
        zone = zone_of(box, self.zones)
        return sentence.type, family_of(sentence.object), zone.phrase if zone else str(place_bin(box))


def _said(sentences: Iterable[PlacedSentence]) -> list[SaidKind]:
    return [(sentence.type, sentence.object) for sentence in sentences]


def joined(parts: Sequence[Narration], l2: float) -> Narration:
    """One narration of several of a camera, in their order.

    Args:
        parts: at least one, of equal settings, without scene events.
        l2: L2 distance between the earliest before and the last after frame, 0..255 grey levels.

    Returns:
        From the earliest before frame to the last after frame; what is said of when something happened
        stays true, but the boxes are those of each part's own two frames.
    """
    first, last = min(parts, key=lambda part: part.before.time), parts[-1]
    sentences = tuple(
        sentence
        if sentence.moment_s is None
        else replace(
            sentence, moment_s=sentence.moment_s + (part.before.time - first.before.time).total_seconds()
        )
        for part in parts
        for sentence in part.sentences
    )
    return replace(
        last,
        id=narration_id(last.camera, first.before, last.after, last.model, last.settings_sha256),
        before=first.before,
        sentences=sentences,
        l2=l2,
        abstained=next((part.abstained for part in parts if part.abstained), ""),
        fallback=next((part.fallback for part in parts if part.fallback), ""),
    )
