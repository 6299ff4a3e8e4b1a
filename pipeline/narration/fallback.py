"""Narrations without a captioner: where something has changed, from the clusters alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from models.boxes import Box, hull
from models.captioner import Captioner
from models.language.places import place, zone_of
from models.sentences import DescribeOptions, Sentence
from pipeline.changes import Change, SceneEvent
from pipeline.narration.narration import Narration, event_sentence, narration_of, options_sha256

LATE, FAILED = "late", "captioner failed"
"""Why the captioner does not tell: the pair waited too long, or the captioner gave an error."""

_NAMED = 2  # places that are still named one by one


def narrate_facts(
    change: Change,
    captioner: Captioner,
    reason: str,
    options: DescribeOptions | None = None,
    settings_sha256: str | None = None,
    *,
    placed: bool = True,
) -> Narration:
    """Say where something has changed, without asking the captioner.

    Args:
        change: the change; without clusters and scene event there is no sentence.
        captioner: only its name and checkpoint are recorded, as in any narration.
        reason: `LATE` or `FAILED`, which marks the narration.
        options: its zones are places, too.
        settings_sha256: as for `narrate`.
        placed: False without clusters: the sentence then says that something has changed, but not where.

    Returns:
        The narration, marked by `Narration.fallback`, with one sentence of confidence 0, or with none.
    """
    options = options or DescribeOptions()
    sentences: tuple[Sentence, ...] = ()
    if change.event is not SceneEvent.NONE:
        sentences = (event_sentence(change.event),)
    elif change.clusters or not placed:
        sentences = (facts_sentence([c.box for c in change.clusters], options),)
    narration = narration_of(change, sentences, captioner, settings_sha256 or options_sha256(options))
    return replace(narration, fallback=reason)


def facts_sentence(boxes: Sequence[Box], options: DescribeOptions) -> Sentence:
    """Such as "Something has changed on the left."; its box holds all boxes.

    Args:
        boxes: of the clusters, ``(x, y, width, height)`` in 0..1, the most salient first; none where it is
            not known where.
        options: its zones are places, too.
    """
    zones = ((zone_of(box, options.zones), box) for box in boxes)
    named = (zone.phrase if zone else place(box) for zone, box in zones)
    places = [words for words in dict.fromkeys(named) if words]
    where = f" {' and '.join(places)}" if len(places) <= _NAMED else " in several places"
    text = f"Something has changed{where if places else ''}."
    return Sentence(text, "unknown", "something", _hull_in_frame(boxes), salience=1.0, confidence=0.0)


def _hull_in_frame(boxes: Sequence[Box]) -> Box | None:
    around = hull(boxes)
    if around is None:
        return None
    left, top, width, height = around
    return left, top, min(width, 1.0 - left), min(height, 1.0 - top)
