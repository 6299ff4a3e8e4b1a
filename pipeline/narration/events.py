"""From the event of a track to a narration with its own frame before and frame after."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, intersection, offset
from models.captioner import DescribeOptions, Sentence
from models.language.catalogue import N_, _, in_english
from models.language.places import phrase_of
from models.language.templates import Statement, duration, render
from pipeline import settings
from pipeline.changes import Change, ChangeOptions, SceneEvent, find_changes
from pipeline.narration.narration import (
    FrameStamp,
    ModelStamp,
    Narration,
    RecordEvent,
    narration_id,
    outline,
    scene_sentence,
    stamp,
)
from pipeline.pairs import FramePair, pair_l2
from pipeline.sources import Clock, Frame, Polygon, seconds_between
from pipeline.sources.times import EPOCH
from pipeline.tracking import Event
from pipeline.tracking.tracks import DEPARTURES, ENTRANCES, LastSeen

_GAP_REASONS = {
    "camera_down": N_("the camera sent no pictures"),
    "no_footage": N_("there is no footage of it"),
    "failed": N_("narrated could not analyse it"),
    "clock": N_("the clock was set ahead"),
    "overload": N_("this machine was too slow"),
    "outage": N_("narrated was not running"),
    "unwritten": N_("the disk took no records"),
    "mask": N_("a mask hides it"),
}
_HALTS = ("stopped", "parked")  # said a moment after
_STATES = ("met", "waiting")  # of which two frames show nothing
_MEETING = 2  # who met
_WHOLE = 0.995  # of the picture
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class RuleMet:
    """A rule was met: on which camera, by whose clock, when, by which records and which object."""

    camera: str
    clock: Clock
    time: datetime
    records: tuple[str, ...]
    object: str
    confidence: float
    maybe: bool  # its kind was not sure: a "vehicle" may be a van


@dataclass(frozen=True, slots=True, eq=False)
class EventContext:
    """Inputs of an event's sentence besides the event."""

    changes: ChangeOptions  # how the difference of its frame pair is found
    describe: DescribeOptions  # how sentences are worded
    masks: tuple[Polygon, ...]  # areas that are not looked at
    model: ModelStamp
    settings_sha256: str  # hash (hex) of the settings that decide the text
    rate_hz: float
    state_sha256: str = ""  # hash (hex) of what an earlier process had learnt; empty without one
    timezone: str = ""  # name of the time zone whose clocks are quoted; empty is UTC

    def narration(
        self,
        seen: Frame | RuleMet,
        frames: tuple[FrameStamp, FrameStamp],
        event: SceneEvent | RecordEvent,
        sentence: Sentence,
        **members: Any,
    ) -> Narration:
        """A narration by the camera and the clock of what was seen, see `Narration.of`."""
        members = {"l2": 0.0} | members
        return Narration.of(
            seen.camera, seen.clock, frames, self.model, self.settings_sha256,
            event=event, sentences=(sentence,), **members,
        )  # fmt: skip


def narrate_event(
    event: Event,
    frames: tuple[Frame, Frame],
    context: EventContext,
    colour: str = "",
    came_from: str = "",
    *,
    among: bool = False,
    continues: str = "",
) -> tuple[Narration, FramePair]:
    """The narration of one event, and the frame pair that shows it.

    `colour` is the track's, where it is known; `came_from`, the side of the frame by which the track came,
    where that was seen; `among`, others of its kind are at the same place; `continues`, the id of the
    narration that this one completes.
    """
    before, after = frames
    pair = FramePair(before, after, pair_l2(before, after, context.masks), masks=context.masks)
    (change,) = find_changes([pair], context.changes)
    changed = change.mask
    statement = _statement(event, context, colour, came_from, among=among)
    # Several events may share their frames: the track and what it did are part of the id.
    identity = _sha256(context.settings_sha256, event.track, f"{event.kind}{event.line}")
    stamps, sentence = (stamp(before), stamp(after)), _sentence(event, change, changed, statement)
    members = {"rate_hz": context.rate_hz, "state_sha256": context.state_sha256, "continues": continues}
    return context.narration(
        after, stamps, SceneEvent.NONE, sentence, identity=identity, l2=pair.l2, **members
    ), pair


