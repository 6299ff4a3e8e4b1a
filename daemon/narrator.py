"""The narrator: batches of frame pairs become journalled records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

import numpy as np

from daemon.evidence import EvidenceKeeper
from daemon.plan import CameraPlan
from models.captioner import Captioner
from pipeline.changes import ChangeOptions, find_changes
from pipeline.journal import Journal
from pipeline.narration import Narration, narrate
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.record import Evidence, Record
from pipeline.sources import Clock, Frame, Image
from pipeline.stories import Stories
from pipeline.thresholds import PairThresholds


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """A journalled record and the frame pair it tells of."""

    record: Record
    pair: FramePair


class Narrator:
    """Finds changes, words them, leaves out what only goes on with a story, journals them; for one thread.

    Args:
        captioner: writes the sentences.
        plans: the cameras.
        journals: by camera; a narration is journalled before anybody hears of it.
        live: journal how long it took (which differs from run to run, so a replay must not).
        evidence: stores the pictures of what is told, before it is journalled; None keeps none.
    """

    def __init__(
        self,
        captioner: Captioner,
        plans: Iterable[CameraPlan],
        journals: Mapping[str, Journal],
        *,
        live: bool,
        evidence: EvidenceKeeper | None = None,
    ) -> None:
        self._captioner, self._journals, self._live = captioner, journals, live
        self._evidence = evidence
        self._plans: dict[str, CameraPlan] = {}
        self._stories: dict[str, Stories] = {}
        self._suppressed: Counter[str] = Counter()  # by camera, since its last record
        self._settings: dict[str, str] = {}
        self._changes: dict[str, ChangeOptions] = {}
        self._device = str(captioner.device) if captioner.device.type != "cpu" else None
        for plan in plans:
            self.add(plan)

    def add(self, plan: CameraPlan) -> None:
        """Take a camera in, or go on with one under another plan; what it told before no longer counts.

        Raises:
            ConfigurationError: the plan does not fit the captioner; nothing has changed then.
        """
        changes = plan.change_options(self._captioner)
        self._plans[plan.name], self._changes[plan.name] = plan, changes
        self._settings[plan.name] = plan.settings_sha256(self._captioner)
        self._stories[plan.name] = Stories()

    @property
    def dropped(self) -> Counter[str]:
        """Sentences of all cameras that only went on with what was told, by reason (`pipeline.stories`)."""
        return sum((stories.dropped for stories in self._stories.values()), Counter())

    def tell(self, pairs: Sequence[FramePair]) -> list[Told]:
        """Narrate a batch of any cameras.

        Args:
            pairs: each camera's pairs in their order.

        Returns:
            The records that were journalled, each camera's in order; a pair without sentences gives none, and
            one whose sentences all go on with what was told only counts as suppressed in the next record.

        Raises:
            JournalError: the journal cannot be written.
        """
        alike: dict[str, list[FramePair]] = {}
        for pair in pairs:
            alike.setdefault(self._settings[pair.after.camera], []).append(pair)
        return [told for settings, group in alike.items() for told in self._tell_alike(settings, group)]

    def _tell_alike(self, settings: str, pairs: list[FramePair]) -> list[Told]:
        """Pairs of cameras with equal settings: one batch for the captioner."""
        began = monotonic()
        plan = self._plans[pairs[0].after.camera]
        changes = find_changes(pairs, self._changes[plan.name], self._captioner.salience, self._device)
        narrations = narrate(changes, self._captioner, plan.describe, settings)
        took_ms = 1000 * (monotonic() - began)
        told = []
        for whole, pair in zip(narrations, pairs, strict=True):
            narration = self._stories[whole.camera].follow(whole, returned=pair.returned)
            if not narration.sentences:
                self._suppressed[whole.camera] += bool(whole.sentences)
                continue
            record = self._journals[narration.camera].append(
                narration,
                suppressed=self._suppressed.pop(narration.camera, 0),
                latency_ms=_latency_ms(narration, took_ms) if self._live else None,
                evidence=self._keep(narration, pair),
            )
            told.append(Told(record, pair))
        return told

    def _keep(self, narration: Narration, pair: FramePair) -> Evidence | None:
        if self._evidence is None:
            return None
        return self._evidence.keep(narration, pair, self._plans[narration.camera].evidence)


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
    return Frame("warm-up", time, Clock.FILE, int(square), image[..., 0].copy(), _Ready(image))


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    image: Image

    def rgb(self) -> Image:
        return self.image
