"""The captioner: tried before threads start, and what is reported where it fails: never nothing.

A batch that fails, as where it does not fit the GPU's memory, is halved. One frame or pair that the GPU
cannot do is done on the CPU, by a copy of the captioner that was made while the GPU was well (after some
errors nothing can be fetched from it). A pair that fails even there is reported by its clusters.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from time import monotonic
from typing import TypeVar

import cv2
import numpy as np

from models.captioner import Captioner
from models.detections import Detections
from pipeline.changes import Change, ChangeOptions, SceneEvent, find_changes
from pipeline.gate import MotionFrame
from pipeline.narration.batch import RegionDetector, detect
from pipeline.narration.events import EventContext
from pipeline.narration.narration import Narration, narrate, narrate_facts
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.sources import Clock, Frame, redact
from pipeline.sources.frame import LazyPicture
from pipeline.thresholds import PairThresholds

BATCH = 8  # frames and pairs of a batch at most

REPEAT_S = 600.0  # an error that goes on is logged again after so long

_TRIAL_S = 90.0  # half of what the unit gives a start
_LONGEST = 300  # of an error's text; those of CUDA go on and on

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Captioning:
    """Narrates pairs and detects in frames, whatever happens to the captioner; for one thread."""

    def __init__(self, captioner: Captioner) -> None:
        self.fallbacks = Counter[str]()  # pairs reported by their cluster facts, by camera
        self.error = ""  # the captioner's last one, without secrets
        self._main = captioner
        self._spare = captioner.cpu_copy() if captioner.device != "cpu" else None
        self._warned_at = float("-inf")

    @property
    def at_once(self) -> int:
        """A processor sees them one by one, and all would wait for the last."""
        alone = self._main.device == "cpu" and getattr(self._main, "remote", None) is None
        return 1 if alone else BATCH

    def narrate(self, pair: FramePair, context: EventContext) -> Narration | None:
        """Narrate a pair; None where not even its pictures can be read."""
        self.error = ""
        (narration,) = self._in_parts([pair], partial(_compare, context))
        return narration or self._narrate_facts(pair, context)

    def detect(self, frames: Sequence[tuple[MotionFrame, RegionDetector]]) -> list[Detections | None]:
        """Objects in frames of cameras; None where the detector fails, or the picture cannot be had.

        Of pictures seen one by one only what has changed is; those of a batch have one size.
        """
        self.error, in_batches = "", self.at_once > 1

        def see(captioner: Captioner, part: Sequence[tuple[MotionFrame, RegionDetector]]) -> list[Detections]:
            moving, cameras = zip(*part, strict=True)
            return detect([each.small for each in moving], captioner, () if in_batches else cameras)

        return self._in_parts(frames, see)

    def _in_parts(
        self, items: Sequence[Item], process: Callable[[Captioner, Sequence[Item]], Sequence[Result]]
    ) -> list[Result | None]:
        """A result of each item: in smaller batches, or on the CPU, where `process` fails; else None."""
        if not items:
            return []
        try:
            return [*process(self._main, items)]
        except Exception as error:  # noqa: BLE001 - whatever the captioner does, the change must be reported
            self.error = _describe_error(error)
        # Outside of the handler: the error would hold the tensors that must be freed first.
        with suppress(RuntimeError):  # torch's, where the GPU is lost
            self._main.release_memory()
        if len(items) > 1:
            half = (len(items) + 1) // 2
            parts = items[:half], items[half:]
            return [result for part in parts for result in self._in_parts(part, process)]
        results: list[Result | None] = [None]
        level, instead = logging.ERROR, "frames are left out, pairs reported by their clusters only"
        if self._spare:
            try:
                results = [*process(self._spare, items)]
                level, instead = logging.WARNING, "on the CPU for now"
            except Exception as error:  # noqa: BLE001 - as above; it is the item's fault
                self.error = _describe_error(error)
        if monotonic() - self._warned_at >= REPEAT_S:
            self._warned_at = monotonic()
            logger.log(level, "captioner: %s: %s", instead, self.error)
        return results

    def _narrate_facts(self, pair: FramePair, context: EventContext) -> Narration | None:
        """A narration without the captioner, clusters ranked by their area."""
        self.fallbacks[pair.after.camera] += 1
        placed = True
        try:
            (change,) = find_changes([pair], context.changes)
        except Exception as error:  # noqa: BLE001 - see `_in_parts`
            self.error, placed = _describe_error(error), False
            change = Change(pair, (0, 0), (), np.zeros(0, np.float32), SceneEvent.NONE)
        try:
            return narrate_facts(change, self._main, context.describe, context.settings_sha256, placed=placed)
        except Exception as error:  # noqa: BLE001 - a picture that cannot be decoded has no hash and no id
            self.error = _describe_error(error)
            logger.error("%s: a pair cannot be reported at all: %s", pair.after.camera, self.error)  # noqa: TRY400 - no tracebacks with URLs
            return None


def _compare(context: EventContext, captioner: Captioner, pairs: Sequence[FramePair]) -> list[Narration]:
    device = captioner.device if captioner.device != "cpu" else None
    changes = find_changes(pairs, context.changes, captioner.salience, device)
    return narrate(changes, captioner, context.describe, context.settings_sha256)


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {redact(error)[:_LONGEST]}"


def warm_up(captioner: Captioner) -> None:
    """Compile every kernel and touch every weight: half a minute that the watchdog would take for a hang."""
    before, after = (_plain_frame(square) for square in (False, True))
    pairs = list(candidate_pairs([before, after], PairThresholds()))
    options = ChangeOptions.of({**captioner.record.get("changes", {}), "light_correlation": None})
    narrate(find_changes(pairs, options, captioner.salience), captioner)


def try_out(captioner: Captioner) -> None:
    """Warm up in a process of its own, so that this one is 40 MB smaller until something moves.

    Threads would be missing there: OpenCV's are ended, and with torch this process warms up itself. So it
    does where the trial fails, to raise the error, or hangs. Call it before threads start.
    """
    cv2.setNumThreads(1)
    if "torch" not in sys.modules:
        trial = get_context("fork").Process(target=_try, args=(captioner.cpu_copy(),), daemon=True)
        trial.start()
        trial.join(_TRIAL_S)
        if trial.exitcode == 0:
            return
        trial.kill()
    warm_up(captioner)


def _try(captioner: Captioner) -> None:
    with suppress(Exception):  # the parent raises it
        warm_up(captioner)
        return
    sys.exit(1)


def _plain_frame(square: bool) -> Frame:
    image = np.full((240, 320, 3), 90, np.uint8)
    if square:
        image[80:160, 120:200] = 220
    time = datetime(1970, 1, 1, 0, 0, 10 * square, tzinfo=UTC)
    return Frame("warm-up", time, Clock.FILE, int(square), image[..., 0].copy(), LazyPicture(lambda: image))