def _sentence(event: Event, change: Change, changed: NDArray[np.bool_], statement: Statement) -> Sentence:
    start = change.pair.before.time.timestamp()
    was, now = event.box_before, event.box_after
    since_s, lasted_s = event.since_s, event.duration_s
    if unseen := since_s is None and event.seen_s > 0:
        since_s, lasted_s = event.time_s - event.seen_s, event.seen_s
    return Sentence(
        render(statement),
        _change_type(event),
        event.object,
        event.box,
        salience=_salience(change, event.box),
        confidence=event.confidence,
        before=was,
        after=now,
        outline_before=outline(changed, was),
        outline_after=outline(changed, now),
        moment_s=event.time_s - start,
        paths=(event.path,) if event.path else (),
        action=event.kind,
        track=event.track,
        since_s=None if since_s is None else since_s - start,
        since_known=event.seen and not unseen,
        until_s=event.time_s - start if event.kind in (*DEPARTURES, "closed") else None,
        duration_s=lasted_s,
        same_as=event.same_as,
        other=event.other,
        english=in_english(render, statement),
    )


def _statement(event: Event, context: EventContext, colour: str, origin: str, *, among: bool) -> Statement:
    options, goes = context.describe, event.kind in (*DEPARTURES, "resumed")
    box = (event.box_before if goes else event.box_after) or event.box
    came_from, at_least = origin if goes else "", event.duration_s is None
    stay_s = event.seen_s if event.duration_s is None else event.duration_s
    brief_s = settings.AT_LEAST_S if at_least else settings.BRIEF_S
    return Statement(
        event.kind,
        event.object,
        count=_MEETING if event.kind == "met" else 1,
        colour="" if event.kind == "met" else colour,
        place=event.line or phrase_of(box, options.zones, depth=options.depth),
        origin=event.way if event.kind in ENTRANCES else "",
        target=event.way if goes else "",
        came_from=came_from,
        came_at=_arrival_time(event, context.timezone) if came_from else "",
        duration_s=stay_s if event.kind not in _HALTS and stay_s >= brief_s else None,
        at_least=at_least,
        seen=event.seen,
        among=among,
    )


def _arrival_time(event: Event, timezone: str) -> str:
    """When it came, such as "10:02"; empty where that was not seen or is of no known date, or a day ago."""
    if event.since_s is None or event.time_s - event.since_s >= _DAY_S:
        return ""
    moment = datetime.fromtimestamp(event.since_s, ZoneInfo(timezone or "UTC"))
    return f"{moment:%H:%M}" + " UTC" * (not timezone) if moment.year > EPOCH.year else ""


def _change_type(event: Event) -> str:
    """The type of change that the event's two frames show."""
    if event.kind in ENTRANCES:
        return "appeared"
    if event.kind in DEPARTURES:
        return "disappeared"
    if event.kind in _STATES or event.box_before is None or event.box_after is None:
        return "unknown"
    across, down = offset(event.box_before, event.box_after)
    _, _, width, height = event.box_before
    sizes = max(abs(across) / width, abs(down) / height)
    return "moved" if sizes >= settings.SHIFT_SIZES else "unknown"


def _salience(change: Change, box: Box) -> float:
    """The largest salience of a cluster at a place as a share of the most salient one's; 0 where none is."""
    scores = [
        float(score)
        for cluster, score in zip(change.clusters, change.salience, strict=True)
        if intersection(cluster.box, box) > 0
    ]
    top = float(change.salience[0]) if len(change.salience) else 0.0
    return min(max(max(scores, default=0.0) / top, 0.0), 1.0) if top > 0 else 0.0


