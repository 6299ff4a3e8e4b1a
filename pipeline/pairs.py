"""Candidate pairs: which two frames of a camera are worth comparing.

Spot-the-diff draws random frames of a video. A camera that is watched needs better: the reference, a frame
of the quiet scene, is compared with each sampled frame, and a pair is proposed once what happened is over
or has lasted long enough to be reported. Live, replay and extraction all come through `candidate_pairs`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline import settings
from pipeline.distance import l2_luma, l2_rgb
from pipeline.sources import Frame, Polygon, polygon_mask
from pipeline.sources.frame import without_picture
from pipeline.thresholds import PairThresholds


class Cause(StrEnum):
    """Why a pair is proposed."""

    CHANGE = "change"
    PAUSE = "pause"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True, eq=False)
class FramePair:
    before: Frame
    after: Frame
    l2: float  # L2 distance under RGB, root mean square over pixels and channels, 0..255 grey levels
    # True where the screening distance lay beyond the upper threshold, so that the pair may be a scene
    # event (light, view, obstructed) rather than a change of objects
    beyond_upper: bool = False
    # CHANGE within watched footage; PAUSE: there was no frame between the two (sparse stills, a camera
    # that was away); BASELINE: slow change, against the quiet scene of some minutes ago
    cause: Cause = Cause.CHANGE
    # True where the scene was as before again soon after `after` (somebody crossed): what came has
    # gone, what went is back, and no pair will tell it
    returned: bool = False
    masks: tuple[Polygon, ...] = ()  # areas that are not looked at, as polygons in shares of the frame
    gap_known: bool = True  # False for stills whose times are made up: the gap between them is unknown

    @property
    def gap_s(self) -> float | None:
        """Seconds between the frames; None where that is not known."""
        return (self.after.time - self.before.time).total_seconds() if self.gap_known else None


def pair_l2(before: Frame, after: Frame, masks: tuple[Polygon, ...] = ()) -> float:
    """L2 distance under RGB, 0..255, of two frames, at after's size; what lies in a mask adds nothing."""
    images = [before.image, after.image]
    height, width = images[1].shape[:2]
    if images[0].shape != images[1].shape:  # the camera's resolution has changed in between
        images[0] = np.asarray(cv2.resize(images[0], (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    if masks:
        hidden = polygon_mask(masks, (height, width))
        images = [np.where(hidden[..., None], np.uint8(0), image) for image in images]
    return l2_rgb(images[0], images[1])[0]


def candidate_pairs(
    frames: Iterable[Frame], thresholds: PairThresholds, masks: tuple[Polygon, ...] = ()
) -> Iterator[FramePair]:
    """Pairs of one camera's frames, sampled and in the order of time, between which something changed.

    * The change settles, or lasts `MAX_WAIT_S`: (reference, current frame); the current frame is the
      new reference. With `beyond_upper` where the whole frame lies beyond the upper threshold.
    * The scene returns to the reference before that (somebody crossed): (reference, the frame that
      differed most, within the upper threshold), once. A flash, all of it beyond the upper threshold,
      is nothing.
    * The object has left by then, but something else remains (the exposure followed a car, a bag was
      put down; the largest block distance is less than half of what it was): two pairs, (reference, the
      frame that differed most) and (that frame, current frame). Else the end frames would not show it.
    * The scene drifts too slowly for a reference that is renewed: (long baseline, current quiet frame).
    * A pause of the stream of `MAX_WAIT_S` or longer (or sparse stills) has no frames in which it settles:
      the pair across it is proposed at once. What is unfinished when the stream ends is proposed then.

    Pairs come in the order of their later frame. Each begins at or after the end of the last one, except that
    one of the long baseline may reach back over somebody who crossed. Pure and deterministic; four frames are
    held whatever the footage, and only frames of a change are converted to RGB. Where the resolution changes
    or the clock goes back by more than `MAX_WAIT_S`, a new reference is taken; frames late by less are left
    out. `l2` and the changes of a pair leave out `masks`, polygons in shares of the frame; the screened
    planes have them black already (`pipeline.sources.SourceOptions`). Frames of two cameras raise
    `ValueError`.
    """
    finder = PairFinder(thresholds, masks)
    for frame in frames:
        yield from finder.update(frame)
    yield from finder.finish()


def clock_seconds(earlier: Frame, later: Frame) -> float:
    return (later.time - earlier.time).total_seconds()


class PairFinder:
    """Finds the candidate pairs of one camera, frame by frame; see `candidate_pairs`.

    `changes`: whether pairs of `Cause.CHANGE` are wanted; events of the whole scene always are.
    """

    def __init__(
        self, thresholds: PairThresholds, masks: tuple[Polygon, ...] = (), *, changes: bool = True
    ) -> None:
        self.thresholds, self._masks, self._changes = thresholds, masks, changes
        self._previous: Frame | None = None  # there was no frame yet
        self._changed: Frame | None = None

    def update(self, frame: Frame) -> list[FramePair]:
        """The pairs that the camera's next frame completes; ValueError where it is of another camera."""
        if self._previous is None:
            self._begin(frame)
            return []
        if frame.camera != self._previous.camera:
            raise ValueError(
                f"frames of {self._previous.camera!r} and {frame.camera!r} are mixed: "
                "find the pairs of each camera on its own"
            )
        ahead_s = clock_seconds(self._previous, frame)
        if -settings.MAX_WAIT_S < ahead_s <= 0:
            return []
        if ahead_s <= 0 or frame.luma.shape != self._reference.luma.shape:
            unfinished = self.finish()
            self._begin(frame)
            return unfinished
        distance, blocks = self._screen(self._reference, frame)
        different = blocks.max() > self.thresholds.lower
        pairs = (
            self._in_change(frame, self._previous, distance, blocks) if different else self._in_quiet(frame)
        )
        self._previous = frame
        return pairs

    def finish(self) -> list[FramePair]:
        """The pair that was still waiting when the frames ended."""
        if self._changed is None or self._previous is None:
            return []
        return self._propose(self._reference, self._fullest or self._previous, beyond=self._fullest is None)

    def _begin(self, frame: Frame) -> None:
        self._previous = frame
        self._baseline = frame
        self._renew(frame)

    def _renew(self, frame: Frame) -> None:
        """`frame` is the reference: nothing differs from it yet."""
        self._reference = frame
        self._changed = None  # the first frame that differs from the reference
        self._moved: Frame | None = None  # the last one in which what differs still moved
        self._fullest: Frame | None = None  # the one that differs most, within the upper threshold
        self._distance = self._peak = 0.0  # of the fullest: of the frame and of its largest block

    def _in_quiet(self, frame: Frame) -> list[FramePair]:
        pairs: list[FramePair] = []
        if self._changed is not None:
            if self._fullest is not None:
                pairs += self._propose(self._reference, self._fullest, beyond=False, returned=True)
            self._renew(frame)
        elif clock_seconds(self._reference, frame) >= settings.MAX_GAP_S:
            self._renew(frame)
        if clock_seconds(self._baseline, frame) >= settings.LONG_GAP_S:
            distance, blocks = self._screen(self._baseline, frame)
            if blocks.max() > self.thresholds.lower:
                beyond = distance > self.thresholds.upper
                pairs += self._propose(self._baseline, frame, beyond=beyond, cause=Cause.BASELINE)
                self._renew(frame)
            self._baseline = frame
        return pairs

    def _in_change(
        self, frame: Frame, previous: Frame, distance: float, blocks: NDArray[np.float32]
    ) -> list[FramePair]:
        changed = blocks > self.thresholds.lower
        peak = float(blocks.max())
        if self._changed is None:
            self._changed = self._moved = without_picture(frame)
        elif self._screen(previous, frame)[1][changed].max() > self.thresholds.lower:
            self._moved = without_picture(frame)
        assert self._moved is not None  # noqa: S101 - set with _changed
        if self._distance < distance <= self.thresholds.upper:
            self._fullest, self._distance, self._peak = frame, distance, peak
        settled = clock_seconds(self._moved, frame) >= settings.SETTLE_S
        waited = clock_seconds(self._changed, frame) >= settings.MAX_WAIT_S
        paused = clock_seconds(previous, frame) >= settings.MAX_WAIT_S
        if not (settled or waited or paused):
            return []
        pairs: list[FramePair] = []
        before = self._reference
        if self._fullest is not None and peak < settings.PASSED_SHARE * self._peak:
            pairs += self._propose(before, self._fullest, beyond=False)
            before = self._fullest
            distance = self._screen(before, frame)[0]
        cause = Cause.PAUSE if paused else Cause.CHANGE
        pairs += self._propose(before, frame, beyond=distance > self.thresholds.upper, cause=cause)
        self._begin(frame)
        return pairs

    def _screen(self, before: Frame, after: Frame) -> tuple[float, NDArray[np.float32]]:
        return l2_luma(before.luma, after.luma, settings.SCREENING_BLOCK)

    def _propose(
        self,
        before: Frame,
        after: Frame,
        *,
        beyond: bool,
        cause: Cause = Cause.CHANGE,
        returned: bool = False,
    ) -> list[FramePair]:
        """The pair; none where the resolution changed and only the luma planes are of one size."""
        if not (self._changes or beyond or cause is not Cause.CHANGE):
            return []
        if before.image.shape != after.image.shape:
            return []
        l2 = pair_l2(before, after, self._masks)
        for frame in (before, after):  # the pair may wait
            frame.picture.release()
        return [FramePair(before, after, l2, beyond, cause, returned, self._masks)]
