"""Repetitions: what a camera has reported, and does not report again.

A camera that sees somebody for twenty seconds proposes six pairs, and each of them is right: he appeared, he
moved, he moved, he is gone. A person who reads them wants two sentences. Of each camera it is remembered
what was reported within the last `STORY_S`, and a sentence that only repeats it is dropped (`Stories`):

* "there already": it *appeared*, but a sentence (reported or dropped) of the last `STORY_AGAIN_S` had it
  there. Later than that the picture is believed: that it left was missed.
* "moving on": it *moved*, and it came to where it was less than `STORY_S` ago, or it only stirs. What had
  been at rest that long (a parked car, somebody at a desk), or was never reported, is reported.
* "gone already": it is *gone*, as was reported of the frame with which this pair begins.

Appeared and disappeared of one object are both kept, however briefly it stayed; who comes and goes within a
few seconds gives only one pair (see `pipeline.pairs`), after which nothing is remembered of him. Replaced
objects, scene events and sentences without a box are always reported. After a restart a sentence may be
reported that would have been dropped.

Scenery are places where something was reported that never moved. Nothing is reported there again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta

from models.boxes import Box, area, intersection, iou
from models.captioner import Sentence
from models.families import THINGS, family_of
from pipeline import settings
from pipeline.changes import SceneEvent
from pipeline.narration.narration import Narration
from pipeline.tracking import Event, Track
from pipeline.tracking.tracks import DEPARTURES, ENTRANCES, sizes_apart

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
        family = "any" if sentence.object in _ANYTHING else family_of(sentence.object)
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was reported: its family, the track by which, and its box."""

    family: str
    track: str
    box: Box


@dataclass(slots=True)
class Scenery:
    """Objects that one camera has learnt not to report: a bench, a road sign, a shelf, a tree."""

    places: list[Place] = field(default_factory=list)  # the latest ones

    def knows(self, name: str, box: Box) -> bool:
        """True where an object of this kind was reported here and has not moved since."""
        near = (p for p in self.places if iou(p.box, box) > settings.STAYS_IOU)
        return any(p.family == family_of(name) for p in near)

    def learn(self, name: str, box: Box, track: str = "") -> None:
        """Something was reported here that has not moved yet."""
        if not self.knows(name, box):
            self.places = [*self.places[-settings.MOST_KEPT + 1 :], Place(family_of(name), track, box)]

    def filter(self, events: Iterable[Event], tracks: Sequence[Track], aspect: float) -> list[Event]:
        """Events of what is no known scenery; what may be some is learnt by the way.

        A place where something begins to move, or comes to rest, is none.
        """
        if self.places:
            for track in tracks:
                if sizes_apart(track.first.box, track.last.box, aspect) >= settings.MOVED_SIZES:
                    self.places = [place for place in self.places if not _left_or_taken(place, track)]
        by_id = {track.id: track for track in tracks}
        return [event for event in events if not self._repeats(event, by_id, aspect)]

    def _repeats(self, event: Event, tracks: dict[str, Track], aspect: float) -> bool:
        track, box = tracks.get(event.track), event.box
        if track is None or event.kind not in (*ENTRANCES, *DEPARTURES):
            return False
        if track.most_apart(aspect) > settings.REST_SIZES:
            return False
        people = [t.at(event.time_s) for t in tracks.values() if t.family == "person"]
        if event.object in THINGS and any(each and intersection(each, box) for each in people):
            return False  # somebody puts it down or takes it
        known = self.knows(event.object, box)
        self.learn(event.object, box, event.track)
        return known

    def state(self) -> list[dict[str, object]]:
        return [asdict(place) for place in self.places]

    @classmethod
    def of(cls, state: Iterable[dict[str, object]]) -> Scenery:
        return cls([Place(**{**each, "box": tuple(each["box"])}) for each in state])  # type: ignore[arg-type]


def _left_or_taken(place: Place, track: Track) -> bool:
    """True where a track that has moved shows that the object reported at a place is no scenery."""
    if place.track == track.id:
        return True
    ends = [track.first.box, *([track.last.box] if track.rests_since_s is not None else [])]
    return place.family == track.family and any(iou(place.box, end) > settings.STAYS_IOU for end in ends)