def lost_narration(last: LastSeen, seen: Frame, context: EventContext) -> Narration:
    """The narration of a track that was lost without a departure before a frame, held from messages."""
    options = context.describe
    place = phrase_of(last.box, options.zones, depth=options.depth)
    now, words = stamp(seen), Statement("lost", last.object, place=place)
    sentence = Sentence(
        render(words),
        "unknown",
        last.object,
        last.box,
        salience=0.0,
        confidence=1.0,
        before=last.box,
        moment_s=last.time_s - now.time.timestamp(),
        action="lost",
        track=last.track,
        english=in_english(render, words),
    )
    identity = _sha256(context.settings_sha256, last.track, "lost")
    members = {"rate_hz": context.rate_hz, "state_sha256": context.state_sha256, "held": "lost"}
    return context.narration(seen, (now, now), SceneEvent.NONE, sentence, identity=identity, **members)


def gap_narration(before: FrameStamp, after: Frame, reason: str, context: EventContext) -> Narration:
    """The narration of a gap: camera_down, overload, outage or (recorded so) another of `_GAP_REASONS`."""
    last, away_s = stamp(after), seconds_between(before, after)
    message = _("Nothing was seen for {length}: {reason}.")
    text = message.format(length=duration(away_s), reason=_(_GAP_REASONS[reason]))
    return context.narration(
        after,
        (before, last),
        RecordEvent.GAP,
        scene_sentence(text),
        since=last.time - timedelta(seconds=away_s),  # the wall clock may have been set after `before`
        until=last.time,
        reason=reason if reason in {"camera_down", "overload", "outage", "mask"} else "outage",
    )


def clock_narration(last: Frame, seen: Frame, context: EventContext) -> Narration:
    """The narration of a clock that was set ahead between two live frames."""
    now = stamp(seen)
    gap = gap_narration(replace(now, time=last.time, pts=last.pts, steady_s=None), seen, "clock", context)
    return replace(gap, before=now)


def mask_narration(seen: Frame, hidden: float, context: EventContext) -> Narration:
    """The narration of masks: a share 0..1 of the picture is hidden until the next one; 0 ends it."""
    now = stamp(seen)
    if hidden >= _WHOLE:
        text = _("Nothing is seen of the whole picture: a mask hides it.")
    elif hidden:
        message = _("Nothing is seen of {share} % of the picture: a mask hides it.")
        text = message.format(share=max(round(100 * hidden), 1))
    else:
        text = _("No mask hides anything any more.")
    gap = gap_narration(now, seen, "mask", context)
    sentence = replace(gap.sentences[0], text=text)
    return replace(gap, sentences=(sentence,), until=None if hidden else now.time)


def rule_narration(
    name: str, when: str, frames: tuple[FrameStamp, FrameStamp], of: RuleMet, context: EventContext
) -> Narration:
    """The narration of a rule that was met: its name and words, and how it was met.

    The frames are of the record that met it, or twice the frame up to which nothing else was seen.
    """
    unsure, sure = (
        _('Rule "{name}" may be met: {when} (its kind was not sure).'),
        _('Rule "{name}" was met: {when}.'),
    )
    text = (unsure if of.maybe else sure).format(name=name, when=when)
    moment_s = (of.time - frames[0].time).total_seconds()
    sentence = Sentence(text, "none", of.object, None, 1.0, of.confidence, moment_s=moment_s)
    identity, rule = _sha256(name, of.time.isoformat(), *of.records), {"name": name, "records": of.records}
    return context.narration(of, frames, RecordEvent.RULE, sentence, identity=identity, rule=rule)


def summary_narration(latest: Narration, sentence: Sentence, covers: tuple[str, ...]) -> Narration:
    """The summary of a minute, with the frames of the last narration in it."""
    return replace(
        latest,
        id=narration_id(latest.camera, latest.before, latest.after, latest.model, _sha256(*covers)),
        event=RecordEvent.SUMMARY,
        sentences=(sentence,),
        covers=covers,
        held="",
    )


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
