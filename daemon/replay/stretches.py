"""A long file on many machines: its stretches are looked at side by side, and one machine tells of it.

What is followed, told already, held back or compared with minutes ago crosses every cut, so a stretch tells
nothing. It finds pairs as far as it can know them, and looks at their pictures. The machine that tells goes
through the whole file as ever; it only does not look at pictures whose very pixels were looked at (ADR 0019).
So the record is that of a single machine whatever the stretches have guessed; a wrong guess costs a look.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from functools import partial

from daemon.replay.inputs import ReplayInput
from daemon.replay.replay import ReplayOptions
from daemon.threads.calibration import calibrate_source, chosen_thresholds, fixed_thresholds
from daemon.workers.sights import Sightings, digest
from models.captioner import Captioner
from models.detections import Detections
from models.grounded.grounded import Grounded
from models.grounded.sight import seen
from pipeline.narration.batch import pictures_to_see
from pipeline.pairs import candidate_pairs
from pipeline.sources import SourceError, open_source
from pipeline.sources.video import Stretch, VideoSource
from pipeline.thresholds import PairThresholds

_EARLIER_S = 10.0  # in which a stretch finds out what its first pair begins with

Sights = dict[str, Detections]
"""By the digest of a picture what was seen in it."""


def stretches_of(footage: ReplayInput, options: ReplayOptions, longest_s: float) -> list[Stretch]:
    """Where a camera's footage is cut; nowhere unless it is one long file that is decoded as a whole."""
    span, (path, *more) = (options.span.begin, options.span.end), footage.paths
    if more or footage.remote or options.plan.source.fast or any(isinstance(at, datetime) for at in span):
        return []
    try:
        with open_source(str(path), options.plan.source, footage.camera) as source:
            length_s = source.duration_s or 0.0 if isinstance(source, VideoSource) else 0.0
    except SourceError:
        return []
    begin_s, end_s = (None if at is None else at.total_seconds() for at in span)  # type: ignore[union-attr]
    begin_s, end_s = begin_s or 0.0, min(length_s, length_s if end_s is None else end_s)
    count = math.ceil((end_s - begin_s) / longest_s)
    if count < 2:  # noqa: PLR2004 - nothing to share
        return []
    each_s = (end_s - begin_s) / count
    return [Stretch(begin_s + n * each_s, begin_s + (n + 1) * each_s) for n in range(count)]


def thresholds_of(footage: ReplayInput, options: ReplayOptions) -> PairThresholds:
    """A file's thresholds, found once for all of its stretches.

    Raises:
        SourceError: it cannot be read.
    """
    found = fixed_thresholds(options.plan)
    if found is None:
        with open_source(str(footage.paths[0]), options.plan.source, footage.camera) as source:
            found = chosen_thresholds(options.plan, calibrate_source(source))
    return found


def sights_of(
    footage: ReplayInput,
    options: ReplayOptions,
    captioner: Captioner,
    thresholds: PairThresholds,
    stretch: Stretch,
) -> Sights:
    """What is seen in the pictures of a stretch.

    Nothing by another captioner than `grounded`; nor on a GPU, where the last digits depend on what is looked
    at together.

    Raises:
        SourceError: the file cannot be read.
    """
    sights: Sights = {}
    if not isinstance(captioner, Grounded) or captioner.device.type != "cpu":
        return sights
    plan = options.plan
    wider = replace(stretch, begin_s=max(0.0, stretch.begin_s - _EARLIER_S))
    with VideoSource(footage.paths, plan.source, footage.camera, stretch=wider) as source:
        for pair in candidate_pairs(source, thresholds, plan.pairs):
            pictures = pictures_to_see(pair, captioner, plan.change_options(captioner))
            new = {name: each for each in pictures if (name := digest(each)) not in sights}
            sights.update(zip(new, captioner.see(list(new.values())), strict=True))
    return sights


def lend_eyes(captioner: Captioner, sights: Sights) -> Sightings | None:
    """Have a captioner look no more at what was looked at; without sights it looks at everything itself."""
    if not isinstance(captioner, Grounded):
        return None
    sightings = Sightings(partial(seen, captioner.detector))
    sightings.need(sights)
    sightings.learn(list(sights), list(sights.values()))
    captioner.eyes = sightings if sights else None
    return sightings
