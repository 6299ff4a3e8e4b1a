"""The narrator: batches of frame pairs become journalled records."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from time import monotonic

import numpy as np

from daemon.config.plan import CameraPlan
from daemon.threads.accounts import FAILED, NOTHING_CHANGED, TOLD_ALREADY, Accounts
from daemon.threads.captions import Captioning, Manner
from daemon.threads.evidence import EvidenceKeeper
from daemon.threads.pair_queue import Proposed
from models.captioner import Captioner
from pipeline.changes import ChangeOptions, find_changes
from pipeline.following import Follower
from pipeline.journal import Journal, JournalError, latest_first
from pipeline.narration.narration import Narration, is_followed, narrate
from pipeline.pairs import FramePair, PairOptions, candidate_pairs, pair_l2
from pipeline.policy.deduplication import Stories
from pipeline.policy.hourly_cap import HOUR
from pipeline.policy.limits import NO_LIMITS, Fate, Limits, joined
from pipeline.record import Evidence, Record
from pipeline.sources import Clock, Frame
from pipeline.sources.picture import LazyPicture
from pipeline.thresholds import PairThresholds

logger = logging.getLogger(__name__)

_RECALLED = 1000  # records of an earlier process that are looked at
_SLACK_S = 1.0  # a pair is on its way for longer than what it waits for


@dataclass(frozen=True, slots=True, eq=False)
class JournalledPair:
    """A journalled record and the frame pair it tells of."""

    record: Record
    pair: FramePair


class Narrator:
    """Finds changes, words them, leaves out what was told or is too much, journals the rest; for one thread.

    Args:
        captioner: writes the sentences.
        plans: the cameras.
        journals: by camera; a narration is journalled before anybody hears of it.
        live: journal how long it took (which differs from run to run, so a replay must not).
        evidence: stores the pictures of what is told, before it is journalled; None keeps none.
        accounts: those of the queue that the pairs come from, where their fates are counted.

    Attributes:
        plans: by camera; any thread may look.
    """

    def __init__(
        self,
        captioner: Captioner,
        plans: Iterable[CameraPlan],
        journals: Mapping[str, Journal],
        *,
        live: bool,
        evidence: EvidenceKeeper | None = None,
        accounts: Accounts | None = None,
    ) -> None:
        self.captioning = Captioning(captioner)
        self.accounts = accounts or Accounts()
        self._captioner, self._journals, self._live, self._evidence = captioner, journals, live, evidence
        self.plans: dict[str, CameraPlan] = {}
        self._manners: dict[str, Manner] = {}
        self._settings: dict[str, str] = {}
        self._stories: dict[str, Stories] = {}
        self._followers: dict[str, Follower] = {}
        self._limits: dict[str, Limits] = {}
        self._suppressed: Counter[str] = Counter()  # by camera, since its last record
        self._groups: dict[str, _OpenRecord] = {}
        self._latest: dict[str, tuple[Narration, FramePair]] = {}  # by camera, looked at last
        self._heard_again: dict[str, float] = {}  # monotonic seconds, by camera at its hourly cap
        self._recorded: dict[str, set[str]] = {}
        self._written: list[JournalledPair] = []
        for plan in plans:
            self.add(plan)

    def add(self, plan: CameraPlan) -> None:
        """Take a camera in, or go on with one under another plan; its stories begin anew, its limits go on.

        Raises:
            ConfigurationError: the plan does not fit the captioner; nothing has changed then.
            JournalError: the journal cannot be written.
        """
        manner = Manner.of(plan, self._captioner)
        self._end(plan.name)
        self.plans[plan.name], self._manners[plan.name] = plan, manner
        self._settings[plan.name] = plan.settings_sha256(self._captioner, limits=True)
        self._stories[plan.name], self._followers[plan.name] = Stories(), Follower()
        limits = Limits(plan.limits, plan.describe.zones)
        if earlier := self._limits.get(plan.name):
            limits.follow(earlier)
        elif self._live and plan.limits != NO_LIMITS:
            self._recall(plan, limits)
            if until := limits.silent_until:
                wait_s = (until - datetime.now(UTC)).total_seconds()
                self._heard_again[plan.name] = monotonic() + wait_s
        self._limits[plan.name] = limits
        if self._live and not plan.url.startswith(("rtsp://", "rtsps://")):
            # Footage that is read again at a restart has the same ids: no record is written twice.
            self._recorded[plan.name] = {
                record.id for record in latest_first(self._journals[plan.name].folder, plan.name)
            }

    def remove(self, camera: str) -> None:
        """Let a camera go whose pairs were all told; what was held open or back for it is journalled."""
        self._end(camera)
        for known in (self._latest, self._stories, self._followers, self._limits):
            known.pop(camera, None)
        del self._settings[camera], self._manners[camera], self.plans[camera]

    def knows(self, camera: str) -> bool:
        """Whether anything may still be journalled of the camera; any thread may ask."""
        return camera in self.plans

    def _recall(self, plan: CameraPlan, limits: Limits) -> None:
        """Remember what an earlier process told, as far back as a limit reaches."""
        span = timedelta(seconds=plan.limits.cooldown_s or 0.0)
        span = max(span, HOUR) if plan.limits.max_per_hour else span
        records = list[Record]()
        for record in islice(latest_first(self._journals[plan.name].folder, plan.name), _RECALLED):
            if records and records[0].after.moment - record.after.moment > span:
                break
            records.append(record)
        for record in reversed(records):
            if record.clock != "file":  # footage that is read again is of the same time
                limits.remember(
                    record.after.moment,
                    record.event,
                    record.sentences,
                    fallback=bool(record.fallback),
                    until=datetime.fromisoformat(record.until) if record.until else None,
                )

    @property
    def capped(self) -> frozenset[str]:
        """The cameras that are at their hourly cap now."""
        return frozenset(name for name, limits in self._limits.copy().items() if limits.silent_until)

    def untold(self, camera: str) -> Counter[str]:
        """Sentences of a camera that were not told although they were found, by reason.

        Those that only went on with what was told (`pipeline.policy.deduplication`), and those beyond a limit
        (`pipeline.policy.limits`).
        """
        return self._stories[camera].dropped + self._limits[camera].dropped

    def tell(self, batch: Sequence[Proposed]) -> list[JournalledPair]:
        """Narrate a batch of any cameras.

        Args:
            batch: each camera's pairs in their order.

        Returns:
            The records that were journalled, each camera's in order; a pair without sentences gives none, and
            one whose sentences all go on with what was told, or are beyond a limit, only counts as suppressed
            in the next record. With a merge window a record comes later: see `settle`.

        Raises:
            JournalError: the journal cannot be written; of a daemon the pairs are dropped then.
        """
        alike: dict[Manner, list[Proposed]] = {}
        for one in batch:
            alike.setdefault(self._manners[one.pair.after.camera], []).append(one)
        looked_at: deque[tuple[Narration | None, FramePair, float]] = deque()
        for manner, group in alike.items():
            began = monotonic()
            narrations = self.captioning.narrate(group, manner, self._followers)
            took_ms = 1000 * (monotonic() - began)
            looked_at += [(n, one.pair, took_ms) for n, one in zip(narrations, group, strict=True)]
        try:
            while looked_at:
                self._make_room(looked_at[0][1])
                self._follow(*looked_at.popleft())
        finally:  # what is left of a replay whose journal cannot be written
            for _, pair, _ in looked_at:
                self.accounts.drop(pair.after.camera, FAILED)
        return self._given_out()

    def settle(self, waiting: Collection[str] = ()) -> list[JournalledPair]:
        """Journal what was held open for a merge and is due; to be called at every turn.

        Args:
            waiting: cameras whose next pairs are known to be on their way: these are left open.
        """
        now = monotonic()
        for camera, group in list(self._groups.items()):
            if now >= group.due and camera not in waiting:
                self._close(camera)
        for camera, due in list(self._heard_again.items()):
            if now >= due and camera not in waiting:
                self._end(camera)
        return self._given_out()

    def finish(self, camera: str | None = None) -> list[JournalledPair]:
        """Journal what was held open or back, of one camera or of all: no more pairs will come."""
        for name in list(self._limits) if camera is None else [camera]:
            self._end(name)
        return self._given_out()

    def _make_room(self, pair: FramePair) -> None:
        """Journal the record held open where a pair cannot belong to it."""
        group = self._groups.get(pair.after.camera)
        if group and not (group.fits(pair) and self._limits[pair.after.camera].open_at(pair.after.time)):
            self._close(pair.after.camera)
        self._limits[pair.after.camera].advance(pair.after.time)
        self._tell_of_cap(pair.after.camera)

    def _follow(self, whole: Narration | None, pair: FramePair, took_ms: float) -> None:
        """Decide what becomes of a narration."""
        camera = pair.after.camera
        if whole is None:
            self.accounts.drop(camera, FAILED)
            return
        self._latest[camera] = whole, pair
        tracked = not whole.fallback and is_followed(pair, self._captioner)
        narration = self._stories[camera].follow(whole, returned=pair.returned, tracked=tracked)
        if not narration.sentences:
            self._suppressed[camera] += bool(whole.sentences)
            reason = TOLD_ALREADY if whole.sentences else whole.abstained or NOTHING_CHANGED
            self.accounts.suppress(camera, reason)
            return
        limits = self._limits[camera]
        narration, verdict = limits.admit(narration)
        if verdict is Fate.MERGED:
            self._groups[camera].add(narration, pair)
        elif verdict is Fate.TOLD:
            options = self.plans[camera]
            wait_s = (options.limits.merge_s or 0.0) + _on_its_way_s(options.pairs)
            earlier = self._groups.pop(camera, None)
            self._groups[camera] = _OpenRecord([narration], pair.before, pair, took_ms, monotonic() + wait_s)
            if earlier:
                self._write(earlier)
            if not limits.open_at(narration.after.time):
                self._write(self._groups.pop(camera))
        else:
            self.accounts.suppress(camera, verdict.value)
            self._tell_of_cap(camera)
            self._suppressed[camera] += 1
            if until := limits.silent_until:
                wait_s = (until - pair.after.time).total_seconds() + _on_its_way_s(self.plans[camera].pairs)
                self._heard_again[camera] = monotonic() + wait_s

    def _tell_of_cap(self, camera: str) -> None:
        """Journal that a camera has reached its hourly cap, or is heard again."""
        for notice in self._limits[camera].notices():
            self._close(camera)
            latest, pair = self._latest[camera]
            if notice.until:
                logger.warning("camera %s: %s (narrate.max_per_hour)", camera, notice.text)
            else:
                logger.info("camera %s: heard again: %s", camera, notice.text)
            if not self._is_recorded(narration := notice.narration(latest)):
                self._journal(narration, pair)

    def _end(self, camera: str) -> None:
        """Journal what is held open of a camera, and what its hourly cap held back."""
        self._close(camera)
        self._heard_again.pop(camera, None)
        if limits := self._limits.get(camera):
            limits.end_silences()
            self._tell_of_cap(camera)

    def _close(self, camera: str) -> None:
        """Take nothing more into the record held open, and journal it."""
        if group := self._groups.pop(camera, None):
            self._limits[camera].close()
            self._write(group)

    def _write(self, group: _OpenRecord) -> None:
        """Journal what pairs told, and account for them."""
        narration, pair = group.whole()
        camera, parts, written = narration.camera, len(group.parts), False
        if self._is_recorded(narration):
            self._suppressed.pop(camera, None)
            for _ in group.parts:
                self.accounts.suppress(camera, TOLD_ALREADY)
            return
        try:
            written = self._journal(
                narration, pair, _latency_ms(narration, group.took_ms) if self._live else None
            )
        finally:
            if written:
                self.accounts.publish(camera, parts)
            else:
                self.accounts.drop(camera, FAILED, parts)
                self._suppressed[camera] += parts

    def _is_recorded(self, narration: Narration) -> bool:
        """Whether footage that is read again was narrated before a restart."""
        return narration.id in self._recorded.get(narration.camera, ())

    def _journal(
        self, narration: Narration, pair: FramePair, latency_ms: dict[str, float] | None = None
    ) -> bool:
        """Journal a record; it is among what is given out next. False where a daemon must go on without.

        Raises:
            JournalError: the journal of a replay cannot be written.
        """
        camera = narration.camera
        try:
            record = self._journals[camera].append(
                replace(narration, settings_sha256=self._settings[camera]),
                suppressed=self._suppressed[camera],
                latency_ms=latency_ms,
                evidence=self._keep(narration, pair),
            )
        except JournalError as error:
            if not self._live:
                raise
            # A daemon goes on: the journal has held lines back for as long as it could, and may be well soon.
            logger.error("%s: not told, neither written nor held: %s", camera, error)  # noqa: TRY400 - no bug
            return False
        self._suppressed.pop(camera, None)
        if record is not None:  # else it is held until the journal can be opened
            self._written.append(JournalledPair(record, pair))
        return True

    def _given_out(self) -> list[JournalledPair]:
        written, self._written = self._written, []
        return written

    def _keep(self, narration: Narration, pair: FramePair) -> Evidence | None:
        if self._evidence is None:
            return None
        return self._evidence.keep(narration, pair, self.plans[narration.camera].evidence)


@dataclass(slots=True, eq=False)
class _OpenRecord:
    """Narrations of a camera that share a record: one, or with a merge window several.

    Attributes:
        parts: in their order.
        before: the earliest frame.
        last: the pair of the last part.
        took_ms: how long the batch of the first part took.
        due: monotonic seconds from which nothing more can come that would belong to them.
    """

    parts: list[Narration]
    before: Frame
    last: FramePair
    took_ms: float
    due: float

    def fits(self, pair: FramePair) -> bool:
        """Whether the pictures of a pair are of one size with those before it."""
        return self.before.image.shape == pair.after.image.shape

    def add(self, narration: Narration, pair: FramePair) -> None:
        """Take one more."""
        self.parts.append(narration)
        self.before, self.last = min(self.before, pair.before, key=lambda frame: frame.time), pair

    def whole(self) -> tuple[Narration, FramePair]:
        """What is told, and the pair that shows it."""
        if len(self.parts) == 1:
            return self.parts[0], self.last
        after, masks = self.last.after, self.last.masks
        l2 = pair_l2(self.before, after, masks)
        return joined(self.parts, l2), FramePair(self.before, after, l2, masks=masks)


def _on_its_way_s(options: PairOptions) -> float:
    """Seconds from a change to its pair, at the longest: it settles, and is watched after that."""
    return options.max_wait_s + options.watch_s + _SLACK_S


def _latency_ms(narration: Narration, batch_ms: float) -> dict[str, float]:
    """How long the batch took, and how long after its capture a live frame was told."""
    latency_ms = {"batch": batch_ms}
    if narration.clock != "file":
        since = datetime.now(UTC) - narration.after.time
        latency_ms["capture_to_narration"] = max(0.0, 1000 * since.total_seconds())
    return latency_ms


def warm_up(captioner: Captioner) -> None:
    """Compile every kernel and touch every weight, so that the first real pair is no slower than the others.

    Numba takes up to half a minute to compile on a fresh machine: the watchdog would take it for a hang.
    """
    before, after = (_plain_frame(square) for square in (False, True))
    pairs = list(candidate_pairs([before, after], PairThresholds()))
    options = ChangeOptions.of({**captioner.record.get("changes", {}), "light_correlation": None})
    narrate(find_changes(pairs, options, captioner.salience), captioner)


def _plain_frame(square: bool) -> Frame:
    image = np.full((240, 320, 3), 90, np.uint8)
    if square:
        image[80:160, 120:200] = 220
    time = datetime(1970, 1, 1, 0, 0, 10 * square, tzinfo=UTC)
    return Frame("warm-up", time, Clock.FILE, int(square), image[..., 0].copy(), LazyPicture(lambda: image))
