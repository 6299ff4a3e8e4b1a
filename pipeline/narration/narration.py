"""Narrations: sentences about the changes of a camera."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import cv2
import numpy as np
import rfc8785
from numpy.typing import NDArray

from models.boxes import Box, hull, intersection
from models.captioner import Captioner, DescribeOptions, Outline, Sentence
from models.language.catalogue import N_, _, in_english, join
from models.language.places import phrase_of
from pipeline.changes import Change, SceneEvent
from pipeline.narration.batch import pair_input
from pipeline.narration.colour import with_colours
from pipeline.sources import Clock, Frame

EVENT_SENTENCES = {
    SceneEvent.LIGHT: N_("The light has changed."),
    SceneEvent.VIEW: N_("The camera now shows another view."),
    SceneEvent.OBSTRUCTED: N_("The camera's view is obstructed."),
}
"""The sentence of each scene event."""


class RecordEvent(StrEnum):
    """Records that tell of other records, or of their absence."""

    SUMMARY = "summary"
    RULE = "rule"
    GAP = "gap"
    DELETION = "deletion"


FAILED = "captioner failed"

MOST_CORNERS = 32  # of an outline
_LEAST_CORNERS = 3
_GAP = 0.15
_SQUARE = 3  # the smallest kernel
_FINE = 4  # contours run through the centres of pixels: on a finer raster a small thing keeps its area
_NAMED = 2  # places that are still named one by one
_UNNAMED = "object"
_EVERY = 64  # sentences that a captioner may propose about one pair
_NEARLY = 0.5  # share of the least confidence from which what is held back is worth a reason


@dataclass(frozen=True, slots=True)
class FrameStamp:
    """Which frame: aware UTC time, pts, sha256 (hex) of its RGB bytes, and `Frame.steady_s`."""

    time: datetime
    pts: int
    sha256: str
    steady_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ModelStamp:
    """Which model: name and sha256 (hex) of its checkpoint file."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Narration:
    """The sentences about one pair, to be published; holds no pixels."""

    id: str  # deterministic: the same footage, settings and model give the same id
    camera: str
    before: FrameStamp
    after: FrameStamp
    clock: Clock  # where the times come from
    event: SceneEvent | RecordEvent  # NONE for changes of objects, else what happened
    sentences: tuple[Sentence, ...]  # most salient first; exactly one of a scene event; may be empty
    l2: float  # L2 distance of the pair under RGB, 0..255 grey levels
    model: ModelStamp
    settings_sha256: str  # hash (hex) of the settings that decide the text
    abstained: str = ""  # why less than was seen is reported ("unsure", "nothing of an object"); else empty
    fallback: str = ""  # why the captioner did not write it, "captioner failed"; else empty
    until: datetime | None = None
    held: str = ""  # the limit that keeps this from messages (hourly, cooldown, merged, summary), or empty
    continues: str = ""  # id of the narration that this one completes, or empty
    covers: tuple[str, ...] = ()  # ids of the narrations that a summary is of
    rate_hz: float | None = None  # detection rate, None for a change between stills
    state_sha256: str = ""  # of what the camera had learnt before the footage (hex), or empty
    since: datetime | None = None  # with GAP its beginning; its end is `until`
    reason: str = ""  # with GAP why (overload, camera_down, outage)
    deletion: Mapping[str, Any] | None = None  # members of this part of a record, see `pipeline.record`
    rule: Mapping[str, Any] | None = None  # the same of this part

    @classmethod
    def of(
        cls,
        camera: str,
        clock: Clock,
        frames: tuple[FrameStamp, FrameStamp],
        model: ModelStamp,
        settings_sha256: str,
        *,
        identity: str = "",
        **members: Any,
    ) -> Narration:
        """A narration about two frames, whose id names the footage, the model and the settings.

        `identity` is the hash (hex) in the id in place of the settings', where others have the same frames.
        """
        before, after = frames
        named = narration_id(camera, before, after, model, identity or settings_sha256)
        members |= {"model": model, "settings_sha256": settings_sha256}
        return cls(named, camera, before, after, clock, **members)

    @property
    def text(self) -> str:
        return " ".join(s.text for s in self.sentences)


