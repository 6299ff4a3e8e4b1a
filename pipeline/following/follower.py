"""The follower of a camera: pair by pair, what its objects did, each told once.

Every object is a track through all frames that a pair carries (`models.grounded.tracker`), parked cars and
benches as well. A pair tells of a track that

* came: it is there in the after frame, and nothing that it could have been was there in the before frame;
* went: the other way round, and the frames later than the pair do not show it either;
* set out: it rested before, and is elsewhere now; or came to rest, far from where it was told to be.

Who keeps going is not told again, nor who is found after he was told to be gone. Where a track begins or ends
in doubt (behind another, or where another that looks alike ends or begins) nothing is told: who is behind
somebody comes out again. What else speaks for a fact or against it is its `evidence`, from which its
confidence is made. Who comes and goes between the two frames is in neither, and not told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.boxes import Box
from models.detections import Detections
from models.families import OBJECTS, THINGS, VEHICLES
from models.grounded.linker import looks
from models.grounded.tracker import Tracker
from models.grounded.tracks import Sight, Track
from models.language.facts import Fact
from pipeline.following.confidence import confidence
from pipeline.following.events import apart, doubled, end_of, evidence, in_doubt, through
from pipeline.following.riders import with_riders
from pipeline.pairs import FramePair, small_image
from pipeline.sources import Image, covered

See = Callable[[Sequence[Image]], Sequence[Detections]]
"""Detects: small RGB pictures, uint8 ``(height, width, 3)``, in; what is in each of them out."""

RESTS_S = 2.0
"""What has not left its place for so long rests."""

RESTED_S = 3.0
"""What rested so long has something to tell when it sets out."""

PARKED_S = 3.0
"""A vehicle that came and has rested so long has parked, if none drives meanwhile: else it may only wait."""

LATELY_S = 8.0
"""So long ago it may have set out, where the pair in which it did showed too little of that."""

SETS_OUT = 1.0
"""Own sizes between before and after that are a move."""

AWAY = 3.0
"""Own sizes from where something was told to be, at which its coming to rest is news."""

REMNANT_S = 2.0
"""A track that begins so soon where one was told to be gone is what the edge still shows of it."""

_CUT = 0.7  # of its area that the edge leaves of it
_CHANGED = 20.0  # grey levels that count as one
_RESHAPED = 0.01  # share by which another aspect is another camera
_AGO_S = 60.0  # a clock that goes back further is set anew
_REMEMBERED = 32  # pairs whose answers are kept, more than a batch has
_CROP = 160  # pixels of the width in which changes of a place are measured


@dataclass(slots=True)
class _LastTelling:
    """What was told of a track: where and when that was; where it ended, if it was told to be gone."""

    box: Box
    seconds: float
    gone: bool = False
    end: Sight | None = None


class Follower:
    """Follows one camera, pair by pair in their order; deterministic."""

    def __init__(self) -> None:
        self._answers: dict[tuple[datetime, datetime], list[Fact]] = {}
        self.reset()

    def reset(self) -> None:
        """Forget all objects: the camera shows another view. Answers that were given stay as they are."""
        self._tracker: Tracker | None = None
        self._start: datetime | None = None
        self._stories: dict[int, _LastTelling] = {}

    def lose(self, pair: FramePair) -> None:
        """Take notice of a pair that shows another view; once, also where its batch is asked for again."""
        asked = pair.before.time, pair.after.time
        if asked not in self._answers:
            self._answers[asked] = []
            self.reset()

    def follow(self, pair: FramePair, see: See, number: int = 0) -> list[Fact]:
        """What happened in the camera's next pair.

        Args:
            pair: its frames between and later are followed, too.
            see: detects; asked only for frames that were not seen yet, all at once.
            number: of the pair in its batch.

        Returns:
            The facts, surest first; of all confidences. Who asks once more for one of the last few pairs
            gets the same answer: a batch that failed is asked for again in parts.
        """
        asked = pair.before.time, pair.after.time
        if asked not in self._answers:
            answer = self._answer(pair, see)
            self._answers[asked] = answer
            for oldest in list(self._answers)[:-_REMEMBERED]:
                del self._answers[oldest]
        return [replace(fact, pair=number) for fact in self._answers[asked]]

    def _answer(self, pair: FramePair, see: See) -> list[Fact]:
        """The facts of a pair that was not asked for before."""
        tracker = self._ready(pair)
        frames = self._look(tracker, pair, see)
        moments = self._seconds(pair.before.time), self._seconds(pair.after.time)
        view = _PairTracks(pair, tracker, frames, *moments, _step(pair))
        facts = [fact for track in tracker.tracks for fact in self._facts(track, view)]
        alive = {track.number for track in tracker.tracks}
        self._stories = {k: story for k, story in self._stories.items() if k in alive}
        facts = [fact for fact in facts if not view.masked(fact.box)]
        return sorted(with_riders(facts), key=lambda fact: -fact.confidence)

    def _ready(self, pair: FramePair) -> Tracker:
        """The tracker, a new one where the picture has another shape or the clock went back."""
        height, width = pair.before.image.shape[:2]
        tracker = self._tracker
        back = (
            tracker
            and tracker.seconds is not None
            and self._start
            and (self._seconds(pair.after.time) < tracker.seconds - _AGO_S)
        )
        if tracker is None or back or abs(tracker.aspect / (width / height) - 1) > _RESHAPED:
            self.reset()
            tracker = self._tracker = Tracker(width / height)
            self._start = pair.before.time
        return tracker

    def _seconds(self, time: datetime) -> float:
        assert self._start is not None  # noqa: S101 - set with the tracker
        return (time - self._start).total_seconds()

    def _look(self, tracker: Tracker, pair: FramePair, see: See) -> list[float]:
        """Follow through the frames not seen yet; seconds of all frames of the pair."""
        small = {f.time: f for f in (*pair.between, *pair.later)}
        moments = sorted({pair.before.time, pair.after.time, *small})
        last = tracker.seconds
        new = [t for t in moments if last is None or self._seconds(t) > last + 1e-3]
        ends = {pair.before.time: pair.before, pair.after.time: pair.after}
        pictures = [small[t].image if t in small else small_image(ends[t].image) for t in new]
        for time, picture, found in zip(new, pictures, see(pictures) if new else (), strict=True):
            tracker.step(self._seconds(time), found, _looks(picture, found))
        return [self._seconds(t) for t in moments]

    def _facts(self, track: Track, view: _PairTracks) -> Iterator[Fact]:
        """What a pair has to tell of a track, at most one fact."""
        before, after = track.at(view.before), track.at(view.after)
        if not _has_news(before, after, view.aspect):
            return
        here, absent = (view.before, view.after) if after is None else (view.after, view.before)
        if doubled(track, view.tracker.tracks, here, absent):
            return
        story = self._stories.get(track.number) or self._remnant(track, view)
        if before is None and after is not None and track.first.seconds > view.before:
            if story is None and not in_doubt(track, view.tracker.tracks, coming=True, aspect=view.aspect):
                self._stories[track.number] = _LastTelling(after.box, view.after)
                yield view.came(track, after)
        elif before is not None and after is None and track.last.seconds < view.after:
            doubt = in_doubt(track, view.tracker.tracks, coming=False, aspect=view.aspect)
            if not (doubt or (story and story.gone)):
                self._stories[track.number] = _LastTelling(before.box, view.after, gone=True, end=track.last)
                yield view.went(track, before)
        elif before is not None and after is not None and self._has_moved(track, after, view, story):
            self._stories[track.number] = _LastTelling(after.box, view.after)
            yield view.moved(track, before, after)

    def _remnant(self, track: Track, view: _PairTracks) -> _LastTelling | None:
        """What was told of one who has just gone, or is going, where a track is only the rest of him."""
        _, _, width, height = track.first.box
        ended = [(s.end, s) for s in self._stories.values() if s.end]
        ended += [
            (t.last, _LastTelling(t.last.box, view.after)) for t in view.tracker.tracks if t is not track
        ]
        for end, story in ended:
            soon = 0 < track.first.seconds - end.seconds <= REMNANT_S
            cut = width * height < _CUT * end.box[2] * end.box[3]
            if soon and cut and apart(track.first.box, end.box, view.aspect) <= 1:
                return story
        return None

    def _has_moved(self, track: Track, after: Sight, view: _PairTracks, story: _LastTelling | None) -> bool:
        """Whether it set out, or came to rest far from where it was told to be."""
        rest = _rest(track, view.after)
        if rest and (story is None or story.seconds < rest.seconds):
            return True
        return _rests(track, after) and story is not None and apart(story.box, after.box, view.aspect) >= AWAY


@dataclass(frozen=True, slots=True, eq=False)
class _PairTracks:
    """A pair and all tracks at the end of it.

    Attributes:
        pair: the pair.
        tracker: having seen all of its frames.
        frames: seconds of all its frames, those later included.
        before, after: seconds of these two.
        step: grey levels from before to after, float32 ``(h, w)``, small.
    """

    pair: FramePair
    tracker: Tracker
    frames: Sequence[float]
    before: float
    after: float
    step: NDArray[np.float32]

    @property
    def aspect(self) -> float:
        """Width of the frame over its height."""
        return self.tracker.aspect

    def masked(self, box: Box) -> bool:
        """Whether the middle of a box lies in an area that is not looked at."""
        if not self.pair.masks:
            return False
        height, width = self.pair.before.luma.shape
        x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
        hidden = covered(self.pair.masks, (height, width))
        return bool(hidden[min(int(y * height), height - 1), min(int(x * width), width - 1)])

    def came(self, track: Track, after: Sight) -> Fact:
        """The fact that a track came."""
        (name, by_edge), rests = through(end_of(track, coming=True), self.aspect), _rests(track, after)
        kind, manner = OBJECTS[int(track.label.argmax())], "came in" if by_edge else "arrived"
        if self.pair.returned and track.last.seconds < self.frames[-1] and not rests:
            manner = "crossed"
        elif kind in THINGS and rests:
            manner = "put down"
        elif rests and self._parked(track):
            manner = "parked"
        return Fact(
            0, "appeared", kind, 1, None, after.box, self._sure(track, "appeared"), manner,
            origin=name if by_edge else "", rests=rests, moment_s=track.first.seconds - self.before,
            waited_s=after.seconds - after.since if rests else None,
            path=_path(track, self.before, self.after),
        )  # fmt: skip

    def went(self, track: Track, before: Sight) -> Fact:
        """The fact that a track went."""
        (name, by_edge), rest = through(end_of(track, coming=False), self.aspect), _rest(track, self.after)
        kind = OBJECTS[int(track.label.argmax())]
        manner = "left" if by_edge else "taken away" if kind in THINGS else ""
        if kind in VEHICLES and rest and by_edge:
            manner = "drove off"
        return Fact(
            0, "disappeared", kind, 1, before.box, None, self._sure(track, "disappeared"), manner,
            target=name if by_edge else "", moment_s=track.last.seconds - self.before,
            waited_s=rest.seconds - rest.since if rest else None, path=_path(track, self.before, self.after),
        )  # fmt: skip

    def moved(self, track: Track, before: Sight, after: Sight) -> Fact:
        """The fact that a track moved."""
        dx = (after.box[0] + after.box[2] / 2 - before.box[0] - before.box[2] / 2) * self.aspect
        dy = after.box[1] + after.box[3] - before.box[1] - before.box[3]
        target = ("right" if dx > 0 else "left") if abs(dx) >= abs(dy) else "near" if dy > 0 else "far"
        rest, rests = _rest(track, self.after), _rests(track, after)
        waited = after.seconds - after.since if rests else rest.seconds - rest.since if rest else None
        kind = OBJECTS[int(track.label.argmax())]
        halt = "parked" if self._parked(track) else "stopped"
        return Fact(
            0, "moved", kind, 1, before.box, after.box,
            self._sure(track, "moved"), halt if rests and not rest else "",
            target=target, rests=rests, waited_s=waited, path=_path(track, self.before, self.after),
        )  # fmt: skip

    def _parked(self, track: Track) -> bool:
        """Whether it is a vehicle that drove here and stays, while no other one drives."""
        last = track.last
        others = (t for t in self.tracker.tracks if t is not track and _is_vehicle(t))
        return (
            _is_vehicle(track)
            and last.seconds - last.since >= PARKED_S
            and last.since > track.first.seconds
            and not any(s.seconds > last.since and _goes(s) for t in others for s in t.sights)
        )

    def _sure(self, track: Track, kind: str) -> float:
        return confidence(kind, self.evidence(track, kind))

    def evidence(self, track: Track, kind: str) -> tuple[float, ...]:
        """What speaks for an event of a track, see `EVIDENCE`."""
        coming = {"appeared": True, "disappeared": False}.get(kind)
        end = track.first if coming else track.last
        outside = [t for t in self.frames if (t < end.seconds if coming else t > end.seconds)]
        unsure = 0.0 if coming is None else self.tracker.unclaimed(end.box, outside)
        was, now = track.at(self.before), track.at(self.after)
        changed = max(self._changed(s.box) for s in (was, now) if s)
        return evidence(
            track,
            self.tracker.tracks,
            self.frames,
            coming=coming,
            aspect=self.aspect,
            unsure=unsure,
            changed=changed,
        )

    def _changed(self, box: Box) -> float:
        """How much the pixels at a place differ between before and after, 0..3."""
        height, width = self.step.shape
        rows = slice(int(box[1] * height), max(int((box[1] + box[3]) * height), int(box[1] * height) + 1))
        columns = slice(int(box[0] * width), max(int((box[0] + box[2]) * width), int(box[0] * width) + 1))
        place = np.abs(self.step[rows, columns])
        return float(np.minimum(place, 3 * _CHANGED).mean() / _CHANGED) if place.size else 0.0


def _has_news(before: Sight | None, after: Sight | None, aspect: float) -> bool:
    """Whether it came, went, or is so far from where it was that it may have something to tell."""
    if before and after:
        return apart(before.box, after.box, aspect) >= SETS_OUT
    return before is not after


def _step(pair: FramePair) -> NDArray[np.float32]:
    """Grey levels from before to after, without what the light changed everywhere."""
    step = _grey(pair.after.image) - _grey(pair.before.image)
    return np.asarray(step - np.median(step), np.float32)


def _grey(image: Image) -> NDArray[np.float32]:
    size = (_CROP, max(1, round(image.shape[0] * _CROP / image.shape[1])))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.float32)


def _rests(track: Track, after: Sight) -> bool:
    """Whether it rests, as far as was seen later, at the place where it is in the after frame."""
    return track.last.seconds - track.last.since >= RESTS_S and track.last.since <= after.seconds


def _is_vehicle(track: Track) -> bool:
    return OBJECTS[int(track.label.argmax())] in VEHICLES


def _goes(sight: Sight) -> bool:
    return sight.seconds - sight.since < RESTS_S


def _rest(track: Track, seconds: float) -> Sight | None:
    """The last sight of its last long rest, if it set out from there lately."""
    sights = [s for s in track.sights if seconds - LATELY_S <= s.seconds <= seconds + 1e-6]
    rests = [s for s in sights if s.seconds - s.since >= RESTED_S]
    return rests[-1] if rests and rests[-1].since != sights[-1].since else None


def _path(track: Track, before: float, after: float) -> tuple[tuple[float, float], ...]:
    """Where its feet were from the before frame to the after frame, and not where they went later."""
    here = [s.box for s in track.sights if before <= s.seconds <= after]
    return tuple((_clipped(x + w / 2), _clipped(y + h)) for x, y, w, h in here)


def _clipped(share: float) -> float:
    """The nearest one in 0..1: a lost track's box may lie across the frame's edge."""
    return min(max(share, 0.0), 1.0)


def _looks(picture: Image, found: Detections) -> Tensor:
    """Colours of what was found in a small picture."""
    return looks(torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1))), found.box.cpu())
