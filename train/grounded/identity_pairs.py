"""Pairs of frames of one camera, and which of their observations are one object."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.families import OBJECTS
from train.grounded.identities import FALSE_POSITIVE, UNTRACKED, Snapshot
from train.grounded.losses import corner_overlaps, corners

SAME, OTHER, UNKNOWN = 1, 0, -1

STILL = 0.75  # least intersection over union of a parked object with itself in two frames
_PLACE = 0.3  # from which overlap one place is meant
_LONG_S = 600.0  # over which gap what is elsewhere is another one
_STRANGE = 0.35  # cosine of the teacher's vectors below which two are certainly not one
_WAITING_S = 300.0  # for which people may stand or sit in one place
_PERSON = OBJECTS.index("person")


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Two frames of one camera, or several such, padded and stacked."""

    before: Tensor  # float32 ``(S, FEATURES)``, the features of the observations
    after: Tensor  # float32 ``(T, FEATURES)``
    table: Tensor  # int64 ``(S, T)``: `SAME`, `OTHER` or `UNKNOWN`
    similarity: Tensor  # float32 ``(S, T)``, cosine of the teacher's vectors, NaN where it was not asked


def shares(a: Snapshot, b: Snapshot) -> Tensor:
    return corner_overlaps(corners(a.box), corners(b.box))


def relations(a: Snapshot, b: Snapshot, *, flowing: bool) -> Tensor:
    """Which observations of two frames of one camera are one object, int64 ``(N, M)``.

    Tracks of one clip decide: one number is one object, and an object seen in both frames is no other in
    either; two that are seen at one moment are two. Frames of different occasions tell that what is elsewhere
    is another one, where they lie far apart or nothing stays (`flowing`, as on a motorway).
    """
    share = shares(a, b)
    table = torch.full(share.shape, UNKNOWN)
    if a.occasion == b.occasion:
        _by_tracks(table, a, b, share)
    elif flowing:
        table[share < 2 * _PLACE] = OTHER
    elif abs(a.clock_s - b.clock_s) >= _LONG_S:
        table[share < _PLACE] = OTHER
    one, other = (a.track == FALSE_POSITIVE)[:, None], (b.track == FALSE_POSITIVE)[None]
    table[one | other] = OTHER
    unreal = (a.track < UNTRACKED)[:, None] & (b.track < UNTRACKED)[None]
    table[unreal & (share >= _PLACE)] = UNKNOWN  # two false positives at one place do no harm
    return table


def _by_tracks(table: Tensor, a: Snapshot, b: Snapshot, share: Tensor) -> None:
    tracked = (a.track >= 0)[:, None] & (b.track >= 0)[None]
    same = tracked & (a.track[:, None] == b.track[None])
    met = torch.maximum(a.seen[:, None, 0], b.seen[None, :, 0]) <= torch.minimum(
        a.seen[:, None, 1], b.seen[None, :, 1]
    )
    table[tracked & met | same.any(1, keepdim=True) | same.any(0, keepdim=True)] = OTHER
    if a.track_mean is not None and b.track_mean is not None:
        table[tracked & (a.track_mean @ b.track_mean.mT < _STRANGE)] = OTHER
    # Who stands still and is lost for a while gets another number, or two: who is in one place may be one.
    table[tracked & ~same.any(1, keepdim=True) & ~same.any(0, keepdim=True) & (share >= _PLACE)] = UNKNOWN
    # An object may be detected twice, whole and in part: the part is not another one.
    own_a, own_b = (shares(s, s) >= _PLACE for s in (a, b))
    doubled = (same.float() @ own_b.float() > 0) | (own_a.float() @ same.float() > 0)
    table[doubled] = UNKNOWN
    table[same] = SAME


def _with_track_means(own: Sequence[Snapshot]) -> list[Snapshot]:
    """One occasion's snapshots with the mean of each track's vectors."""
    asked: dict[int, list[Tensor]] = {}
    for one in own:
        for track, vector in zip(one.track.tolist(), one.reid, strict=True):
            if track >= 0 and not vector.isnan().any():
                asked.setdefault(track, []).append(vector)
    mean = {track: normalize(torch.stack(vectors).mean(0), dim=0) for track, vectors in asked.items()}
    unknown = torch.full(own[0].reid.shape[1:], math.nan)
    return [
        replace(one, track_mean=torch.stack([mean.get(t, unknown) for t in one.track.tolist()]))
        if len(one.track)
        else one
        for one in own
    ]


