"""Who crosses a named line, and in which direction."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import sqrt

from models.families import THINGS
from models.language.places import Line
from pipeline import settings
from pipeline.tracking.turns import turn_event
from pipeline.tracking.types import Event, Track


class Crossings:
    """The side of each line on which each track was last; where it changes, the line was crossed."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._sides: dict[tuple[str, int], tuple[float, bool]] = {}  # when last, and whether on its right

    def update(self, tracks: Sequence[Track], time_s: float, aspect: float) -> Iterator[Event]:
        """Crossings that are certain in this frame, of tracks that it shows; `aspect` is width / height."""
        if not self._lines:
            return
        known = {track.id for track in tracks}
        self._sides = {key: side for key, side in self._sides.items() if key[0] in known}
        for track in tracks:
            if track.state != "confirmed" or track.unseen_s > 0 or track.object in THINGS:
                continue
            for n, line in enumerate(self._lines):
                x, y, width, height = track.last.box
                across, beyond = line.side((x + width / 2, y + height))
                if abs(across) < settings.LINE_CLEAR_SIZES * sqrt(width * height):
                    continue
                last_s, right = self._sides.get((track.id, n), (time_s, across > 0))
                self._sides[track.id, n] = time_s, across > 0
                if right != (across > 0) and not beyond:
                    pair = max(last_s, time_s - settings.LINE_LONGEST_S), time_s
                    event = turn_event(track, "crossed", time_s, pair, None, aspect=aspect, rests=False)
                    yield replace(event, line=f"{line.name} {line.ways[right]}")
