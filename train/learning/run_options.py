"""How a training run computes, goes on and tells; what is learnt, and how, is in `TrainOptions`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from train.learning.distributed import ALONE, ProcessGroup
from train.learning.run_state import Point
from train.progress import Progress

OnBatch = Callable[[int, int, int, float], None]
"""Called with epoch, batches done, batches of the epoch, and the loss."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told how far a run is.

    Attributes:
        features: called with what is computed, samples ready and all samples.
        batch: see `OnBatch`.
        epoch: called with each point of the curves.
        note: called with a line that the user should read.
        count: called with what is counted, how much of it is done, and how much there is.
    """

    features: Progress = lambda _split, _ready, _all: None
    batch: OnBatch = lambda _epoch, _done, _all, _loss: None
    epoch: Callable[[Point], None] = lambda _point: None
    note: Callable[[str], None] = lambda _line: None
    count: Progress = lambda _what, _done, _all: None


QUIET = Telling()


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run computes; of all this `bf16` alone changes what comes out.

    Attributes:
        resume: go on from the state, where there is one.
        bf16: compute the loss in bfloat16 where that is safe (matrix products; torch keeps sums, norms and
            softmax in float32); weights, optimizer, validation and decoding stay float32.
        group: the processes that train together; only the first one writes.
        telling: who is told how far it is.
    """

    resume: bool = False
    bf16: bool = False
    group: ProcessGroup = ALONE
    telling: Telling = QUIET


USUAL = RunOptions()
"""In float32, alone, from the beginning, and nobody is told."""
