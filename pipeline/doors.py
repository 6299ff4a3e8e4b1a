"""Doors and gates: that one opens or closes, by the look of its place while nothing is in front of it.

Looks are compared by their local correlation, the contrast and structure of SSIM (Wang et al. 2004) without
its luminance: light changes grey levels and contrast, a leaf that moves changes the structure. Where the
surroundings change as well (another view, an obstruction) the look is learnt again, and nothing is reported.
"""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import area, intersection
from models.language.places import Door
from pipeline import settings
from pipeline.sources import polygon_mask
from pipeline.tracking import Event, Track
from pipeline.tracking.tracks import Floats

logger = logging.getLogger(__name__)

_HELD = ("is_open", "seconds", "shown_s", "opened_s", "track")


@dataclass(slots=True, eq=False)
class Doors:
    watched: list[_Watched] = field(default_factory=list)

    @classmethod
    def of(cls, doors: Sequence[Door], state: Iterable[dict[str, Any]] = ()) -> Doors:
        """Watch doors, and take up what an earlier `state` knows of those that are where they were.

        A state that cannot be read, as of another version, is left out.
        """
        watched = [_Watched(door, door.usually == "open") for door in doors]
        try:
            known = {(each["name"], each["polygon"]): each for each in state}
            for each in watched:
                if held := known.get((each.door.name, repr(each.door.polygon))):
                    each.restore(held)
        except (KeyError, ValueError, TypeError) as error:
            logger.warning("ignoring saved doors: %r", error)
            return cls.of(doors)
        return cls(watched)

    def state(self) -> list[dict[str, Any]]:
        return [each.state() for each in self.watched]

    def update(
        self, tracks: Sequence[Track], time_s: float, image: NDArray[np.uint8], quiet_s: float = 0.0
    ) -> Iterator[Event]:
        """What has opened or closed, once it has stayed so for `DOOR_LASTS_S`.

        The frame RGB uint8 ``(height, width, 3)`` is later than all before; for `quiet_s` before it nothing
        moved, and no frame was given.
        """
        for each in self.watched:
            yield from each.update(tracks, time_s, image, quiet_s)

    def clock_set(self, time_s: float) -> None:
        """How long each is as it is now is not known any more."""
        for each in self.watched:
            each.clock_set(time_s)


