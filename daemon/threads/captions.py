"""The captioner, and what is told where it fails or would come too late: never nothing.

A batch that does not fit the GPU's memory is halved, and so are those of the next ten minutes. One pair that
the GPU cannot do is done on the CPU, by a copy of the captioner that was made while the GPU was well (after
some errors nothing can be fetched from it any more), and so are those of the next ten minutes. A pair that
gives an error even there is told by its cluster facts, and is the only one of its batch that is.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
import torch

from daemon.config.plan import CameraPlan
from daemon.threads.pair_queue import Proposed
from models.captioner import Captioner
from models.sentences import DescribeOptions
from pipeline.changes import Change, ChangeOptions, SceneEvent, find_changes
from pipeline.following import Follower
from pipeline.narration.fallback import FAILED, LATE, narrate_facts
from pipeline.narration.narration import Narration, narrate
from pipeline.pairs import FramePair
from pipeline.sources import redacted

REST_S = 600.0
"""After so long the GPU, and whole batches, are tried again; and an error that goes on is told again."""

_LONGEST = 300  # of an error's text; those of CUDA go on and on

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Manner:
    """How pairs are narrated; cameras of one manner share batches.

    Attributes:
        changes, describe: options of the stages.
        settings_sha256: hash (hex) of all settings that decide the text.
    """

    changes: ChangeOptions
    describe: DescribeOptions
    settings_sha256: str

    @classmethod
    def of(cls, plan: CameraPlan, captioner: Captioner) -> Manner:
        """The manner of a plan.

        Raises:
            ConfigurationError: the plan does not fit the captioner.
        """
        return cls(plan.change_options(captioner), plan.describe, plan.settings_sha256(captioner))


class Captioning:
    """Narrates batches, whatever happens to the captioner; for one thread.

    Attributes:
        late: pairs that were told by their facts because they had waited too long, by camera.
        failed: pairs that were told by their facts because the captioner failed, by camera.
        error: the captioner's last error, without secrets; empty where the last batch went well.
    """

    def __init__(self, captioner: Captioner) -> None:
        self.late: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.error = ""
        self._main = self._captioner = captioner
        self._spare = copy.deepcopy(captioner).cpu() if captioner.device.type != "cpu" else None
        self._followers: Mapping[str, Follower] = {}
        self._most: int | None = None
        self._rested_at = float("inf")
        self._warned_at = float("-inf")

    def narrate(
        self, batch: Sequence[Proposed], manner: Manner, followers: Mapping[str, Follower] | None = None
    ) -> list[Narration | None]:
        """Narrate a batch of cameras of one manner, whose objects are followed by `followers`.

        Returns:
            One narration per pair, in their order; None where not even the pair's pictures can be read.
        """
        if monotonic() >= self._rested_at:
            self._captioner, self._most, self._rested_at = self._main, None, float("inf")
        self.error = ""
        self._followers = followers or {}
        narrations = iter(self._narrated([one.pair for one in batch if not one.late], manner))
        return [self._late(one.pair, manner) if one.late else next(narrations) for one in batch]

    def _narrated(self, pairs: Sequence[FramePair], manner: Manner) -> list[Narration | None]:
        if not pairs:
            return []
        most = self._most or len(pairs)
        if len(pairs) > most:
            parts = [pairs[begin : begin + most] for begin in range(0, len(pairs), most)]
            return [narration for part in parts for narration in self._narrated(part, manner)]
        try:
            return [*self._asked(pairs, manner)]
        except Exception as error:  # noqa: BLE001 - whatever the captioner does, the change must be told
            self.error, memory = _worded(error), _out_of_memory(error)
        # Outside of the handler: the error would hold the tensors that must be freed first.
        if memory and self._captioner.device.type != "cpu":
            torch.cuda.empty_cache()
        if len(pairs) > 1:
            half = (len(pairs) + 1) // 2
            if memory:
                self._most, self._rested_at = half, monotonic() + REST_S
                logger.warning("captioner: batches of %d pairs for now: %s", half, self.error)
            return self._narrated(pairs[:half], manner) + self._narrated(pairs[half:], manner)
        return [self._alone(pairs[0], manner)]

    def _asked(self, pairs: Sequence[FramePair], manner: Manner) -> list[Narration]:
        captioner = self._captioner
        device = str(captioner.device) if captioner.device.type != "cpu" else None
        changes = find_changes(pairs, manner.changes, captioner.salience, device)
        return narrate(changes, captioner, manner.describe, manner.settings_sha256, self._followers)

    def _alone(self, pair: FramePair, manner: Manner) -> Narration | None:
        """A pair that the captioner failed on, alone."""
        if self._spare is not None and self._captioner is not self._spare:
            self._captioner = self._spare
            try:
                (narration,) = self._asked([pair], manner)
            except Exception as error:  # noqa: BLE001 - see `_narrated`
                self.error = _worded(error)
                self._captioner = self._main  # it is the pair's fault
            else:
                self._rested_at = monotonic() + REST_S
                logger.warning("captioner: on the CPU for now: %s", self.error)
                return narration
        self.failed[pair.after.camera] += 1
        if monotonic() - self._warned_at >= REST_S:
            self._warned_at = monotonic()
            logger.error("captioner: pairs are reported by their clusters only: %s", self.error)
        return self._facts(pair, manner, FAILED)

    def _late(self, pair: FramePair, manner: Manner) -> Narration | None:
        self.late[pair.after.camera] += 1
        return self._facts(pair, manner, LATE)

    def _facts(self, pair: FramePair, manner: Manner, reason: str) -> Narration | None:
        """What is told without a captioner, clusters ranked by their area."""
        placed = True
        try:
            (change,) = find_changes([pair], manner.changes)
        except Exception as error:  # noqa: BLE001 - see `_narrated`
            self.error, placed = _worded(error), False
            change = Change(pair, (0, 0), (), np.zeros(0, np.float32), SceneEvent.NONE)
        try:
            return narrate_facts(
                change, self._main, reason, manner.describe, manner.settings_sha256, placed=placed
            )
        except Exception as error:  # noqa: BLE001 - a picture that cannot be decoded has no hash and no id
            self.error = _worded(error)
            logger.error("%s: a pair cannot be reported at all: %s", pair.after.camera, self.error)  # noqa: TRY400 - no tracebacks with URLs
            return None


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "out of memory" in str(error)


def _worded(error: Exception) -> str:
    """An error in one line without secrets, and its kind."""
    return f"{type(error).__name__}: {redacted(error)[:_LONGEST]}"
