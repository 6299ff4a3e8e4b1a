"""One camera's narrator: frames are tracked, pairs are compared, and what comes of it is journalled."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.plan import CameraPlan
from daemon.config.settings import EvidenceSettings
from daemon.questions.question import LocalTime, moment_of
from daemon.rules.rule import Rule
from daemon.rules.watch import Met, RuleBook, recent
from daemon.threads.work_queue import DROPPED, FAILED, PUBLISHED, REPORTED, SUPPRESSED, UNCHANGED, Change
from models.captioner import Captioner, packaged_tracking
from models.detections import Detections
from pipeline import settings
from pipeline.camera_state import CameraMemory, CameraState
from pipeline.changes import SceneEvent
from pipeline.doors import Doors
from pipeline.evidence import EvidenceStore
from pipeline.gate import Gap, Item, MotionFrame, Seen
from pipeline.journal import JournalError, latest_first
from pipeline.limits import HOUR, NO_LIMITS, MessageLimits, MinuteSummary
from pipeline.loop import Faults
from pipeline.narration import events
from pipeline.narration.batch import RegionDetector
from pipeline.narration.colour import ColourVotes
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration, stamp
from pipeline.pairs import FramePair
from pipeline.record import Evidence, Record, build_record
from pipeline.record_format import ChainEnd, RecordError
from pipeline.report.picture import encode, side_by_side
from pipeline.sources import Clock, Frame, Image, polygon_mask, seconds_between
from pipeline.sources.frame import is_set_ahead, without_picture
from pipeline.tracking import Event
from pipeline.tracking.reidentification import Reidentification
from pipeline.tracking.turns import Crossings

if TYPE_CHECKING:
    from daemon.threads.narrator import Narrator

logger = logging.getLogger(__name__)

_RECALLED = 1000  # records of an earlier process that are looked at
_QUALITY = 85  # of JPEG


class CameraNarrator:
    """Turns what one camera shows into journalled records; made again for another plan of the camera."""

    def __init__(self, plan: CameraPlan, narrator: Narrator, earlier: CameraNarrator | None = None) -> None:
        self.plan, self._narrator, self.journal = plan, narrator, narrator.journals[plan.name]
        self.context, self.regions = event_context(plan, narrator.captioner), RegionDetector()
        self.latest: tuple[Narration, FramePair] | None = None  # what was journalled last
        self.recorded = set[str]()  # ids that an earlier process wrote of this footage
        self.memory: CameraMemory | None = None  # what outlives the process; None where nothing is kept
        self.first_seen: FrameStamp | None = None  # the first since the source was opened; None before it
        self.away = "outage"  # why nothing was seen before that frame
        self.last: Frame | None = None  # the last one that was looked at
        self.lost_s = -math.inf  # time of the last frame before which others were given up
        self.missed: tuple[Frame, ...] = ()  # the first and last not narrated since one that was
        self.warned_s = -math.inf  # when it was logged last that it cannot be narrated
        self.rules: RuleBook | None = None
        self.shown: list[Frame] = []  # frames of one piece of work whose pictures were looked at
        limits = MessageLimits(plan.limits, plan.describe.zones)
        minute = MinuteSummary(plan.limits.per_minute)
        if earlier:
            earlier.close_minute()
            state = earlier.state
            limits.inherit(state.limits)
            minute.minutes.extend(state.summary.minutes)
            self.memory, self.away = earlier.memory, "camera_down" if earlier.first_seen else earlier.away
            self.context = replace(self.context, state_sha256=earlier.context.state_sha256)
            self.rules = earlier.rules
            if state.tracker:
                state.tracker.interrupt()  # its source is opened again
        else:
            embed, weights = narrator.captioner.appearance, narrator.captioner.tracking
            people = Reidentification(embed, weights or packaged_tracking()) if embed else None
            state = CameraState(limits, minute, people=people, weights=weights)
        self.state: CameraState = replace(
            state,
            limits=limits,
            summary=minute,
            crossings=Crossings(plan.describe.lines),
            doors=Doors.of(plan.describe.doors, state.doors.state()),
            colours=(state.colours or ColourVotes()) if plan.describe.colours else None,
        )
        if not earlier:
            self._recall()
        if narrator.live and not plan.url.startswith(("rtsp://", "rtsps://")):
            # Footage that is read again at a restart has the same ids: no record is written twice.
            self.recorded = {record.id for record in self._newest_first()}
            if self.recorded:
                logger.info("%s: narrations that its journal already has are not written again", plan.name)
        self.record_sha256 = self._record_sha256()

    def _recall(self) -> None:
        """Begin with what an earlier process left, or with what a replay was given."""
        narrator, name = self._narrator, self.plan.name
        learnt = None
        if narrator.live:
            self._recall_limits()
            if narrator.memory:
                learnt = self.memory = CameraMemory(narrator.memory / f"{name}.json")
                self.memory.keep_begun()
        elif content := narrator.states.get(name):
            learnt = CameraMemory(Path(name), content)
        if learnt:
            self.state.saved, self.state.scenery = learnt.tracks, learnt.scenery
            self.state.doors = Doors.of(self.plan.describe.doors, learnt.doors)
            self.state.present = {each.track: each for each in learnt.present}
            self.state.summary.minutes.extend(learnt.minutes)
            self.context = replace(self.context, state_sha256=learnt.sha256)

    def set_rules(self, rules: tuple[Rule, ...], local: LocalTime) -> None:
        if rules == (self.rules.rules if self.rules else ()):
            return
        self.rules = RuleBook(rules, local) if rules else None
        self.record_sha256 = self._record_sha256()
        if self.rules and (newest := next(self._newest_first(), None)):
            met = self.rules.recall(self._newest_first(), self.record_sha256)
            frames = [FrameStamp(f.moment, f.pts, f.sha256) for f in (newest.before, newest.after)]
            self._report_rules(met, (frames[0], frames[1]), Clock(newest.clock))

    def release(self) -> None:
        """Let go of the pictures that a piece of work has looked at."""
        for frame in self.shown:
            frame.picture.release()
        self.shown.clear()

    def _record_sha256(self) -> str:
        plain = self.plan.settings_sha256(self._narrator.captioner, limits=True)
        if not self.rules:
            return plain
        return hashlib.sha256(f"{plain}{self.rules.rules}".encode()).hexdigest()

    def _newest_first(self) -> Iterator[Record]:
        return latest_first(self.journal.folder, self.plan.name)

    def _recall_limits(self) -> None:
        limits = self.plan.limits
        span = max(timedelta(seconds=limits.cooldown_s or 0.0), HOUR)
        for record in recent(self._newest_first(), span, 0 if limits == NO_LIMITS else _RECALLED):
            of_footage = record.clock == "file"  # which, read again, is of the same time
            if not (of_footage or record.held or record.rule):
                self.state.limits.remember(record.after.moment, record.event, record.sentences)

    def take(self, item: Item | Change, found: Detections | None) -> None:
        match item:
            case FramePair() as pair:
                self.shown += (pair.before, pair.after)
                outcome = self._report_pair(pair, self._narrator.captioning.narrate(pair, self.context))
                self._narrator.counters[self.plan.name, *outcome] += 1
            case Gap(before, after, reason):
                self.report_gap(stamp(before), after, reason)
            case Seen(frame):
                self._note_clock(frame)
                if self.missed and seconds_between(self.missed[-1], frame) >= settings.PAUSE_S:
                    self.note_missed(self.missed[-1])  # nothing moves any more
                self._note_seen(frame)
            case MotionFrame(frame) as motion:
                if found is None:
                    self.miss(frame)
                else:
                    self._note_clock(frame)
                    self._track(motion, found)
                    self.note_missed(frame)

    def _note_clock(self, now: Frame) -> None:
        last, self.last = self.last, without_picture(now)
        if last and is_set_ahead(last, now):
            self._report(events.clock_narration(last, now, self.context))

    def miss(self, frame: Frame) -> None:
        self._narrator.missed[self.plan.name] += 1
        self.missed = *self.missed[:1], frame

    def note_missed(self, now: Frame) -> None:
        """Journal how long frames could not be narrated, where nobody can be known to be absent."""
        missed, self.missed = self.missed, ()
        if missed and seconds_between(missed[0], now) >= settings.PAUSE_S:
            self.report_gap(stamp(missed[0]), now, "failed")

    def _track(self, motion: MotionFrame, detections: Detections) -> None:
        state, context = self.state, self.context
        now_s = motion.frame.time.timestamp()
        if motion.follows_loss:
            self.lost_s = now_s
            last = state.frames[-1] if state.frames else self.first_seen
            if last and seconds_between(last, motion.frame) >= settings.PAUSE_S:
                before = stamp(last) if isinstance(last, Frame) else last
                self.report_gap(before, motion.frame, "overload")
        happened = state.track(motion, detections)
        if abs(now_s - self.lost_s) <= settings.RECENT_S:
            context = replace(context, rate_hz=min(state.rate_hz, context.rate_hz))
        reported = self.report_events(happened, context)
        reported += self._report_lost(motion.frame)
        if reported and self.memory and self.first_seen:
            latest = max(*reported, self.memory.seen or reported[0], key=lambda each: each.time)
            self._remember(self.memory, latest)  # a kill tells nothing twice

    def report_events(self, happened: Iterable[Event], context: events.EventContext) -> list[FrameStamp]:
        """Journal what tracks do; the frame after of each record."""
        reported, state, least = list[FrameStamp](), self.state, context.describe.min_confidence
        for event in happened:
            if least is not None and event.confidence < least:
                continue
            frames = state.frames_of(event)
            if frames is None or state.is_masked(event, context.masks):
                continue
            narration, pair = events.narrate_event(
                state.with_boxes_at(event, frames),
                frames,
                context,
                state.colours.colour(event.track) if state.colours else "",
                state.entered_from.get(event.track, ""),
                among=state.is_among(event, context.describe),
                continues=state.reported.get(event.track, "") if event.completes else "",
            )
            kind = None if narration.continues else (event.kind, event.object, event.edge)
            state.reported[event.track] = narration.id
            self._report(narration, pair, kind)
            state.note(event)
            reported.append(narration.after)
        return reported

    def _report_lost(self, seen: Frame) -> list[FrameStamp]:
        """Journal tracks that were lost without a departure; the frame of each record."""
        lost = [
            events.lost_narration(last, seen, self.context) for last in self.state.lose(seen.time.timestamp())
        ]
        for narration in lost:
            self._journal(narration)
        return [narration.after for narration in lost]

    def report_gap(self, before: FrameStamp, after: Frame, reason: str) -> None:
        self._report(events.gap_narration(before, after, reason, self.context))

    def _note_seen(self, seen: Frame) -> None:
        """Keep on disk that the camera was watched until now, and what it remembers."""
        now = stamp(seen)
        self.shown.append(seen)
        self.state.let_go(seen)  # where nothing moves, no frame is held for them
        earlier = self.memory.seen if self.memory and not self.first_seen else None
        self.first_seen = self.first_seen or now
        if earlier and seconds_between(earlier, now) >= settings.GAP_S + settings.SEEN_S:
            is_unwritten = self.away == "outage" and self.memory and self.memory.is_stale
            self.report_gap(earlier, seen, "unwritten" if is_unwritten else self.away)
        self._report_lost(seen)
        if self.state.summary.is_over(now.time):
            self.close_minute()
        if self.memory:
            self._note_masks(self.memory, seen)
            if self.rules:
                met = self.rules.tick(now.time)
                self._report_rules(met, (now, now), seen.clock)
            if not self.missed:  # else a kill would lose the gap that is not journalled yet
                self._remember(self.memory, now)

    def _remember(self, memory: CameraMemory, now: FrameStamp) -> None:
        tracker, memory.doors = self.state.tracker, self.state.doors.state()
        memory.present, memory.minutes = [*self.state.present.values()], [*self.state.summary.minutes]
        memory.save(now, tracker.state() if tracker else self.state.saved)

    def _note_masks(self, memory: CameraMemory, seen: Frame) -> None:
        """Journal what masks and privacy areas hide: where they change a message, and silently once a day."""
        source = self.plan.source
        areas = (*source.masks, *source.privacy)
        digest = hashlib.sha256(repr(areas).encode()).hexdigest()
        now = f"{seen.time:%Y-%m-%d} {digest}" if areas else ""
        if now != memory.masks:
            is_new = not areas or not memory.masks.endswith(digest)
            memory.masks = now
            hidden = float(polygon_mask(areas, seen.luma.shape).mean()) if areas else 0.0
            narration = events.mask_narration(seen, hidden, self.context)
            self._journal(replace(narration, held="" if is_new else "merged"))

    def _report_pair(self, pair: FramePair, narration: Narration | None) -> tuple[str, str]:
        """Journal what is new in a pair; its outcome, and the reason."""
        if narration is None:
            return DROPPED, FAILED
        state, result = self.state, narration
        if narration.event in {SceneEvent.VIEW, SceneEvent.OBSTRUCTED}:
            state.tracker = None
        elif not narration.fallback:
            result = state.drop_known(narration, pair)
        result = state.stories.follow(result, returned=pair.returned)
        if not result.sentences:
            return SUPPRESSED, REPORTED if narration.sentences else narration.abstained or UNCHANGED
        return (PUBLISHED, "") if self._report(result, pair) else (DROPPED, FAILED)

    def _report(
        self, narration: Narration, pair: FramePair | None = None, kind: tuple[str, str, str] | None = None
    ) -> bool:
        """Journal a narration, marked where a limit holds it from messages; whether it was journalled."""
        state, time = self.state, narration.after.time
        if state.summary.is_over(time):
            self.close_minute()
        event = "change" if narration.event is SceneEvent.NONE else narration.event.value
        was_at_limit = state.limits.at_hourly_limit
        is_usual = kind is not None and state.summary.is_usual(kind)
        held = "summary" if is_usual else state.limits.hold(time, event, narration.sentences)
        if state.limits.at_hourly_limit and not was_at_limit:
            text = "%s: hourly limit of messages reached: narrations are recorded, and not sent for now"
            logger.warning(text, narration.camera)
        of, kinds = "track" if event == "change" else "camera", [kind] if kind else []
        if pair and of == "track" and not (kind or narration.continues):
            of, kinds = "pair", [(s.type, s.object, "") for s in narration.sentences for _ in range(s.count)]
        number = len(narration.sentences)
        held = state.summary.add(time, narration.id, kinds, held, of=of, sentences=number)
        return self._journal(replace(narration, held=held), pair)

    def close_minute(self) -> None:
        if (summary := self.state.summary.close()) and self.latest:
            narration, pair = self.latest
            self._journal(events.summary_narration(narration, *summary), pair)

    def _report_rules(self, met: Sequence[Met], frames: tuple[FrameStamp, FrameStamp], clock: Clock) -> None:
        """Journal the rules that were met; no limit holds them but their own cooldown."""
        for rule, firing in met:
            records, time = tuple(map(str, firing.records)), moment_of(firing.at)
            what = firing.object, firing.confidence, firing.maybe
            of = events.RuleMet(self.plan.name, clock, time, records, *what)
            narration = events.rule_narration(rule.name, rule.when.strip(" ."), frames, of, self.context)
            known = self.rules.evidence if self.rules else {}
            shown = next((known[each] for each in reversed(records) if each in known), None)
            self._journal(narration, evidence=shown)

    def _journal(
        self, narration: Narration, pair: FramePair | None = None, evidence: Evidence | None = None
    ) -> bool:
        """Journal a record; it is among what is given out next. False where a daemon must go on without."""
        if pair:
            self.latest = narration, pair
            self.shown += (pair.before, pair.after)
        if narration.id in self.recorded:
            self.state.suppressed = 0
            return True
        if self._narrator.evidence and pair and not narration.held:
            evidence = self._narrator.evidence.keep(narration, pair, self.plan.evidence)
        written = replace(narration, settings_sha256=self.record_sha256)
        try:
            record = self.journal.append(
                written,
                suppressed=self.state.suppressed,
                latency_ms=_latency_ms(narration) if self._narrator.live else None,
                evidence=evidence,
            )
            journalled = record or build_record(written, ChainEnd(), evidence=evidence)
        except (JournalError, RecordError) as error:
            if not self._narrator.live:
                raise
            # A daemon goes on: the journal has held lines back for as long as it could, and may be well soon.
            logger.error("%s: not recorded, neither written nor held: %s", narration.camera, error)  # noqa: TRY400 - no bug
            return False
        self.state.suppressed = self.state.suppressed + 1 if narration.held else 0
        if record is not None:  # else it waits for its journal to open
            self._narrator.written.append(record)
        if self.rules:
            met = self.rules.take(journalled)
            limited = narration.held and any(narration.id in firing.records for _, firing in met)
            if self._narrator.evidence and pair and limited:  # no limit holds the rule's record
                shown = self._narrator.evidence.keep(narration, pair, self.plan.evidence)
                self.rules.show(narration.id, shown)
            self._report_rules(met, (narration.before, narration.after), narration.clock)
        return True


class EvidenceKeeper:
    """Stores before, after and the overlay of what is reported; for one thread, but its counts for all.

    A disk that is full or fails costs the pictures, never the narration.
    """

    def __init__(self, store: EvidenceStore) -> None:
        self.store = store
        self.kept = self.failed = 0
        self.errors = Faults()

    def keep(self, narration: Narration, pair: FramePair, settings: EvidenceSettings) -> Evidence | None:
        if settings.keep == "none":
            return None
        before, after = pair.before.image, pair.after.image
        pictures = dict[str, Image]()
        if settings.keep in {"all", "frames"}:
            pictures |= {"before": before, "after": after}
        if settings.keep in {"all", "overlay"}:
            pictures["overlay"] = side_by_side(before, after, narration.sentences)
        stored = dict[str, str]()
        with self.errors.noted("", "pictures cannot be stored; narrations continue without them", OSError):
            for side, image in pictures.items():
                stored[side] = self.store.put(encode(image, _QUALITY), "jpg")
        if len(stored) < len(pictures):
            self.failed += 1
            return None
        self.kept += 1
        return Evidence(**stored)


def event_context(plan: CameraPlan, captioner: Captioner) -> events.EventContext:
    """How a camera's pairs and events are narrated; ConfigurationError where the plan does not fit."""
    return events.EventContext(
        plan.change_options(captioner),
        plan.describe,
        plan.source.masks,
        ModelStamp(captioner.name, captioner.sha256),
        plan.settings_sha256(captioner),
        plan.source.sample_hz,
        timezone=plan.timezone,
    )


def _latency_ms(narration: Narration) -> dict[str, float] | None:
    if narration.clock == "file" or not isinstance(narration.event, SceneEvent):
        return None
    since = datetime.now(UTC) - narration.after.time
    return {"capture_to_narration": max(0.0, 1000 * since.total_seconds())}