@dataclass(slots=True, eq=False)
class _Watched:
    door: Door
    is_open: bool  # as it is believed to be
    # grey levels ``(DOOR_PIXELS, DOOR_PIXELS)`` of it closed and open; None where that is not known
    looks: list[Floats | None] = field(default_factory=lambda: [None, None])
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])  # for how long it was closed and open
    shown_s: float = 0.0  # when it was last seen to be as it is believed to be
    opened_s: float | None = None  # when it opened; None where that is not known
    track: str = ""  # names the time for which it is open
    lasting: tuple[Floats, float] | None = None  # the latest look, and since when it lasts

    def update(
        self, tracks: Sequence[Track], time_s: float, image: NDArray[np.uint8], quiet_s: float
    ) -> Iterator[Event]:
        if time_s < self.shown_s:
            self.clock_set(time_s)
        # somebody or something is in front of it, also if it was lost a moment ago
        there = [t for t in tracks if t.unseen_s <= settings.STILL_THERE_S and not t.departed]
        covered = settings.DOOR_COVERED_SHARE * area(self.door.box)
        if any(intersection(track.last.box, self.door.box) > covered for track in there):
            self.lasting = None
            return
        look = self._look(image)
        if self.lasting is None or self._difference(look, self.lasting[0])[0] > settings.DOOR_SAME_SHARE:
            self.lasting = look, time_s
        lasted_s = time_s - self.lasting[1]
        if self.looks[self.is_open] is None:
            if max(lasted_s, quiet_s) >= settings.DOOR_LASTS_S:
                self.looks[self.is_open], self.shown_s = look, time_s
            return
        change = self._compare(look, lasted_s)
        if change == "other":
            yield self._turn(look, time_s)
        elif change == "same":
            self.seconds[self.is_open] += time_s - self.shown_s
            self.shown_s = time_s
            if self._is_unusual and self.seconds[self.is_open] > max(
                settings.DOOR_TRIAL_S, self.seconds[not self.is_open]
            ):
                self.looks.reverse()
                self.seconds.reverse()
                yield self._turn(look, time_s, seen=False)

    def clock_set(self, time_s: float) -> None:
        self.shown_s, self.opened_s, self.lasting = time_s, None, None

    def _compare(self, look: Floats, lasted_s: float) -> str:
        """Whether it looks as in the state that is known ("same", and learnt), "other", or neither yet."""
        known = self.looks[self.is_open]
        assert known is not None  # noqa: S101 - it is learnt
        differs, scene = self._difference(look, known)
        if differs <= settings.DOOR_SAME_SHARE:
            known += 0.02 * (look - known)
            return "same"
        least_s = settings.DOOR_LASTS_S if scene <= settings.DOOR_SCENE_SHARE else settings.DOOR_SCENE_S
        if lasted_s < least_s:
            return ""
        if scene > settings.DOOR_SCENE_SHARE:
            self.looks = [None, None]
        elif differs >= settings.DOOR_DIFFERENT_SHARE and not self._is_ajar(look, differs):
            return "other"
        self.looks[self.is_open] = look
        return "same"

    def state(self) -> dict[str, Any]:
        looks = [
            look if look is None else b64encode(look.astype(np.uint8).tobytes()).decode()
            for look in self.looks
        ]
        held = {name: getattr(self, name) for name in _HELD}
        return {"name": self.door.name, "polygon": repr(self.door.polygon), "looks": looks, **held}

    def restore(self, held: dict[str, Any]) -> None:
        for name in _HELD:
            setattr(self, name, held[name])
        self.looks = [look and _decode(look) for look in held["looks"]]

    @property
    def _is_unusual(self) -> bool:
        return self.is_open != (self.door.usually == "open")

    def _turn(self, look: Floats, time_s: float, *, seen: bool = True) -> Event:
        """Believe that it is in the other state now, since its look began to last."""
        assert self.lasting is not None  # noqa: S101 - it lasts
        began_s, before_s, opens = self.lasting[1], self.shown_s, not self.is_open
        seen = seen and began_s - before_s <= settings.GAP_S
        at_s = before_s if seen else began_s
        since_s = self.opened_s if seen and not opens else at_s
        self.is_open, self.looks[opens], self.shown_s = opens, look, time_s
        self.opened_s = at_s if seen and opens else None
        if opens or not self.track:
            self.track = f"{int(at_s):x}-{self.door.name.replace(' ', '-')}"
        stay_s = None if opens or not seen or since_s is None else at_s - since_s
        return Event(
            "opened" if opens else "closed", self.track, self.door.object, 1.0, at_s,
            settings.DOOR_CONFIDENCE, before_s, time_s, self.door.box, self.door.box, since_s, stay_s,
            line=self.door.name, seen=seen,
        )  # fmt: skip

    def _is_ajar(self, look: Floats, differs: float) -> bool:
        """True where it is still in its unusual state, but looks otherwise: a gate that opens further."""
        usual = self.looks[not self.is_open]
        return self._is_unusual and usual is not None and self._difference(look, usual)[0] > differs

    def _look(self, image: NDArray[np.uint8]) -> Floats:
        height, width = image.shape[:2]
        left, top, right, low = self._around
        part = image[int(top * height) : ceil(low * height), int(left * width) : ceil(right * width)]
        grey = cv2.cvtColor(part, cv2.COLOR_RGB2GRAY)
        return cv2.resize(grey, (settings.DOOR_PIXELS,) * 2, interpolation=cv2.INTER_AREA).astype(np.float64)

    def _difference(self, one: Floats, two: Floats) -> tuple[float, float]:
        """Shares of the door and its surroundings that look different, also where the camera has swayed."""
        left, top, right, low = self._around
        corners = tuple(((x - left) / (right - left), (y - top) / (low - top)) for x, y in self.door.polygon)
        sway = settings.DOOR_SWAY_PIXELS
        inner = np.s_[sway:-sway, sway:-sway]
        door = polygon_mask((corners,), one.shape)[inner]
        scene = ~polygon_mask((corners,), one.shape, margin=settings.DOOR_WINDOW_PIXELS // 2)[inner]
        fits = cv2.matchTemplate(one.astype(np.float32), two[inner].astype(np.float32), cv2.TM_CCOEFF_NORMED)
        shares = []
        for y, x in ((sway, sway), np.unravel_index(int(fits.argmax()), fits.shape)):
            alike = _correlations(one[y : y + len(door), x : x + len(door)], two[inner])
            differs = alike < settings.DOOR_CORRELATION
            shares.append((differs[door].mean(), differs[scene].mean() if scene.any() else 0.0))
        return float(min(each[0] for each in shares)), float(min(each[1] for each in shares))

    @property
    def _around(self) -> tuple[float, float, float, float]:
        """Left, top, right and low end in shares of the frame."""
        x, y, width, height = self.door.box
        across, down = settings.DOOR_RIM_SIZES * width, settings.DOOR_RIM_SIZES * height
        return max(x - across, 0), max(y - down, 0), min(x + width + across, 1), min(y + height + down, 1)


def _correlations(one: Floats, two: Floats) -> Floats:
    """Correlation -1..1 of two looks in the window around each pixel; 1 where both have no structure."""
    window = (settings.DOOR_WINDOW_PIXELS,) * 2

    def shared(a: Floats, b: Floats) -> Floats:
        product, mean_a, mean_b = (cv2.blur(each, window) for each in (a * b, a, b))
        return np.asarray(product - mean_a * mean_b + 12.0)  # noise is no structure

    return np.asarray(shared(one, two) / np.sqrt(shared(one, one) * shared(two, two)))


def _decode(look: str) -> Floats:
    return np.frombuffer(b64decode(look), np.uint8).reshape((settings.DOOR_PIXELS,) * 2).astype(np.float64)
