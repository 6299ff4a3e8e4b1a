"""Thresholds that are `auto`: found in the footage itself, and kept for live cameras."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from daemon.config.plan import CameraPlan
from pipeline.disk import replace_file
from pipeline.gate import PAIR_INTERVAL_S, Slots
from pipeline.sources import Frame, Image
from pipeline.sources.picture import LazyPicture
from pipeline.thresholds import PairThresholds

FILE_FOOTAGE_S = 120.0
"""Footage of a file that calibrates it: the same at every run, so that ids are."""

CALIBRATION_S = 60.0
"""Footage that calibrates a camera while it is watched already."""

logger = logging.getLogger(__name__)


def choose_thresholds(plan: CameraPlan, calibrated: PairThresholds | None = None) -> PairThresholds:
    """Calibrated thresholds, or the defaults, but for those that are set by hand."""
    found = calibrated or PairThresholds()
    return PairThresholds(
        found.lower if plan.lower is None else plan.lower, found.upper if plan.upper is None else plan.upper
    )


def opening(frames: Iterable[Frame], seconds: float) -> Iterator[Frame]:
    """The frames of the first `seconds` of footage; it takes no frame beyond them but one."""
    first: Frame | None = None
    for frame in frames:
        first = first or frame
        yield frame
        if (frame.time - first.time).total_seconds() >= seconds:
            return


def remember_planes(frames: Iterable[Frame], planes: list[Frame]) -> Iterator[Frame]:
    """The frames as they come; two a second are appended to `planes`, without their pictures."""
    slots = Slots(PAIR_INTERVAL_S)
    for frame in frames:
        if slots.takes(frame):
            planes.append(replace(frame, picture=LazyPicture(_no_picture)))
        yield frame


def _no_picture() -> Image:
    raise AssertionError("only the luma plane of this frame was kept")


class CalibrationStore:
    """Calibrations of live cameras, one file each: a restart need not wait for a minute of footage."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, plan: CameraPlan) -> PairThresholds | None:
        """The stored thresholds if it was made of this source with this sampling, else None."""
        try:
            stored = json.loads(self._path(plan).read_text(encoding="utf-8"))
            if {key: stored[key] for key in _stamp(plan)} != _stamp(plan):
                return None
            return PairThresholds(**stored["calibration"]["thresholds"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s: the stored calibration is not used (%s)", plan.name, error)
            return None

    def save(self, plan: CameraPlan, thresholds: PairThresholds) -> None:
        """Store calibrated thresholds: the old file stays until the new one is complete.

        Raises:
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        values = {**_stamp(plan), "camera": plan.name, "calibration": {"thresholds": asdict(thresholds)}}
        replace_file(self._path(plan), json.dumps(values, indent=1).encode(), durable=True)

    def _path(self, plan: CameraPlan) -> Path:
        return self.folder / f"{plan.name}.json"


def _stamp(plan: CameraPlan) -> dict[str, object]:
    # The address goes in as a hash without its credentials: a new password needs no new calibration.
    address = plan.url.rpartition("@")[2]
    return {
        "schema": "narrated-calibration/1",
        "source_sha256": hashlib.sha256(address.encode()).hexdigest(),
        "sample_hz": plan.source.sample_hz,
        "analysis_width": plan.source.analysis_width,
    }
