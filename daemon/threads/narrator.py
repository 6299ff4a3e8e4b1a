"""The narrator: frames are detected in and tracked, pairs are compared; what comes of it is journalled."""

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

from daemon.config.plan import CameraPlan
from daemon.questions.local_time import LocalTime, moment_of
from daemon.rules.book import Met, RuleBook, recent
from daemon.rules.rule import Rule
from daemon.threads.captions import REPEAT_S, Captioning
from daemon.threads.evidence import EvidenceKeeper
from daemon.threads.work_queue import (
    DROPPED,
    FAILED,
    NOTHING_CHANGED,
    PUBLISHED,
    REPORTED,
    SUPPRESSED,
    Change,
    PairCounters,
    Work,
)
from models.captioner import Captioner
from models.checkpoint import packaged_tracking
from models.detections import Detections
from pipeline import settings
from pipeline.camera_memory import CameraMemory
from pipeline.camera_state import CameraState
from pipeline.changes import SceneEvent
from pipeline.doors import Doors
from pipeline.gate import Gap, Item, MotionFrame, Seen
from pipeline.journal import Journal, JournalError, latest_first
from pipeline.limits import HOUR, NO_LIMITS, MessageLimits, MinuteSummary
from pipeline.narration.events import (
    EventContext,
    RuleMet,
    clock_narration,
    gap_narration,
    lost_narration,
    mask_narration,
    narrate_event,
    rule_narration,
    summary_narration,
)
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration, stamp
from pipeline.narration.regions import RegionDetector
from pipeline.pairs import FramePair
from pipeline.record import Evidence, Record, build_record
from pipeline.record_format import ChainEnd, RecordError
from pipeline.sources import Clock, Frame, polygon_mask, seconds_between
from pipeline.sources.frame import is_set_ahead
from pipeline.sources.picture import without_picture
from pipeline.tracking import Event
from pipeline.tracking.crossings import Crossings
from pipeline.tracking.reidentification import Reidentification

logger = logging.getLogger(__name__)

_RECALLED = 1000  # records of an earlier process that are looked at


@dataclass(slots=True, eq=False)
class _Camera:
    plan: CameraPlan
    context: EventContext
    state: CameraState
    regions: RegionDetector = field(default_factory=RegionDetector)
    latest: tuple[Narration, FramePair] | None = None  # what was journalled last
    recorded: set[str] = field(default_factory=set)  # ids that an earlier process wrote of this footage
    memory: CameraMemory | None = None  # what outlives the process; None where nothing is kept
    first_seen: FrameStamp | None = None  # the first frame since the source was opened; None before it
    away: str = "outage"  # why nothing was seen before that frame
    last: Frame | None = None  # the last one that was looked at
    lost_s: float = -math.inf  # time of the last frame before which others were given up
    missed: tuple[Frame, ...] = ()  # the first and last that could not be narrated since one that could
    warned_s: float = -math.inf  # when it was logged last that it cannot be narrated
    rules: RuleBook | None = None
    record_sha256: str = ""  # hash (hex) of all settings, the limits and rules included


