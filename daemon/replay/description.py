"""Describe one's own pictures: pairs of stills, without a camera."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from daemon.config.plan import CameraPlan
from models.captioner import Captioner
from pipeline.changes import find_changes
from pipeline.distance import l2_luma
from pipeline.narration.narration import Narration, narrate
from pipeline.pairs import FramePair, pair_l2
from pipeline.record import sentence_members
from pipeline.sources import SourceError, read_still
from pipeline.sources.times import moment_in_name
from pipeline.thresholds import PairThresholds

BATCH = 8
_DIGITS = 4
_LONGEST_S = 10 * 365 * 86400.0  # of a gap: a time must stay one that the calendar has


class PairError(Exception):
    """Two pictures cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class PairPaths:
    id: Annotated[str, Field(coerce_numbers_to_str=True)]
    before: Path
    after: Path
    gap_s: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None = None  # None: by names


_PAIR = TypeAdapter(PairPaths)


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """A narrated pair of pictures; `gap_s` is None where the time between them is not known."""

    id: str
    gap_s: float | None
    pair: FramePair
    narration: Narration

    def sentences(self) -> list[dict[str, Any]]:
        """The sentences as in a record, but with `moment_s`, seconds after the first picture, for `time`."""
        every = []
        for sentence in self.narration.sentences:
            moment_s = None if sentence.moment_s is None else round(sentence.moment_s, _DIGITS)
            members = sentence_members(sentence) | {"moment_s": moment_s}
            every.append({name: v for name, v in members.items() if v is not None or name == "box"})
        return every


def read_pairs(path: Path) -> Iterator[PairPaths | PairError]:
    """The pairs of a JSON Lines file, or why a line holds none; relative paths count from its folder."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                pair = _PAIR.validate_json(line)
                yield replace(pair, before=path.parent / pair.before, after=path.parent / pair.after)
            except ValidationError:
                members = '{"id": .., "before": path, "after": path}, and "gap_s" where it is known'
                yield PairError(f"{path}:{number}: not a JSON object {members}")


def read_gap(before: Path, after: Path) -> float | None:
    """Seconds between two pictures by the stamps in their names; of two equal ones, of a recording, None."""
    first, second = moment_in_name(before), moment_in_name(after)
    return abs((second - first).total_seconds()) if first and second and first != second else None


def read_pair(paths: PairPaths, gap_s: float | None, plan: CameraPlan) -> FramePair:
    """Two pictures as a frame pair, `gap_s` apart in time; PairError where they cannot be compared."""
    name = f"{paths.id}: " if paths.id else ""
    try:
        before, after = (read_still(path, plan.source, "describe") for path in (paths.before, paths.after))
    except SourceError as error:
        raise PairError(f"{name}{error}") from None
    if before.image.shape != after.image.shape:
        (bh, bw, _), (ah, aw, _) = before.image.shape, after.image.shape
        raise PairError(f"{name}the pictures differ in size ({bw}x{bh}, {aw}x{ah}): give two of one camera")
    apart = 1.0 if gap_s is None else min(gap_s, _LONGEST_S)
    after = replace(after, time=before.time + timedelta(seconds=apart), pts=1)
    upper = plan.upper or PairThresholds().upper
    beyond = l2_luma(before.luma, after.luma)[0] > upper
    return FramePair(before, after, pair_l2(before, after), beyond_upper=beyond, gap_known=gap_s is not None)


def describe(
    pairs: Sequence[PairPaths], captioner: Captioner, plan: CameraPlan
) -> Iterator[Description | PairError]:
    settings = plan.settings_sha256(captioner)
    for begin in range(0, len(pairs), BATCH):
        good, results = list[FramePair](), list[PairError | tuple[str, float | None, FramePair]]()
        for paths in pairs[begin : begin + BATCH]:
            gap_s = read_gap(paths.before, paths.after) if paths.gap_s is None else paths.gap_s
            try:
                good.append(read_pair(paths, gap_s, plan))
                results.append((paths.id, gap_s, good[-1]))
            except PairError as error:
                results.append(error)
        changes = find_changes(good, plan.change_options(captioner), captioner.salience)
        narrations = iter(narrate(changes, captioner, plan.describe, settings) if good else [])
        for each in results:
            yield each if isinstance(each, PairError) else Description(*each, next(narrations))