def narrate(
    changes: Sequence[Change],
    captioner: Captioner,
    options: DescribeOptions | None = None,
    settings_sha256: str | None = None,
) -> list[Narration]:
    """Say what changed, one narration per change, in their order; one batch for the captioner.

    The changes are of any cameras and frame sizes, each camera's in their order. The ids hold
    `settings_sha256`, the hash (hex) of all settings that decide the text, those under which the changes were
    found included; None takes that of `options` alone.
    """
    options = options or DescribeOptions()
    settings = settings_sha256 or _options_sha256(options)
    # All that it can say, so that what is held back can be named.
    every = replace(options, min_confidence=0.0, max_sentences=_EVERY)
    asked = [n for n, change in enumerate(changes) if _needs_captioner(change, captioner)]
    described = captioner.describe([pair_input(changes[n], captioner) for n in asked], every) if asked else []
    candidates = dict(zip(asked, described, strict=True))
    least = captioner.min_confidence if options.min_confidence is None else options.min_confidence
    narrations = []
    for n, change in enumerate(changes):
        sentences, abstained, event = list[Sentence](), "", change.event
        if n in candidates:
            sentences, abstained = _choose(candidates[n], least, options.max_sentences)
            sentences = _finish(sentences, change, options)
        if sentences:  # an object that fills the picture changes the light, too
            event = SceneEvent.NONE
        elif event is not SceneEvent.NONE:
            sentences, abstained = [scene_sentence(_(EVENT_SENTENCES[event]))], ""
        narrations.append(
            _narration_of(change, sentences, captioner, settings, event=event, abstained=abstained)
        )
    return narrations


def narrate_facts(
    change: Change,
    captioner: Captioner,
    options: DescribeOptions | None = None,
    settings_sha256: str | None = None,
    *,
    placed: bool = True,
) -> Narration:
    """Say where something has changed, without asking the captioner, whose name and checkpoint are recorded.

    The narration is marked by `Narration.fallback`; its one sentence has confidence 0, and without clusters
    and scene event it has none. With `placed` False it says that something has changed, but not where.
    """
    options, sentences = options or DescribeOptions(), list[Sentence]()
    settings = settings_sha256 or _options_sha256(options)
    if change.event is not SceneEvent.NONE:
        sentences = [scene_sentence(_(EVENT_SENTENCES[change.event]))]
    elif change.clusters or not placed:
        sentences = [facts_sentence([c.box for c in change.clusters], options)]
    return _narration_of(change, sentences, captioner, settings, event=change.event, fallback=FAILED)


def facts_sentence(boxes: Sequence[Box], options: DescribeOptions) -> Sentence:
    """Such as "Something has changed on the left."; its box holds all boxes of the clusters.

    The boxes are ``(x, y, width, height)`` in 0..1, most salient first; without any it is not known where.
    """
    named = (phrase_of(box, options.zones) for box in boxes)
    places = [words for words in dict.fromkeys(named) if words]
    text = _something_changed(places)
    around = hull(boxes)
    if around:  # sums of shares may be a little more than 1
        left, top, width, height = around
        around = left, top, min(width, 1.0 - left), min(height, 1.0 - top)
    english = in_english(_something_changed, places)
    return Sentence(text, "unknown", "something", around, salience=1.0, confidence=0.0, english=english)


def _something_changed(places: Sequence[str]) -> str:
    if not places:
        return _("Something has changed.")
    if len(places) > _NAMED:
        return _("Something has changed in several places.")
    return _("Something has changed {place}.").format(place=join(map(_, places), N_("{one} and {other}")))


def _needs_captioner(change: Change, captioner: Captioner) -> bool:
    """True where the captioner is needed: with a change of light only one that can keep silent."""
    asked = change.event is SceneEvent.NONE
    asked |= change.event is SceneEvent.LIGHT and captioner.min_confidence > 0
    return asked and bool(change.clusters)


def _choose(candidates: list[Sentence], least: float, most: int) -> tuple[list[Sentence], str]:
    """The sentences that are reported, and why not the others."""
    sure = [s for s in candidates if s.confidence >= least]
    named = [s for s in sure if s.object != _UNNAMED]
    # Where a thing has a name, "something" is said of it no more.
    sure = [s for s in sure if s.object != _UNNAMED or not any(_meet(s, other) for other in named)]
    if any(_NEARLY * least <= s.confidence < least for s in candidates):
        return sure[:most], "unsure"
    return sure[:most], "" if sure else "nothing of an object"


def _meet(a: Sentence, b: Sentence) -> bool:
    return bool(a.box and b.box and intersection(a.box, b.box) > 0)


def _finish(sentences: list[Sentence], change: Change, options: DescribeOptions) -> list[Sentence]:
    """Sentences with the outlines of what they tell and, where they are sure, colours."""
    if not change.clusters or not any(s.before or s.after for s in sentences):
        return sentences
    changed = change.mask
    drawn = [
        replace(s, outline_before=outline(changed, s.before), outline_after=outline(changed, s.after))
        for s in sentences
    ]
    if not options.colours:
        return drawn
    return with_colours(drawn, change.pair.before.image, change.pair.after.image, changed)


