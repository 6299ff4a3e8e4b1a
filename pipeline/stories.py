"""Repetitions: one object that keeps moving is reported once.

A camera that sees somebody for twenty seconds proposes six pairs, and each of them is right: he appeared, he
moved, he moved, he is gone. A person who reads them wants two sentences. Of each camera it is remembered
what was reported within the last `STORY_S`, and a sentence that only repeats it is dropped:

* "there already": it *appeared*, but a sentence (reported or dropped) of the last `STORY_AGAIN_S` had it
  there. Later than that the picture is believed: that it left was missed.
* "moving on": it *moved*, and it came to where it was less than `STORY_S` ago, or it only stirs. What had
  been at rest that long (a parked car, somebody at a desk), or was never reported, is reported.
* "gone already": it is *gone*, as was reported of the frame with which this pair begins.

Appeared and disappeared of one object are both kept, however briefly it stayed; who comes and goes within a
few seconds gives only one pair (see `pipeline.pairs`), after which nothing is remembered of him. Replaced
objects, scene events and sentences without a box are always reported. After a restart a sentence may be
reported that would have been dropped.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from models import families
from models.boxes import Box, area, intersection, iou
from models.captioner import Sentence
from pipeline import settings
from pipeline.changes import SceneEvent
from pipeline.narration.narration import Narration

_ANYTHING = {"something", "unknown"}
_COMES, _GOES = {"appeared", "more"}, {"disappeared", "fewer"}


@dataclass(slots=True)
class _KnownObject:
    """An object that was reported at a place."""

    family: str  # of its class; "any" fits every other
    box: Box  # where it was last mentioned
    count: int  # how many were reported as one
    since: datetime  # when it came to this place, at the latest
    mentioned: datetime  # when it was last there, in a sentence reported or dropped


class Stories:
    """The objects that one camera has reported lately; takes its narrations in order."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()  # sentences, by the reasons above
        self._things: list[_KnownObject] = []
        self._gone: list[_KnownObject] = []

    def follow(self, narration: Narration, *, returned: bool = False) -> Narration:
        """The narration without repetitions. `returned`: the scene was soon as before, see `FramePair`."""
        if narration.event is not SceneEvent.NONE:
            if narration.event is not SceneEvent.LIGHT:
                self._things, self._gone = [], []
            return narration
        self._stay_behind(narration.before.time, narration.after.time)
        oldest = narration.after.time - timedelta(seconds=settings.STORY_S)
        self._things = [thing for thing in self._things if thing.mentioned >= oldest]
        kept = [replace(thing) for thing in self._things], list(self._gone)
        reasons: dict[int, str] = {}
        order = sorted(range(len(narration.sentences)), key=lambda k: _turn(narration.sentences[k]))
        gone: list[_KnownObject] = []
        for k in order:
            if reason := self._remember(narration.sentences[k], narration, gone):
                reasons[k] = reason
        self._gone = gone
        if returned:
            self._things, self._gone = kept
        self.dropped.update(reasons.values())
        remaining = tuple(s for k, s in enumerate(narration.sentences) if k not in reasons)
        return replace(narration, sentences=remaining) if reasons else narration

    def _remember(self, sentence: Sentence, narration: Narration, gone: list[_KnownObject]) -> str:
        """Remember a sentence; why it is dropped, or nothing."""
        before, after = narration.before.time, narration.after.time
        was, now = _sides(sentence)
        family = family_of(sentence.object)
        if sentence.type in _GOES and was:
            known = _match(self._unmentioned(after), family, was)
            self._things = [thing for thing in self._things if thing is not known]
            again = known is None and _match((g for g in self._gone if g.mentioned >= before), family, was)
            gone.append(_KnownObject(family, was, sentence.count, after, after))
            return "gone already" if again else ""
        if sentence.type in _COMES and now:
            known = _match(self._things, family, now)
            lately = known and (before - known.mentioned).total_seconds() <= settings.STORY_AGAIN_S
            if known and lately and known.count >= sentence.count:
                known.box, known.mentioned = now, after
                return "there already"
            self._things = [thing for thing in self._things if thing is not known]
            self._things.append(_KnownObject(family, now, sentence.count, after, after))
        elif sentence.type in {"moved", "replaced"} and (place := was or now):
            known = _match(self._unmentioned(after), family, place)
            thing = known or _KnownObject(family, place, sentence.count, after, after)
            if known is None:
                self._things.append(thing)
            rested = (after - thing.since).total_seconds() >= settings.STORY_S
            stirs = bool(was and now and iou(was, now) >= settings.STAYS_IOU)
            if not stirs or sentence.type == "replaced":
                thing.since = after
            thing.box, thing.mentioned = now or place, after
            return "moving on" if known and sentence.type == "moved" and (stirs or not rested) else ""
        return ""

    def _stay_behind(self, before: datetime, after: datetime) -> None:
        """Where a clock was set back, what was reported by the later time counts as just before."""
        if not any(thing.mentioned > after for thing in (*self._things, *self._gone)):
            return
        for things in (self._things, self._gone):
            for thing in things:
                thing.since, thing.mentioned = min(thing.since, before), min(thing.mentioned, before)

    def _unmentioned(self, after: datetime) -> list[_KnownObject]:
        """Objects that no sentence of this narration has named yet: in a queue one goes where another was."""
        return [thing for thing in self._things if thing.mentioned < after]


def family_of(name: str) -> str:
    """The family of an object's name; "any" of what may be anything."""
    return "any" if name in _ANYTHING else families.family_of(name)


def _turn(sentence: Sentence) -> int:
    return 0 if sentence.type in _GOES else 2 if sentence.type in _COMES else 1


def _sides(sentence: Sentence) -> tuple[Box | None, Box | None]:
    """Where it was and where it is; of a captioner that gives one box, this one on both sides."""
    if sentence.before is None and sentence.after is None:
        return sentence.box, sentence.box
    return sentence.before, sentence.after


def _match(things: Iterable[_KnownObject], family: str, box: Box) -> _KnownObject | None:
    """The thing of a family at a place, the one whose box fits best."""
    best, most = None, 0.0
    for thing in things:
        least, largest = sorted((area(thing.box), area(box)))
        near = intersection(thing.box, box) >= settings.SAME_OBJECT_SHARE * least
        near = near and largest <= settings.STORY_ALIKE_RATIO * least
        alike = thing.family == family or "any" in {thing.family, family}
        if near and alike and (fit := iou(thing.box, box)) > most:
            best, most = thing, fit
    return best
