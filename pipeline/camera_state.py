"""Everything that a camera carries from frame to frame, and the part of it that outlives a restart."""

import hashlib
import json
import logging
import math
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from models.boxes import Box, box_of, centre, iou, share_inside
from models.captioner import DescribeOptions, TrackingWeights
from models.detections import Detections
from models.families import OBJECTS, THINGS, family_of
from models.language.places import is_at, phrase_of
from pipeline import settings
from pipeline.disk import replace_file
from pipeline.doors import Doors
from pipeline.gate import MotionFrame
from pipeline.limits import MessageLimits, MinuteSummary
from pipeline.loop import Faults
from pipeline.narration.colour import ColourVotes
from pipeline.narration.narration import FrameStamp, Narration
from pipeline.pairs import Cause, FramePair
from pipeline.record_format import format_time
from pipeline.repetitions import Scenery, Stories
from pipeline.sources import Frame, Polygon, polygon_mask, seconds_between
from pipeline.sources.frame import is_set_ahead
from pipeline.tracking import Event, Track, Tracker
from pipeline.tracking.reidentification import Reidentification
from pipeline.tracking.tracks import DEPARTURES, LastSeen
from pipeline.tracking.turns import Crossings

logger = logging.getLogger(__name__)

CAMERA_MEMORY = "cameras"  # their folder, beside the journals'; files are named by camera
BEGUN = "begun"  # a folder in it: what each had learnt when the daemon began, which its records name
_SCHEMA = "narrated-camera/1"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(slots=True, eq=False)
class CameraState:
    limits: MessageLimits  # what was sent lately, by which messages are held
    summary: MinuteSummary
    stories: Stories = field(default_factory=Stories)  # what pairs reported lately
    tracker: Tracker | None = None  # None before the first frame, and after the scene was cut
    frames: deque[Frame] = field(default_factory=deque)  # the last seconds, in the order of time
    in_sight: deque[tuple[float, Detections]] = field(default_factory=deque)  # the sure ones in all of them
    colours: ColourVotes | None = field(default_factory=ColourVotes)  # None: not wanted
    entered_from: dict[str, str] = field(default_factory=dict)  # by which side each open track came
    reported: dict[str, str] = field(default_factory=dict)  # the last narration about each open track
    present: dict[str, LastSeen] = field(default_factory=dict)  # by the record: who came, and has not left
    suppressed: int = 0  # records held from messages since the last one that was not
    saved: dict[str, Any] | None = None  # an earlier process's tracker, until it is taken up
    people: Reidentification | None = None  # who are there or have left; None without an embedding
    scenery: Scenery = field(default_factory=Scenery)
    crossings: Crossings = field(default_factory=lambda: Crossings(()))
    doors: Doors = field(default_factory=Doors)
    weights: TrackingWeights | None = None  # of its trackers; None takes the packaged ones

    def track(self, motion: MotionFrame, detections: Detections) -> list[Event]:
        """Associate a frame's detections with the open tracks; the events that it decides."""
        frame, small = motion.frame, motion.small
        aspect = small.shape[1] / small.shape[0]
        time_s = frame.time.timestamp()
        if was_set := bool(self.frames) and is_set_ahead(self.frames[-1], frame):
            self.doors.clock_set(time_s)
        if (
            self.tracker is None
            or motion.restart
            or self.tracker.aspect != aspect
            or (self.tracker.time_s or 0.0) >= time_s  # the clock went back, maybe while nothing moved
            or was_set  # else who is there would have been so for all that time
        ):
            self.tracker = self._restore(Tracker(aspect, self.weights), time_s, detections)
            known = {track.id for track in self.tracker.tracks}
            for name in self.present.keys() - known:  # a track that is not taken up rests nowhere
                self.present[name] = self.present[name]._replace(rests=False)
            self.frames.clear()
            self.in_sight.clear()
        elif motion.follows_gap:
            self.tracker.interrupt()
        self._hold(frame)
        self.in_sight.append((time_s, detections.select(detections.score >= settings.SURE_SCORE)))
        while self.in_sight[0][0] < time_s - settings.RING_S:
            self.in_sight.popleft()
        self._forget_ended(self.tracker)
        events = self.tracker.update(time_s, detections, small, motion.quiet_s)
        if self.colours:
            self.colours.update(self.tracker.tracks, time_s, small)
        events = self.scenery.filter(events, self.tracker.tracks, aspect)
        crossed = self.crossings.update(self.tracker.tracks, time_s, aspect)
        events = [*events, *self.tracker.filter_turns(crossed)]
        if self.people:
            events = self.people.update(time_s, self.tracker.tracks, small, events)
        events = [*events, *self.doors.update(self.tracker.tracks, time_s, small, motion.quiet_s)]
        for event in events:
            if event.way and event.kind == "entered":
                self.entered_from[event.track] = event.way
        return events

    def finish(self) -> list[Event]:
        """The events that no later frame will confirm, see `Tracker.finish`."""
        if self.tracker is None:
            return []
        return self.scenery.filter(self.tracker.finish(), self.tracker.tracks, self.tracker.aspect)

    def note(self, event: Event) -> None:
        """Take note of an event that is recorded: its track is there, or gone."""
        track = self._tracks.get(event.track)
        if event.kind in DEPARTURES:
            self.present.pop(event.track, None)
        elif track and (event.kind != "crossed" or event.track in self.present):
            self.present[event.track] = track.last_seen

    def lose(self, time_s: float) -> list[LastSeen]:
        """Tracks that were reported as there, and moved when they were observed last, long before `time_s`.

        What rested then is hidden, or not detected, and may still be there.
        """
        tracks, lost = self._tracks, []
        for name, last in list(self.present.items()):
            if name in tracks:
                last = self.present[name] = tracks[name].last_seen  # noqa: PLW2901
            if last.rests and self.tracker and name not in tracks:
                del self.present[name]
            elif not last.rests and abs(time_s - last.time_s) > settings.RESTING_LOST_S:
                lost.append(self.present.pop(name))  # also where the clock went back
        return lost

    def is_masked(self, event: Event, masks: tuple[Polygon, ...]) -> bool:
        """True where the middle of an event's box lies in a mask."""
        if not masks or not self.frames:
            return False
        (height, width), (x, y) = self.frames[-1].luma.shape, centre(event.box)
        hidden = polygon_mask(masks, (height, width))
        return bool(hidden[min(int(y * height), height - 1), min(int(x * width), width - 1)])

    @property
    def _tracks(self) -> dict[str, Track]:
        return {track.id: track for track in self.tracker.tracks} if self.tracker else {}

    def frames_of(self, event: Event) -> tuple[Frame, Frame] | None:
        """The frames nearest to an event's own moments; None where only one is held."""
        before, after = self.frame_at(event.before_time_s), self.frame_at(event.after_time_s)
        return (before, after) if before.time < after.time else None

    def with_boxes_at(self, event: Event, frames: tuple[Frame, Frame]) -> Event:
        """The event with its boxes where the track was in the frames that are shown."""
        track = self._tracks.get(event.track)
        if track is None:
            return event
        before, after = (track.at(frame.time.timestamp()) for frame in frames)
        return replace(
            event,
            box_before=event.box_before and (before or event.box_before),
            box_after=event.box_after and (after or event.box_after),
        )

    @property
    def rate_hz(self) -> float:
        """Frames a second that were looked at lately."""
        last = [*self.frames][-4:]  # at a slow rate no more are recent
        span_s = (last[-1].time - last[0].time).total_seconds() if last else 0.0
        return round((len(last) - 1) / span_s, 1) if span_s > 0 else math.inf

    def frame_at(self, time_s: float) -> Frame:
        return min(self.frames, key=lambda frame: abs(frame.time.timestamp() - time_s))

    def is_among(self, event: Event, options: DescribeOptions) -> bool:
        """True where others of its kind are at the same place: "the car on the left" would be ambiguous.

        They are tracked, or only in sight: in a crowd not everybody has a track.
        """
        sides = [(event.box_after, event.after_time_s), (event.box_before, event.before_time_s)]
        box, time_s = sides[event.box_after is None or event.kind in (*DEPARTURES, "resumed")]
        if self.tracker is None or box is None:
            return False
        family, where = family_of(event.object), phrase_of(box, options.zones, depth=options.depth)
        tracks = (track for track in self.tracker.tracks if track.id != event.track)
        others = [track.at(time_s) for track in tracks if track.family == family]
        _, seen = min(self.in_sight, key=lambda each: abs(each[0] - time_s))
        names = (OBJECTS[number] for number in seen.label.argmax(1))
        boxes = (box_of(row) for row, name in zip(seen.box, names, strict=True) if family_of(name) == family)
        others += [each for each in boxes if not _is_part(each, box)]
        return any(each and is_at(each, where, options.zones, depth=options.depth) for each in others)

    def explains(self, box: Box, name: str) -> bool:
        """True where an object at a place is an open track, whose events were or will be reported."""
        tracks = (track for track in self._tracks.values() if track.family == family_of(name))
        return any(iou(track.last.box, box) > settings.PRESENT_IOU for track in tracks)

    def drop_known(self, narration: Narration, pair: FramePair) -> Narration:
        """The narration of a pair without what tracks explain, and without scenery.

        Only of a scene that was watched all the time it is known that nothing came to a place: what changes
        there in silence, once reported, is scenery. Things may come and go once.
        """
        kept = [s for s in narration.sentences if not (s.box and self.explains(s.box, s.object))]
        for sentence in list(kept) if pair.cause is Cause.BASELINE else ():
            if sentence.box and sentence.type in ("appeared", "disappeared"):
                is_thing = sentence.object in THINGS
                name = f"{sentence.type} {sentence.object}" if is_thing else sentence.object
                if self.scenery.knows(name, sentence.box):
                    kept.remove(sentence)
                self.scenery.learn(name, sentence.box)
        return replace(narration, sentences=tuple(kept))

    def _forget_ended(self, tracker: Tracker) -> None:
        known = {track.id for track in tracker.tracks}
        for held in (self.entered_from, self.reported):
            for track in held.keys() - known:
                del held[track]

    def _restore(self, tracker: Tracker, time_s: float, found: Detections) -> Tracker:
        """The tracker with what an earlier process saved, if that fits the detections, and is earlier."""
        saved, self.saved = self.saved, None
        if saved:
            try:
                tracker.restore(saved)
                if tracker.time_s is not None and tracker.time_s >= time_s:
                    raise ValueError("the camera's clock went backwards")  # noqa: TRY301 - said like the others
                fits = found.label.shape[1], found.feature.shape[1]
                if any((len(each.classes), len(each.embedding)) != fits for each in tracker.tracks):
                    raise ValueError("they are of another captioner")  # noqa: TRY301
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                logger.warning("ignoring saved tracks: %s", error)
                return Tracker(tracker.aspect, self.weights)
        return tracker

    def let_go(self, now: Frame) -> None:
        """Let go of frames that no event may choose, but for the last one."""
        last = self.frames[-1] if self.frames else None
        self.frames = deque(each for each in self.frames if each is last or self._is_needed(each, now))

    def _is_needed(self, frame: Frame, now: Frame, within_s: float = settings.RING_S) -> bool:
        """True of a recent frame, and of the frame before of what a door does next."""
        shown_s = frame.time.timestamp()
        is_recent = seconds_between(frame, now) <= within_s
        return is_recent or any(each.shown_s == shown_s for each in self.doors.watched)

    def _hold(self, frame: Frame) -> None:
        frames = [each for each in self.frames if self._is_needed(each, frame)]
        # of three neighbours that are no longer recent the middle one goes where they are close
        for k in range(len(frames) - 2, 0, -1):
            is_close = seconds_between(frames[k - 1], frames[k + 1]) < 2 * settings.OLDER_S
            if is_close and not self._is_needed(frames[k], frame, settings.RECENT_S):
                del frames[k]
        self.frames = deque([*frames, frame])


