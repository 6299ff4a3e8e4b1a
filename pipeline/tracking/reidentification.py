"""Re-identification: who appears may be someone who left. It names an earlier track, and joins none.

A person's track has the mean of some embeddings of unhidden views. Of those who are no longer there the most
alike is named where the probability, logistic in the cosine, is high. The logistic was fitted to people of
the validation clips, late views against early ones, and to entrances at which nobody returned (ADR 0023).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, intersection
from models.captioner import TrackingWeights
from pipeline import settings
from pipeline.tracking.tracks import ENTRANCES, Event, Floats, Track

Embed = Callable[[NDArray[np.uint8], Floats], NDArray[np.float32]]
"""From an image RGB ``(h, w, 3)`` and boxes ``(N, 4)`` in shares of it to unit vectors ``(N, D)``."""


@dataclass(slots=True, eq=False)
class _Appearance:
    """Views of a track, and when it was seen last."""

    last_s: float
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    viewed_s: float = -1e9

    @property
    def mean(self) -> NDArray[np.float32]:
        total = np.sum(self.vectors, axis=0)
        return np.asarray(total / np.linalg.norm(total), np.float32)


class Reidentification:
    """Remembers people of one camera by what they look like."""

    def __init__(self, embed: Embed, weights: TrackingWeights) -> None:
        self._embed, self._weights = embed, weights
        self._open: dict[str, _Appearance] = {}
        self._left: dict[str, _Appearance] = {}

    def update(
        self, time_s: float, tracks: Sequence[Track], image: NDArray[np.uint8], events: Sequence[Event]
    ) -> list[Event]:
        """Take the next frame's tracks; its events, entrances with `same_as` where that is known."""
        seen = [track for track in tracks if track.unseen_s == 0 and track.family == "person"]
        for track in seen:
            self._open.setdefault(track.id, _Appearance(time_s)).last_s = time_s
        self._view(time_s, seen, image)
        events = [self._with_identity(event, tracks) for event in events]
        self._forget(time_s, {track.id for track in tracks if track.state != "ended"})
        return events

    def _view(self, time_s: float, seen: Sequence[Track], image: NDArray[np.uint8]) -> None:
        due = [t for t in seen if self._is_due(time_s, t.id) and _is_clear(t.last.box, seen, image.shape[0])]
        due = sorted(due, key=lambda track: len(self._open[track.id].vectors))[: settings.VIEWS_AT_ONCE]
        if not due:
            return
        vectors = self._embed(image, np.array([track.last.box for track in due]))
        for track, vector in zip(due, vectors, strict=True):
            own = self._open[track.id]
            own.viewed_s = time_s
            own.vectors = [*own.vectors[-settings.VIEWS_MOST + 1 :], vector]

    def _is_due(self, time_s: float, track: str) -> bool:
        own = self._open[track]
        every_s = settings.LOOK_S if len(own.vectors) < settings.VIEWS_FIRST else settings.VIEW_LATER_S
        return time_s - own.viewed_s >= every_s

    def _with_identity(self, event: Event, tracks: Sequence[Track]) -> Event:
        own = self._open.get(event.track)
        first_s = next((t.first.time_s for t in tracks if t.id == event.track), None)
        fewest = settings.VIEWS_FEWEST
        if event.kind not in ENTRANCES or own is None or first_s is None or len(own.vectors) < fewest:
            return event
        left = [(name, each) for name, each in self._left.items() if each.last_s < first_s]
        alike = [(float(each.mean @ own.mean), name) for name, each in left if len(each.vectors) >= fewest]
        if not alike:
            return event
        cosine, best = max(alike, key=itemgetter(0))
        slope, offset = self._weights.same_person.tolist()
        p = 1 / (1 + exp(-slope * cosine - offset))
        return replace(event, same_as=(best, p)) if p >= settings.SAME_PERSON_P else event

    def _forget(self, time_s: float, there: set[str]) -> None:
        for name in [name for name in self._open if name not in there]:
            self._left[name] = self._open.pop(name)
        since_s = time_s - settings.REMEMBERED_S
        known = [(name, e) for name, e in self._left.items() if e.vectors and e.last_s >= since_s]
        self._left = dict(known[-settings.MOST_KEPT :])


def _is_clear(box: Box, seen: Sequence[Track], height: int) -> bool:
    """Large enough, and neither cut by the frame's edge nor hidden."""
    x, y, w, h = box
    is_cut = min(x, y, 1 - x - w, 1 - y - h) < settings.EDGE_SHARE
    if h * height < (settings.VIEW_CUT_PIXELS if is_cut else settings.VIEW_PIXELS):
        return False
    hidden = (intersection(box, track.last.box) for track in seen if track.last.box != box)
    return max(hidden, default=0.0) <= settings.COVERED_SHARE * w * h
