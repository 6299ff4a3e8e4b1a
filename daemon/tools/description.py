"""Describe one's own pictures: pairs of stills, without a camera."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from daemon.config.plan import CameraPlan
from daemon.tools.gaps import Gap, gap_between
from models.captioner import Captioner
from pipeline.changes import find_changes
from pipeline.distance import l2_luma, l2_rgb
from pipeline.narration.narration import Narration, narrate
from pipeline.pairs import FramePair
from pipeline.record import sentence_members
from pipeline.sources import SourceError, read_still
from pipeline.thresholds import PairThresholds

BATCH = 8
_DIGITS = 4
_LONGEST_S = 10 * 365 * 86400.0  # of a gap: a time must stay one that the calendar has


class PairError(Exception):
    """Two pictures cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class PairPaths:
    """Two pictures to be compared.

    Attributes:
        id: the caller's.
        before, after: the pictures.
        gap: the time between them, where the caller knows it; None asks the pictures.
    """

    id: str
    before: Path
    after: Path
    gap: Gap | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """A narrated pair of pictures."""

    id: str
    gap: Gap
    pair: FramePair
    narration: Narration

    def sentences(self) -> list[dict[str, Any]]:
        """The sentences as JSON members, as in the record, which leaves out what a captioner does not say.

        In place of `time` there is moment_s, seconds after the before picture.
        """
        found = []
        for sentence in self.narration.sentences:
            moment_s = None if sentence.moment_s is None else round(sentence.moment_s, _DIGITS)
            members = sentence_members(sentence) | {"moment_s": moment_s}
            found.append({name: v for name, v in members.items() if v is not None or name == "box"})
        return found


def read_pairs(path: Path) -> Iterator[PairPaths | PairError]:
    """The pairs of a JSON Lines file of ``{"id", "before", "after"}``; relative paths count from its folder.

    A member ``gap_s`` has the seconds between the two; without it, or where it is null, they are read off the
    pictures.

    Yields:
        A pair, or why its line holds none.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                pair = json.loads(line)
                paths = path.parent / pair["before"], path.parent / pair["after"]
                yield PairPaths(str(pair["id"]), *paths, _given_gap(pair.get("gap_s")))
            except (ValueError, KeyError, TypeError):
                yield PairError(
                    f'{path}:{number}: not a JSON object {{"id": .., "before": path, "after": path}}, '
                    "with the seconds between them as gap_s where they are known"
                )


def _given_gap(gap_s: object) -> Gap | None:
    if gap_s is None:
        return None
    if isinstance(gap_s, bool) or not isinstance(gap_s, int | float) or not 0 <= gap_s < math.inf:
        raise ValueError(f"gap_s: {gap_s!r}")
    return Gap(float(gap_s), "--pairs")


def read_pair(paths: PairPaths, gap: Gap, plan: CameraPlan) -> FramePair:
    """Two pictures as a frame pair, so far apart in time as the gap says.

    Raises:
        PairError: one of them cannot be read, or they differ in size.
    """
    name = f"{paths.id}: " if paths.id else ""
    try:
        before, after = (read_still(path, plan.source, "describe") for path in (paths.before, paths.after))
    except SourceError as error:
        raise PairError(f"{name}{error}") from None
    if before.image.shape != after.image.shape:
        (bh, bw, _), (ah, aw, _) = before.image.shape, after.image.shape
        raise PairError(f"{name}the pictures differ in size ({bw}x{bh}, {aw}x{ah}): give two of one camera")
    apart = 1.0 if gap.seconds is None else min(gap.seconds, _LONGEST_S)
    after = replace(after, time=before.time + timedelta(seconds=apart), pts=1)
    upper = plan.upper or PairThresholds().upper
    beyond = l2_luma(before.luma, after.luma)[0] > upper
    l2 = l2_rgb(before.image, after.image)[0]
    return FramePair(before, after, l2, beyond_upper=beyond, gap_known=gap.seconds is not None)


def describe(
    pairs: Sequence[PairPaths], captioner: Captioner, plan: CameraPlan
) -> Iterator[Description | PairError]:
    """Say what changed in each pair.

    Yields:
        In the order of `pairs`, a description, or why there is none.
    """
    for begin in range(0, len(pairs), BATCH):
        read: list[tuple[PairPaths, Gap, FramePair | PairError]] = []
        for paths in pairs[begin : begin + BATCH]:
            gap = paths.gap or gap_between(paths.before, paths.after)
            try:
                read.append((paths, gap, read_pair(paths, gap, plan)))
            except PairError as error:
                read.append((paths, gap, error))
        good = [pair for _, _, pair in read if isinstance(pair, FramePair)]
        changes = find_changes(good, plan.change_options(captioner), captioner.salience)
        settings = plan.settings_sha256(captioner)
        narrations = iter(narrate(changes, captioner, plan.describe, settings) if good else [])
        for paths, gap, pair in read:
            yield pair if isinstance(pair, PairError) else Description(paths.id, gap, pair, next(narrations))
