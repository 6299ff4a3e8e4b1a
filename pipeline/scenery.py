"""Scenery: places where something was reported that never moved. Nothing is reported there again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from models.boxes import Box, intersection, iou
from models.families import THINGS, family_of
from pipeline import settings
from pipeline.tracking import Event, Track
from pipeline.tracking.motion import sizes_apart
from pipeline.tracking.types import DEPARTURES, ENTRANCES


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
        track, box = tracks.get(event.track), event.box_after or event.box_before
        if track is None or box is None or event.kind not in (*ENTRANCES, *DEPARTURES):
            return False
        apart = (sizes_apart(track.first.box, each.box, aspect) for each in track.observations)
        if max(apart) > settings.REST_SIZES:
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