class Narrator:
    """Turns frames and pairs into journalled records; for one thread.

    A replay, not `live`, does not journal how long it took, which differs from run to run. `evidence` stores
    pictures before what they show is journalled, the folder `memory` what of live cameras outlives the
    process; None keeps none. A replay's cameras begin with the contents `states` of such files, by camera.
    """

    def __init__(
        self,
        captioner: Captioner,
        plans: Iterable[CameraPlan],
        journals: Mapping[str, Journal],
        *,
        live: bool,
        evidence: EvidenceKeeper | None = None,
        memory: Path | None = None,
        states: Mapping[str, bytes] | None = None,
        counters: PairCounters | None = None,
    ) -> None:
        self.captioning = Captioning(captioner)
        self.counters, self.missed = counters or PairCounters(), Counter[str]()  # frames not narrated
        self._captioner, self._journals, self._live, self._evidence = captioner, journals, live, evidence
        self._memory, self._states = memory, states or {}
        self._cameras: dict[str, _Camera] = {}
        self._written: list[Record] = []
        self._shown: list[Frame] = []  # frames of one piece of work whose pictures were looked at
        for plan in plans:
            self.add(plan)

    def add(self, plan: CameraPlan) -> None:
        """Take a camera in, or continue with one under another plan: its tracks and limits go on."""
        context = event_context(plan, self._captioner)
        limits = MessageLimits(plan.limits, plan.describe.zones)
        embed, weights = self._captioner.appearance, self._captioner.tracking or packaged_tracking()
        people = Reidentification(embed, weights) if embed else None
        minute, crossings = MinuteSummary(plan.limits.per_minute), Crossings(plan.describe.lines)
        doors = Doors.of(plan.describe.doors)
        state = CameraState(limits, minute, people=people, crossings=crossings, doors=doors, weights=weights)
        camera = _Camera(plan, context, state)
        if earlier := self._cameras.get(plan.name):
            self._close_minute(earlier)
            limits.inherit(earlier.state.limits)
            minute.minutes.extend(earlier.state.summary.minutes)
            doors = Doors.of(plan.describe.doors, earlier.state.doors.state())
            camera.state = replace(
                earlier.state, limits=limits, summary=minute, crossings=crossings, doors=doors
            )
            camera.memory, camera.away = earlier.memory, "camera_down" if earlier.first_seen else earlier.away
            camera.context = replace(context, state_sha256=earlier.context.state_sha256)
            camera.rules = earlier.rules
            if camera.state.tracker:
                camera.state.tracker.interrupt()  # its source is opened again
        elif self._live:
            self._recall(plan, limits)
            if self._memory:
                camera.memory = CameraMemory(self._memory / f"{plan.name}.json")
                camera.memory.keep_begun()
                _begin_with(camera, camera.memory)
        elif learnt := self._states.get(plan.name):
            _begin_with(camera, CameraMemory(Path(plan.name), learnt))
        if self._live and not plan.url.startswith(("rtsp://", "rtsps://")):
            # Footage that is read again at a restart has the same ids: no record is written twice.
            camera.recorded = {record.id for record in self._newest_first(plan.name)}
            if camera.recorded:
                logger.info("%s: narrations that its journal already has are not written again", plan.name)
        camera.record_sha256 = self._record_sha256(camera)
        self._cameras[plan.name] = camera

    def set_rules(self, name: str, rules: tuple[Rule, ...], local: LocalTime) -> None:
        """Watch rules of a camera, with hours in a time zone; they begin with what its journal says."""
        camera = self._cameras[name]
        if rules == (camera.rules.rules if camera.rules else ()):
            return
        camera.rules = RuleBook(rules, local) if rules else None
        camera.record_sha256 = self._record_sha256(camera)
        if camera.rules and (newest := next(self._newest_first(name), None)):
            met = camera.rules.recall(self._newest_first(name), camera.record_sha256)
            frames = [FrameStamp(f.moment, f.pts, f.sha256) for f in (newest.before, newest.after)]
            self._report_rules(camera, met, (frames[0], frames[1]), Clock(newest.clock))

    def _record_sha256(self, camera: _Camera) -> str:
        plain = camera.plan.settings_sha256(self._captioner, limits=True)
        if not camera.rules:
            return plain
        return hashlib.sha256(f"{plain}{camera.rules.rules}".encode()).hexdigest()

    def _newest_first(self, camera: str) -> Iterator[Record]:
        return latest_first(self._journals[camera].folder, camera)

    def remove(self, camera: str) -> None:
        self._close_minute(self._cameras[camera])
        del self._cameras[camera]

    def _recall(self, plan: CameraPlan, limits: MessageLimits) -> None:
        span = max(timedelta(seconds=plan.limits.cooldown_s or 0.0), HOUR)
        most = 0 if plan.limits == NO_LIMITS else _RECALLED
        for record in recent(self._newest_first(plan.name), span, most):
            of_footage = record.clock == "file"  # which, read again, is of the same time
            if not (of_footage or record.held or record.rule):
                limits.remember(record.after.moment, record.event, record.sentences)

    @property
    def at_hourly_limit(self) -> frozenset[str]:
        cameras = self._cameras.copy().items()
        return frozenset(name for name, camera in cameras if camera.state.limits.at_hourly_limit)

    def unreported(self, camera: str) -> Counter[str]:
        """Sentences that only repeated what was reported, by reason."""
        return self._cameras[camera].state.stories.dropped

    def detect(self, batch: Sequence[Work]) -> list[Detections | None]:
        """Objects in each frame of a batch, pairs left out; `process` may run in another thread meanwhile."""
        return self.captioning.detect(
            [(w.item, self._cameras[w.camera].regions) for w in batch if isinstance(w.item, MotionFrame)]
        )

    def process(
        self, batch: Sequence[Work], found: Sequence[Detections | None] | None = None
    ) -> list[Record]:
        """Detect (unless `found` is what `detect` found before), track, compare and journal a batch.

        Returns the records that were journalled. JournalError where a replay's journal cannot be written.
        """
        detections = iter(self.detect(batch) if found is None else found)
        for work in batch:
            camera = self._cameras[work.camera]
            result = next(detections) if isinstance(work.item, MotionFrame) else None
            try:
                self._take(camera, work.item, result)
            except Exception:
                if not self._live:
                    raise
                # A fault that one camera meets must not blind the others: its tracks begin anew.
                camera.state.tracker = None
                if monotonic() - camera.warned_s >= REPEAT_S:
                    camera.warned_s = monotonic()
                    logger.exception("%s: what it shows cannot be narrated, report this", work.camera)
                if isinstance(work.item, MotionFrame):
                    self._miss(camera, work.item.frame)
                elif work.is_pair:
                    self.counters[work.camera, DROPPED, FAILED] += 1
            for frame in self._shown:
                frame.picture.release()
            self._shown.clear()
        return self._give_out()

    def _take(self, camera: _Camera, item: Item | Change, found: Detections | None) -> None:
        match item:
            case FramePair() as pair:
                self._shown += (pair.before, pair.after)
                self._report_pair(camera, pair, self.captioning.narrate(pair, camera.context))
            case Gap(before, after, reason):
                self._report_gap(camera, stamp(before), after, reason)
            case Seen(frame):
                self._note_clock(camera, frame)
                if camera.missed and seconds_between(camera.missed[-1], frame) >= settings.PAUSE_S:
                    self._note_missed(camera, camera.missed[-1])  # nothing moves any more
                self._note_seen(camera, frame)
            case MotionFrame(frame) as motion:
                if found is None:
                    self._miss(camera, frame)
                else:
                    self._note_clock(camera, frame)
                    self._track(camera, motion, found)
                    self._note_missed(camera, frame)

    def _note_clock(self, camera: _Camera, now: Frame) -> None:
        last, camera.last = camera.last, without_picture(now)
        if last and is_set_ahead(last, now):
            self._report(camera, clock_narration(last, now, camera.context))

    def _miss(self, camera: _Camera, frame: Frame) -> None:
        self.missed[camera.plan.name] += 1
        camera.missed = *camera.missed[:1], frame

    def _note_missed(self, camera: _Camera, now: Frame) -> None:
        """Journal how long frames could not be narrated, where nobody can be known to be absent."""
        missed, camera.missed = camera.missed, ()
        if missed and seconds_between(missed[0], now) >= settings.PAUSE_S:
            self._report_gap(camera, stamp(missed[0]), now, "failed")

    @property
    def failing(self) -> frozenset[str]:
        return frozenset(name for name, camera in self._cameras.copy().items() if camera.missed)

    def finish(self, camera: str | None = None, *, ended: bool = False) -> list[Record]:
        """Journal what is left, of one camera or of all: no more work will come, or their footage `ended`."""
        for each in list(self._cameras.values()):
            if camera in {None, each.plan.name}:
                if each.missed:
                    self._note_missed(each, each.missed[-1])
                if ended:
                    self._report_events(each, each.state.finish(), each.context)
                self._close_minute(each)
        return self._give_out()

    def give_up(self, work: Sequence[Work]) -> list[Record]:
        """Journal from when to when live cameras were not looked at; a restart reads footage again."""
        unseen: dict[str, list[Frame]] = {}
        for each in work:
            item, camera = each.item, self._cameras.get(each.camera)
            if camera is None or each.since is None or isinstance(item, Seen | Change):
                continue
            if isinstance(item, Gap):
                self._report_gap(camera, stamp(item.before), item.after, item.reason)
            else:
                frames = [item.frame] if isinstance(item, MotionFrame) else [item.before, item.after]
                unseen.setdefault(each.camera, []).extend(frames)
        for name, frames in unseen.items():
            camera = self._cameras[name]
            end = frames[-1]
            begin = min((f for f in frames if f.time <= end.time), key=lambda frame: frame.time)
            earlier = [frame for frame in camera.state.frames if frame.time < begin.time]
            looked_at = [frame for frame in earlier if seconds_between(frame, begin) < settings.PAUSE_S]
            self._report_gap(camera, stamp(looked_at[-1] if looked_at else begin), end, "overload")
        return self._give_out()

    def _track(self, camera: _Camera, motion: MotionFrame, detections: Detections) -> None:
        state, context = camera.state, camera.context
        now_s = motion.frame.time.timestamp()
        if motion.follows_loss:
            camera.lost_s = now_s
            last = state.frames[-1] if state.frames else camera.first_seen
            if last and seconds_between(last, motion.frame) >= settings.PAUSE_S:
                before = stamp(last) if isinstance(last, Frame) else last
                self._report_gap(camera, before, motion.frame, "overload")
        events = state.track(motion, detections)
        if abs(now_s - camera.lost_s) <= settings.RECENT_S:
            context = replace(context, rate_hz=min(state.rate_hz, context.rate_hz))
        told = self._report_events(camera, events, context)
        told += self._report_lost(camera, motion.frame)
        if told and camera.memory and camera.first_seen:
            latest = max(*told, camera.memory.seen or told[0], key=lambda each: each.time)
            self._remember(camera, camera.memory, latest)  # a kill tells nothing twice

    def _report_events(
        self, camera: _Camera, events: Iterable[Event], context: EventContext
    ) -> list[FrameStamp]:
        """Journal what tracks do; the frame after of each record."""
        told, state, least = list[FrameStamp](), camera.state, context.describe.min_confidence
        for event in events:
            if least is not None and event.confidence < least:
                continue
            frames = state.frames_of(event)
            if frames is None or state.is_masked(event, context.masks):
                continue
            narration, pair = narrate_event(
                state.with_boxes_at(event, frames),
                frames,
                context,
                state.colours.setdefault(event.track, Counter()),
                state.entered_from.get(event.track, ""),
                among=state.is_among(event, context.describe),
                continues=state.reported.get(event.track, "") if event.completes else "",
            )
            kind = None if narration.continues else (event.kind, event.object, event.edge)
            state.reported[event.track] = narration.id
            self._report(camera, narration, pair, kind)
            state.note(event)
            told.append(narration.after)
        return told

    def _report_lost(self, camera: _Camera, seen: Frame) -> list[FrameStamp]:
        """Journal tracks that were lost without a departure; the frame of each record."""
        lost = [
            lost_narration(last, seen, camera.context) for last in camera.state.lose(seen.time.timestamp())
        ]
        for narration in lost:
            self._journal(camera, narration)
        return [narration.after for narration in lost]

    def _report_gap(self, camera: _Camera, before: FrameStamp, after: Frame, reason: str) -> None:
        self._report(camera, gap_narration(before, after, reason, camera.context))

    def _note_seen(self, camera: _Camera, seen: Frame) -> None:
        """Keep on disk that the camera was watched until now, and what it remembers."""
        now = stamp(seen)
        self._shown.append(seen)
        camera.state.let_go(seen)  # where nothing moves, no frame is held for them
        earlier = camera.memory.seen if camera.memory and not camera.first_seen else None
        camera.first_seen = camera.first_seen or now
        if earlier and seconds_between(earlier, now) >= settings.GAP_S + settings.SEEN_S:
            self._report_gap(camera, earlier, seen, camera.away)
        self._report_lost(camera, seen)
        if camera.state.summary.is_over(now.time):
            self._close_minute(camera)
        if camera.memory:
            self._note_masks(camera, camera.memory, seen)
            if camera.rules:
                met = camera.rules.tick(now.time)
                self._report_rules(camera, met, (now, now), seen.clock)
            if not camera.missed:  # else a kill would lose the gap that is not journalled yet
                self._remember(camera, camera.memory, now)

    def _remember(self, camera: _Camera, memory: CameraMemory, now: FrameStamp) -> None:
        tracker, memory.doors = camera.state.tracker, camera.state.doors.state()
        memory.present, memory.minutes = [*camera.state.present.values()], [*camera.state.summary.minutes]
        memory.save(now, tracker.state() if tracker else camera.state.saved)

    def _note_masks(self, camera: _Camera, memory: CameraMemory, seen: Frame) -> None:
        """Journal what masks and privacy areas hide: where they change a message, and silently once a day."""
        source = camera.plan.source
        areas = (*source.masks, *source.privacy)
        digest = hashlib.sha256(repr(areas).encode()).hexdigest()
        now = f"{seen.time:%Y-%m-%d} {digest}" if areas else ""
        if now != memory.masks:
            is_new = not areas or not memory.masks.endswith(digest)
            memory.masks = now
            hidden = float(polygon_mask(areas, seen.luma.shape).mean()) if areas else 0.0
            narration = mask_narration(seen, hidden, camera.context)
            self._journal(camera, replace(narration, held="" if is_new else "merged"))

    def _report_pair(self, camera: _Camera, pair: FramePair, narration: Narration | None) -> None:
        name, state = camera.plan.name, camera.state
        if narration is None:
            self.counters[name, DROPPED, FAILED] += 1
            return
        result = narration
        if narration.event in {SceneEvent.VIEW, SceneEvent.OBSTRUCTED}:
            state.tracker = None
        elif not narration.fallback:
            result = state.drop_known(narration, pair)
        result = state.stories.follow(result, returned=pair.returned)
        if not result.sentences:
            reason = REPORTED if narration.sentences else narration.abstained or NOTHING_CHANGED
            self.counters[name, SUPPRESSED, reason] += 1
            return
        done = (PUBLISHED, "") if self._report(camera, result, pair) else (DROPPED, FAILED)
        self.counters[name, *done] += 1

    def _report(
        self,
        camera: _Camera,
        narration: Narration,
        pair: FramePair | None = None,
        kind: tuple[str, str, str] | None = None,
    ) -> bool:
        """Journal a narration, marked where a limit holds it from messages; whether it was journalled."""
        state, time = camera.state, narration.after.time
        if state.summary.is_over(time):
            self._close_minute(camera)
        event = "change" if narration.event is SceneEvent.NONE else narration.event.value
        was_at_limit = state.limits.at_hourly_limit
        is_usual = kind is not None and state.summary.is_usual(kind)
        held = "summary" if is_usual else state.limits.hold(time, event, narration.sentences)
        if state.limits.at_hourly_limit and not was_at_limit:
            text = "%s: hourly limit of messages reached: narrations are recorded, and not sent for now"
            logger.warning(text, narration.camera)
        of, events = "camera" if narration.event is not SceneEvent.NONE else "track", [kind] if kind else []
        if pair and not (of == "camera" or kind or narration.continues):
            of, events = "pair", [(s.type, s.object, "") for s in narration.sentences for _ in range(s.count)]
        number = len(narration.sentences)
        held = state.summary.add(time, narration.id, events, held, of=of, sentences=number)
        return self._journal(camera, replace(narration, held=held), pair)

    def _close_minute(self, camera: _Camera) -> None:
        if (summary := camera.state.summary.close()) and camera.latest:
            narration, pair = camera.latest
            self._journal(camera, summary_narration(narration, *summary), pair)

    def _report_rules(
        self, camera: _Camera, met: Sequence[Met], frames: tuple[FrameStamp, FrameStamp], clock: Clock
    ) -> None:
        """Journal the rules that were met; no limit holds them but their own cooldown."""
        for rule, firing in met:
            records, time = tuple(map(str, firing.records)), moment_of(firing.at)
            what = firing.object, firing.confidence, firing.maybe
            of = RuleMet(camera.plan.name, clock, time, records, *what)
            narration = rule_narration(rule.name, rule.when.strip(" ."), frames, of, camera.context)
            known = camera.rules.evidence if camera.rules else {}
            shown = next((known[each] for each in reversed(records) if each in known), None)
            self._journal(camera, narration, evidence=shown)

    def _journal(
        self,
        camera: _Camera,
        narration: Narration,
        pair: FramePair | None = None,
        evidence: Evidence | None = None,
    ) -> bool:
        """Journal a record; it is among what is given out next. False where a daemon must go on without."""
        if pair:
            camera.latest = narration, pair
            self._shown += (pair.before, pair.after)
        if narration.id in camera.recorded:
            camera.state.suppressed = 0
            return True
        if self._evidence and pair and not narration.held:
            evidence = self._evidence.keep(narration, pair, camera.plan.evidence)
        written = replace(narration, settings_sha256=camera.record_sha256)
        try:
            record = self._journals[narration.camera].append(
                written,
                suppressed=camera.state.suppressed,
                latency_ms=_latency_ms(narration) if self._live else None,
                evidence=evidence,
            )
            told = record or build_record(written, ChainEnd(), evidence=evidence)
        except (JournalError, RecordError) as error:
            if not self._live:
                raise
            # A daemon goes on: the journal has held lines back for as long as it could, and may be well soon.
            logger.error("%s: not recorded, neither written nor held: %s", narration.camera, error)  # noqa: TRY400 - no bug
            return False
        camera.state.suppressed = camera.state.suppressed + 1 if narration.held else 0
        if record is not None:  # else it waits for its journal to open
            self._written.append(record)
        if camera.rules:
            met = camera.rules.take(told)
            limited = narration.held and any(narration.id in firing.records for _, firing in met)
            if self._evidence and pair and limited:  # no limit holds the rule's record
                shown = self._evidence.keep(narration, pair, camera.plan.evidence)
                camera.rules.show(narration.id, shown)
            self._report_rules(camera, met, (narration.before, narration.after), narration.clock)
        return True

    def _give_out(self) -> list[Record]:
        written, self._written = self._written, []
        return written


def _begin_with(camera: _Camera, learnt: CameraMemory) -> None:
    state = camera.state
    state.saved, state.scenery = learnt.tracks, learnt.scenery
    state.doors = Doors.of(camera.plan.describe.doors, learnt.doors)
    state.present = {each.track: each for each in learnt.present}
    state.summary.minutes.extend(learnt.minutes)
    camera.context = replace(camera.context, state_sha256=learnt.sha256)


def event_context(plan: CameraPlan, captioner: Captioner) -> EventContext:
    """How a camera's pairs and events are narrated; ConfigurationError where the plan does not fit."""
    return EventContext(
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
