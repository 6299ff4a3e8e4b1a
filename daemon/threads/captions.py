"""The captioner, and what is reported where it fails or would come too late: never nothing.

A batch that does not fit the GPU's memory is halved, and so are those of the next ten minutes. One pair that
the GPU cannot do is done on the CPU, by a copy of the captioner that was made while the GPU was well (after
some errors nothing can be fetched from it any more), and so are those of the next ten minutes. A pair that
gives an error even there is reported by its cluster facts, and is the only one of its batch that is.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import numpy as np

from daemon.config.plan import CameraPlan
from models.captioner import Captioner
from models.sentences import DescribeOptions
from pipeline.changes import Change, ChangeOptions, SceneEvent, find_changes
from pipeline.narration.batch import detect
from pipeline.narration.fallback import FAILED, LATE, narrate_facts
from pipeline.narration.narration import Narration, narrate
from pipeline.pairs import FramePair
from pipeline.sources import Image, redact
from pipeline.tracking import Detections

REST_S = 600.0
"""After so long the GPU, and whole batches, are tried again; and an error that goes on is logged again."""

_LONGEST = 300  # of an error's text; those of CUDA go on and on

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PairSettings:
    """Settings of narrating pairs; cameras with equal ones share batches.

    Attributes:
        changes, describe: options of the stages.
        settings_sha256: hash (hex) of all settings that decide the text.
    """

    changes: ChangeOptions
    describe: DescribeOptions
    settings_sha256: str

    @classmethod
    def of(cls, plan: CameraPlan, captioner: Captioner) -> PairSettings:
        """The settings of a plan.

        Raises:
            ConfigurationError: the plan does not fit the captioner.
        """
        return cls(plan.change_options(captioner), plan.describe, plan.settings_sha256(captioner))


class Captioning:
    """Narrates batches, whatever happens to the captioner; for one thread.

    Attributes:
        late: pairs that were reported by their facts because they had waited too long, by camera.
        failed: pairs that were reported by their facts because the captioner failed, by camera.
        error: the captioner's last error, without secrets; empty where the last batch went well.
    """

    def __init__(self, captioner: Captioner) -> None:
        self.late: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.error = ""
        self._main = self._captioner = captioner
        self._spare = captioner.cpu_copy() if captioner.device != "cpu" else None
        self._most: int | None = None
        self._rested_at = float("inf")
        self._warned_at = float("-inf")

    def narrate(
        self, pairs: Sequence[tuple[FramePair, bool]], settings: PairSettings
    ) -> list[Narration | None]:
        """Narrate pairs of cameras with equal settings, each with whether it is too late for the captioner.

        Returns:
            One narration per pair, in their order; None where not even the pair's pictures can be read.
        """
        self._look_up()
        in_time = [pair for pair, late in pairs if not late]
        narrations = iter(
            self._in_parts(
                in_time,
                lambda part: self._compare(part, settings),
                lambda pair: self._failed_pair(pair, settings),
            )
        )
        return [self._late(pair, settings) if late else next(narrations) for pair, late in pairs]

    def detect(self, images: Sequence[Image]) -> list[Detections | None]:
        """Objects in pictures RGB uint8 ``(height, width, 3)``; None for one that the detector fails on."""
        self._look_up()
        return self._in_parts(images, lambda part: detect(part, self._captioner), self._failed_picture)

    def _look_up(self) -> None:
        if monotonic() >= self._rested_at:
            self._captioner, self._most, self._rested_at = self._main, None, float("inf")
        self.error = ""

    def _report_failure(self, consequence: str) -> None:
        if monotonic() - self._warned_at >= REST_S:
            self._warned_at = monotonic()
            logger.error("captioner: %s: %s", consequence, self.error)

    def _in_parts(
        self,
        items: Sequence[Item],
        process: Callable[[Sequence[Item]], Sequence[Result]],
        failed: Callable[[Item], Result],
    ) -> list[Result]:
        """Results of all items: in smaller batches, or on the CPU, where `process` fails.

        Args:
            items: pairs or pictures.
            process: asks the captioner; gives one result for each item.
            failed: the result of an item on which the captioner fails alone.
        """
        if not items:
            return []
        most = self._most or len(items)
        if len(items) > most:
            parts = [items[begin : begin + most] for begin in range(0, len(items), most)]
            return [result for part in parts for result in self._in_parts(part, process, failed)]
        try:
            return [*process(items)]
        except Exception as error:  # noqa: BLE001 - whatever the captioner does, the change must be reported
            self.error, memory = _describe_error(error), _out_of_memory(error)
        # Outside of the handler: the error would hold the tensors that must be freed first.
        if memory:
            self._captioner.release_memory()
        if len(items) > 1:
            half = (len(items) + 1) // 2
            if memory:
                self._most, self._rested_at = half, monotonic() + REST_S
                logger.warning("captioner: batches of %d for now: %s", half, self.error)
            return self._in_parts(items[:half], process, failed) + self._in_parts(
                items[half:], process, failed
            )
        if self._spare is not None and self._captioner is not self._spare:
            self._captioner = self._spare
            try:
                results = [*process(items)]
            except Exception as error:  # noqa: BLE001 - as above
                self.error = _describe_error(error)
                self._captioner = self._main  # it is the item's fault
            else:
                self._rested_at = monotonic() + REST_S
                logger.warning("captioner: on the CPU for now: %s", self.error)
                return results
        return [failed(items[0])]

    def _compare(self, pairs: Sequence[FramePair], settings: PairSettings) -> list[Narration]:
        captioner = self._captioner
        device = captioner.device if captioner.device != "cpu" else None
        changes = find_changes(pairs, settings.changes, captioner.salience, device)
        return narrate(changes, captioner, settings.describe, settings.settings_sha256)

    def _failed_pair(self, pair: FramePair, settings: PairSettings) -> Narration | None:
        self.failed[pair.after.camera] += 1
        self._report_failure("pairs are reported by their clusters only")
        return self._facts(pair, settings, FAILED)

    def _failed_picture(self, _: Image) -> None:
        self._report_failure("frames are not looked at")

    def _late(self, pair: FramePair, settings: PairSettings) -> Narration | None:
        self.late[pair.after.camera] += 1
        return self._facts(pair, settings, LATE)

    def _facts(self, pair: FramePair, settings: PairSettings, reason: str) -> Narration | None:
        """A narration without the captioner, clusters ranked by their area."""
        placed = True
        try:
            (change,) = find_changes([pair], settings.changes)
        except Exception as error:  # noqa: BLE001 - see `_in_parts`
            self.error, placed = _describe_error(error), False
            change = Change(pair, (0, 0), (), np.zeros(0, np.float32), SceneEvent.NONE)
        try:
            return narrate_facts(
                change, self._main, reason, settings.describe, settings.settings_sha256, placed=placed
            )
        except Exception as error:  # noqa: BLE001 - a picture that cannot be decoded has no hash and no id
            self.error = _describe_error(error)
            logger.error("%s: a pair cannot be reported at all: %s", pair.after.camera, self.error)  # noqa: TRY400 - no tracebacks with URLs
            return None


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error)  # torch says so


def _describe_error(error: Exception) -> str:
    """An error in one line without secrets, and its kind."""
    return f"{type(error).__name__}: {redact(error)[:_LONGEST]}"