class CameraSnapshots:
    """A camera's snapshots, and examples drawn from them."""

    def __init__(self, name: str, snapshots: Sequence[Snapshot], *, flowing: bool) -> None:
        self.name, self.flowing = name, flowing
        self.occasions: dict[str, list[Snapshot]] = {}
        for one in snapshots:
            self.occasions.setdefault(one.occasion, []).append(one)
        self.occasions = {occasion: _with_track_means(own) for occasion, own in self.occasions.items()}
        self._names = sorted(self.occasions)
        self._clips = [n for n in self._names if len({s.seconds for s in self.occasions[n]}) > 1]

    def __len__(self) -> int:
        return sum(len(own) for own in self.occasions.values())

    def draw(self, chance: np.random.Generator) -> Example | None:
        """An example; None where chance met two frames that teach nothing."""
        across = len(self._names) > 1 and (not self._clips or chance.random() < 0.4)  # noqa: PLR2004
        if across:
            first, second = (
                self.occasions[self._names[i]] for i in chance.choice(len(self._names), 2, False)
            )
            a, b = first[chance.integers(len(first))], second[chance.integers(len(second))]
            apart = abs(a.clock_s - b.clock_s)
            if math.isnan(apart) and self.flowing:
                apart = _draw_duration(chance, _LONG_S, 10 * 86400)
            return self._example(a, b, apart, chance)
        if not self._clips:
            return None
        own = self.occasions[self._clips[chance.integers(len(self._clips))]]
        a = own[chance.integers(len(own))]
        others = [s for s in own if s.seconds != a.seconds]
        wanted = _draw_duration(chance, 0.4, max(abs(s.seconds - a.seconds) for s in others))
        b = min(others, key=lambda s: abs(abs(s.seconds - a.seconds) - wanted) + chance.uniform(0, 0.3))
        apart = abs(a.seconds - b.seconds)
        if chance.random() < (0.5 if a.relit != b.relit else 0.1):  # as if hours lay between
            return self._example(a, b, _draw_duration(chance, 30, 86400), chance, pretended=True)
        return self._example(a, b, apart, chance)

    def _example(
        self, a: Snapshot, b: Snapshot, gap_s: float, chance: np.random.Generator, *, pretended: bool = False
    ) -> Example | None:
        table = relations(a, b, flowing=self.flowing)
        if not (table[a.track != FALSE_POSITIVE][:, b.track != FALSE_POSITIVE] != UNKNOWN).any():
            return None
        if pretended:
            moved = shares(a, b) < STILL
            restless = (a.family == _PERSON)[:, None] & torch.tensor(gap_s > _WAITING_S)
            table[(table == SAME) & (moved | restless)] = UNKNOWN
        unknown = chance.random() < 0.3  # noqa: PLR2004 - as of many stills
        example = Example(a.feature, b.feature, table, a.reid @ b.reid.mT)
        if unknown or gap_s > 5:  # noqa: PLR2004 - in a moment no object takes another's place
            example = _replace_objects(example, b.family, chance)
        return _thin(example, shares(a, b), chance)


def _draw_duration(chance: np.random.Generator, low: float, high: float) -> float:
    """A length of time, in proportion as likely everywhere."""
    return float(np.exp(chance.uniform(math.log(low), math.log(max(high, low)))))


def _replace_objects(example: Example, kinds: Tensor, chance: np.random.Generator) -> Example:
    """Some observations after look like another of their frame and family: others in the same places."""
    after, table, similar = example.after.clone(), example.table.clone(), example.similarity.clone()
    for j in range(len(kinds)):
        rivals = (kinds == kinds[j]).nonzero()[:, 0]
        i = int(rivals[chance.integers(len(rivals))])
        if chance.random() < 0.15 and i != j and not bool((table[:, j] == UNKNOWN).all()):  # noqa: PLR2004
            after[j] = example.after[i]
            table[:, j] = torch.where(table[:, j] == SAME, OTHER, UNKNOWN)
            similar[:, j] = torch.nan
    return Example(example.before, after, table, similar)


def _thin(example: Example, share: Tensor, chance: np.random.Generator) -> Example:
    """Without some observations, and often without those that stand still: they change no pixels."""
    still = (example.table == SAME) & (share >= STILL)
    quiet = chance.random() < 0.5  # noqa: PLR2004
    lost = chance.uniform(0, 0.3)
    keep = []
    for n, stands in zip(share.shape, (still.any(1), still.any(0)), strict=True):
        kept = torch.from_numpy(chance.random(n) >= lost)
        keep.append((kept & ~(stands & quiet & torch.from_numpy(chance.random(n) < 0.8))).nonzero()[:, 0])  # noqa: PLR2004
    rows, columns = keep
    table, similar = (each[rows][:, columns] for each in (example.table, example.similarity))
    return Example(example.before[rows], example.after[columns], table, similar)


def stack_examples(examples: Sequence[Example]) -> Example:
    """Examples padded to one size, stacked along a first dimension; of padding nothing is known."""
    rows, columns = (max(e.table.shape[d] for e in examples) for d in (0, 1))

    def stacked(name: str, size: tuple[int, ...], value: float) -> Tensor:
        every = []
        for each in (getattr(example, name) for example in examples):
            full = each.new_full((*size, *each.shape[len(size) :]), value)
            full[tuple(slice(0, n) for n in each.shape)] = each
            every.append(full)
        return torch.stack(every)

    return Example(
        stacked("before", (rows,), 0.05),
        stacked("after", (columns,), 0.05),
        stacked("table", (rows, columns), UNKNOWN),
        stacked("similarity", (rows, columns), math.nan),
    )
