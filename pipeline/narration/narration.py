"""Narrations: sentences about the changes of a camera."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import rfc8785

from models.boxes import intersection
from models.sentences import DescribeOptions, Sentence
from pipeline.changes import Change, SceneEvent
from pipeline.narration.colour import with_colours
from pipeline.narration.outlines import outline
from pipeline.sources import Clock, Frame

if TYPE_CHECKING:  # what a narration is can be known without its captioner
    from models.captioner import Captioner

EVENT_SENTENCES = {
    SceneEvent.LIGHT: "The light has changed.",
    SceneEvent.VIEW: "The camera now shows another view.",
    SceneEvent.OBSTRUCTED: "The camera's view is obstructed.",
}
"""The one sentence that a scene event is told with."""


class RecordEvent(StrEnum):
    """Records that tell of other records, or of their absence."""

    SUMMARY = "summary"
    RULE = "rule"
    GAP = "gap"
    DELETION = "deletion"


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
    """The sentences about one pair, to be published; holds no pixels.

    Attributes:
        id: deterministic: the same footage, settings and model give the same id.
        camera: name of the camera.
        before, after: which frames.
        clock: where the times come from.
        event: NONE for changes of objects, else the scene event, or what a record tells of others.
        sentences: most salient first; a scene event has exactly one; empty when nothing is to be told.
        l2: L2 distance of the pair under RGB, 0..255 grey levels.
        model: which captioner.
        settings_sha256: hash (hex) of the settings that decide the text.
        abstained: why nothing, or less than was seen, is told ("unsure", "nothing of an object"); else empty.
        fallback: why it was not the captioner who told ("late", "captioner failed"); else empty.
        held: the limit that keeps this from messages (hourly, cooldown, merged, summary), or empty.
        continues: id of the narration that this one completes, or empty.
        covers: ids of the narrations that a summary is of.
        rate_hz: detection rate, None for a change between stills.
        state_sha256: hash (hex) of what the camera had learnt before the footage; empty where it had nothing.
        since, reason: with GAP its beginning (its end is `until`), and why (overload, camera_down, outage).
        deletion, rule: members of these parts of a record, see `pipeline.record`.
    """

    id: str
    camera: str
    before: FrameStamp
    after: FrameStamp
    clock: Clock
    event: SceneEvent | RecordEvent
    sentences: tuple[Sentence, ...]
    l2: float
    model: ModelStamp
    settings_sha256: str
    abstained: str = ""
    fallback: str = ""
    until: datetime | None = None
    held: str = ""
    continues: str = ""
    covers: tuple[str, ...] = ()
    rate_hz: float | None = None
    state_sha256: str = ""
    since: datetime | None = None
    reason: str = ""
    deletion: Mapping[str, Any] | None = None
    rule: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """All sentences in one line."""
        return " ".join(s.text for s in self.sentences)


def narrate(
    changes: Sequence[Change],
    captioner: Captioner,
    options: DescribeOptions | None = None,
    settings_sha256: str | None = None,
) -> list[Narration]:
    """Say what changed.

    Args:
        changes: of any cameras and frame sizes, each camera's in their order; one batch for the captioner.
        captioner: writes the sentences.
        options: how it chooses and words them.
        settings_sha256: hash (hex) of all settings that decide the text, those under which the changes were
            found included; enters the ids. None takes that of `options` alone.

    Returns:
        One narration per change, in their order; without sentences where nothing is to be told.
    """
    options = options or DescribeOptions()
    settings_sha256 = settings_sha256 or options_sha256(options)
    # All that it can say, so that what is held back can be named.
    every = replace(options, min_confidence=0.0, max_sentences=_EVERY)
    described = _all_sentences(changes, captioner, every)
    least = captioner.min_confidence if options.min_confidence is None else options.min_confidence
    narrations = []
    for change, candidates in zip(changes, described, strict=True):
        sentences, abstained, event = list[Sentence](), "", change.event
        if candidates is not None:
            sentences, abstained = _choose(candidates, least, options)
            sentences = _finish(sentences, change, options)
        if sentences:  # an object that fills the picture changes the light, too
            event = SceneEvent.NONE
        elif event is not SceneEvent.NONE:
            sentences, abstained = [event_sentence(event)], ""
        narration = narration_of(change, tuple(sentences), captioner, settings_sha256)
        narrations.append(replace(narration, event=event, abstained=abstained))
    return narrations


def _all_sentences(
    changes: Sequence[Change], captioner: Captioner, options: DescribeOptions
) -> list[list[Sentence] | None]:
    """Everything that may be said of each change; None where the captioner is not asked."""
    from pipeline.narration.batch import pair_input  # noqa: PLC0415 - loads ONNX Runtime

    found: list[list[Sentence] | None] = [None] * len(changes)
    stills = [n for n, change in enumerate(changes) if _needs_captioner(change, captioner)]
    if stills:
        pairs = [pair_input(changes[n], captioner) for n in stills]
        for n, sentences in zip(stills, captioner.describe(pairs, options), strict=True):
            found[n] = sentences
    return found


def _needs_captioner(change: Change, captioner: Captioner) -> bool:
    """True where the captioner is needed: with a change of light only one that can keep silent."""
    asked = change.event is SceneEvent.NONE
    asked |= change.event is SceneEvent.LIGHT and captioner.min_confidence > 0
    return asked and bool(change.clusters)


def _choose(candidates: list[Sentence], least: float, options: DescribeOptions) -> tuple[list[Sentence], str]:
    """The sentences that are told, and why not the others."""
    if options.sentences is not None:
        return candidates, ""
    sure = [s for s in candidates if s.confidence >= least]
    named = [s for s in sure if s.object != _UNNAMED]
    # Where a thing has a name, "something" is said of it no more.
    sure = [s for s in sure if s.object != _UNNAMED or not any(_meet(s, other) for other in named)]
    if any(_NEARLY * least <= s.confidence < least for s in candidates):
        return sure[: options.max_sentences], "unsure"
    return sure[: options.max_sentences], "" if sure else "nothing of an object"


def _meet(a: Sentence, b: Sentence) -> bool:
    """True where the boxes of two sentences overlap."""
    if a.box is None or b.box is None:
        return False
    return intersection(a.box, b.box) > 0


def _finish(sentences: list[Sentence], change: Change, options: DescribeOptions) -> list[Sentence]:
    """Sentences with the outlines of what they tell and, where they are sure, colours."""
    if not change.clusters or not any(s.before or s.after for s in sentences):
        return sentences
    changed = np.logical_or.reduce([c.mask for c in change.clusters])
    drawn = [
        replace(
            s,
            outline_before=outline(changed, s.before) if s.before else (),
            outline_after=outline(changed, s.after) if s.after else (),
        )
        for s in sentences
    ]
    if not options.colours:
        return drawn
    return with_colours(drawn, change.pair.before.image, change.pair.after.image, changed)


def event_sentence(event: SceneEvent) -> Sentence:
    """The one sentence that a scene event is told with."""
    return Sentence(
        EVENT_SENTENCES[event], type="none", object="scene", box=None, salience=1.0, confidence=1.0
    )


def narration_of(
    change: Change, sentences: tuple[Sentence, ...], captioner: Captioner, settings_sha256: str
) -> Narration:
    """The narration that tells of a change with these sentences."""
    before, after = stamp(change.pair.before), stamp(change.pair.after)
    camera = change.pair.after.camera
    model = ModelStamp(captioner.name, captioner.sha256)
    return Narration(
        id=narration_id(camera, before, after, model, settings_sha256),
        camera=camera,
        before=before,
        after=after,
        clock=change.pair.after.clock,
        event=change.event,
        sentences=sentences,
        l2=change.pair.l2,
        model=model,
        settings_sha256=settings_sha256,
    )


def options_sha256(options: DescribeOptions) -> str:
    """Hash (hex) that stands for the settings where nobody tells of others."""
    return hashlib.sha256(rfc8785.dumps(asdict(options))).hexdigest()


def narration_id(
    camera: str, before: FrameStamp, after: FrameStamp, model: ModelStamp, settings_sha256: str
) -> str:
    """The id of what is told of two frames; the same for the same footage, settings and model."""
    named = "\n".join((camera, before.sha256, after.sha256, str(before.pts), str(after.pts)))
    digest = hashlib.sha256(f"{named}\n{model.sha256}\n{settings_sha256}".encode()).hexdigest()
    time = after.time
    return f"{camera}-{time:%Y%m%dT%H%M%S}.{time.microsecond // 1000:03d}Z-{digest[:12]}"


def stamp(frame: Frame) -> FrameStamp:
    """Which frame it is; hashes its picture."""
    pixels = hashlib.sha256(np.ascontiguousarray(frame.image).data).hexdigest()
    return FrameStamp(frame.time, frame.pts, pixels, frame.steady_s)