def _is_part(box: Box, other: Box) -> bool:
    """True of a detection that is probably of the same object, or of a part of it."""
    shares = share_inside(box, other), share_inside(other, box)
    return iou(box, other) > settings.PRESENT_IOU or max(shares) > settings.PART_SHARE


class CameraMemory:
    """The last frame that was seen, tracks, scenery, doors and usual events, in a file replaced as a whole.

    A disk that fails costs the memory, never the watching: the file stays as it was, with a time of
    modification of 0 as the mark of it. `content` is that of another file to begin with.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self._path, self._faults = path, Faults()
        self.seen: FrameStamp | None = None  # the last frame, also an earlier process's
        self.tracks: dict[str, Any] | None = None  # state of an earlier process's tracker
        self.scenery = Scenery()
        self.doors: list[dict[str, Any]] = []
        self.present: list[LastSeen] = []  # by the record: who came, and has not left
        self.minutes: list[Mapping[str, int]] = []  # events by kind, see `MinuteSummary`
        self.is_stale = False  # what an earlier process did later could not be written
        self.masks = self.sha256 = ""  # day and areas of the last record of masks; hash of the loaded file
        try:
            content = path.read_bytes() if content is None else content
            kept = json.loads(content)[_SCHEMA]
            time = datetime.fromisoformat(kept["time"])
            # the steady clock tells how long narrated was away, whatever the wall clock says: until a reboot
            steady_s = float(kept["steady_s"]) if kept.get("boot") == _boot_id() else None
            self.seen = FrameStamp(time, int(kept["pts"]), str(kept["sha256"]), steady_s)
            self.tracks, self.masks = kept["tracks"], str(kept.get("masks", ""))
            self.scenery, self.doors = Scenery.of(kept.get("scenery", [])), kept.get("doors", [])
            self.present = [LastSeen(*each) for each in kept.get("present", [])]
            self.minutes = [{k: int(n) for k, n in dict(each).items()} for each in kept.get("minutes", [])]
            self.sha256 = hashlib.sha256(content).hexdigest()
            self.is_stale = path.exists() and path.stat().st_mtime == 0.0
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s cannot be read (%s): starting without a memory of this camera", path, error)

    def keep_begun(self) -> None:
        """Keep a copy of the file as it is now, for replays of what is recorded from here on."""
        begun = self._path.parent / BEGUN / self._path.name
        with self._faults.noted("", "what a camera begins with cannot be kept", OSError):
            begun.parent.mkdir(parents=True, exist_ok=True)
            if self.sha256:
                replace_file(begun, self._path.read_bytes(), durable=False, mode=0o640)
            else:
                begun.unlink(missing_ok=True)

    def save(self, seen: FrameStamp, tracks: dict[str, Any] | None) -> None:
        self.seen = seen
        kept = {"time": format_time(seen.time), "pts": seen.pts, "sha256": seen.sha256, "tracks": tracks}
        more = {"masks": self.masks, "scenery": self.scenery.state(), "present": self.present}
        more |= {"minutes": self.minutes, "doors": self.doors}
        kept |= {name: each for name, each in more.items() if each}
        with self._faults.noted("", "a camera's memory cannot be written", OSError):
            kept |= {"steady_s": seen.steady_s, "boot": _boot_id()} if seen.steady_s is not None else {}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                replace_file(self._path, json.dumps({_SCHEMA: kept}).encode(), durable=False, mode=0o640)
            except OSError:
                os.utime(self._path, (0.0, 0.0))  # which needs no space
                raise


def _boot_id() -> str:
    return _BOOT_ID.read_text() if _BOOT_ID.exists() else ""