def scene_sentence(text: str) -> Sentence:
    """A sentence about all of the scene, or what the camera saw of it."""
    return Sentence(text, type="none", object="scene", box=None, salience=1.0, confidence=1.0)


def _narration_of(
    change: Change, sentences: Sequence[Sentence], captioner: Captioner, settings_sha256: str, **members: Any
) -> Narration:
    """The narration that tells of a change with these sentences; `members` are others of it."""
    pair, model = change.pair, ModelStamp(captioner.name, captioner.sha256)
    frames = stamp(pair.before), stamp(pair.after)
    members |= {"sentences": tuple(sentences), "l2": pair.l2}
    return Narration.of(pair.after.camera, pair.after.clock, frames, model, settings_sha256, **members)


def _options_sha256(options: DescribeOptions) -> str:
    """Hash (hex) that stands for the settings unless others are given."""
    return hashlib.sha256(rfc8785.dumps(asdict(options))).hexdigest()


def narration_id(
    camera: str, before: FrameStamp, after: FrameStamp, model: ModelStamp, settings_sha256: str
) -> str:
    """The id of what is reported of two frames; the same for the same footage, settings and model."""
    named = "\n".join((camera, before.sha256, after.sha256, str(before.pts), str(after.pts)))
    digest = hashlib.sha256(f"{named}\n{model.sha256}\n{settings_sha256}".encode()).hexdigest()
    time = after.time
    return f"{camera}-{time:%Y%m%dT%H%M%S}.{time.microsecond // 1000:03d}Z-{digest[:12]}"


def stamp(frame: Frame) -> FrameStamp:
    """Which frame it is; hashes its picture."""
    pixels = hashlib.sha256(np.ascontiguousarray(frame.image).data).hexdigest()
    return FrameStamp(frame.time, frame.pts, pixels, frame.steady_s)


def outline(mask: NDArray[np.bool_], box: Box | None) -> Outline:
    """The outer contour of the largest patch of active pixels inside a box ``(x, y, width, height)`` in 0..1.

    Gaps of two pixels, of large things a seventh of their smaller side, are closed first: where a thing has
    the colour of what is behind it nothing differs. 3 to `MOST_CORNERS` corners, or none.
    """
    if box is None:
        return ()
    height, width = mask.shape
    low = np.clip(box[:2], 0.0, 1.0)
    high = np.clip((box[0] + box[2], box[1] + box[3]), 0.0, 1.0)
    left, top = np.floor(low * (width, height)).astype(int)
    right, bottom = np.ceil(high * (width, height)).astype(int)
    inside = mask[top:bottom, left:right]
    if not inside.any():
        return ()
    pixels = (_simplify(_contour(inside)) + 0.5) / _FINE + (left, top)
    corners = np.clip(pixels / (width, height), low, high)
    return tuple((float(x), float(y)) for x, y in corners)


def _contour(inside: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The contour ``(n, 1, 2)`` around the largest area, on a raster `_FINE` times as fine."""
    reach = max(_SQUARE, round(_GAP * min(inside.shape)) | 1)
    kernel = cv2.getStructuringElement(
        cv2.MORPH_ELLIPSE if reach > _SQUARE else cv2.MORPH_RECT, (reach, reach)
    )
    padded = np.pad(inside.astype(np.uint8), reach)  # closing must not take the border for active
    closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, kernel)[reach:-reach, reach:-reach]
    fine = closed.repeat(_FINE, axis=0).repeat(_FINE, axis=1)
    contours, _ = cv2.findContours(fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return np.asarray(max(contours, key=cv2.contourArea), np.int32)


def _simplify(contour: NDArray[np.int32]) -> NDArray[np.int32]:
    """Its corners ``(n, 2)`` after Douglas and Peucker (1973), at the least tolerance that leaves few."""
    tolerance, corners = _FINE / 2, contour
    while len(corners) > MOST_CORNERS or tolerance == _FINE / 2:
        corners = np.asarray(cv2.approxPolyDP(contour, tolerance, closed=True), np.int32)
        tolerance *= 1.25
    if len(corners) < _LEAST_CORNERS:  # a torn line: what is left of it would enclose nothing
        x, y, width, height = cv2.boundingRect(contour)
        corners = np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], np.int32)
    return corners.reshape(-1, 2)
