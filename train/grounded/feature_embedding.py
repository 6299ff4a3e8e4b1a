"""The embedding of the detector's features, learnt from pairs of frames of one camera.

Of each pair it is known which observations are one object and which are two; of others nothing. An
interrupted training goes on where it was.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from models.families import OBJECTS
from models.grounded.observations import FEATURES, FeatureEmbedding
from train.checkpoints import TrainError
from train.grounded.detector import corner_overlaps, corners
from train.grounded.identities import FALSE_POSITIVE, UNTRACKED, Snapshot
from train.grounded.stages import StageOptions, Stateful, load_state, save_state

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


FLOWING = ("tfl_625", "sg_lta_2701", "sg_lta_4713", "sg_lta_4714")
"""Cameras on roads where nothing parks: after ten minutes everything is another one."""

_SAVE_EVERY = 500
_RATE = 3e-3  # at the start; it schedule to 0 along a cosine
_FEW = 16  # pairs of one object in a batch, of which none weighs more than if there were so many
_PATIENCE = 200  # draws for each example
_EMBEDDED = 48


class EmbeddingNetwork(nn.Module):
    """Unit vectors that are alike for one object: a member of `FeatureEmbedding`."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)  # lest it learns the training cameras' objects by heart
        self.embed = nn.Linear(FEATURES, _EMBEDDED)

    def forward(self, feature: Tensor) -> Tensor:
        """Unit vectors float32 ``(..., 48)`` of features ``(..., FEATURES)``."""
        return normalize(self.embed(self.drop(feature)), dim=-1)


def embedding_of(networks: Sequence[EmbeddingNetwork]) -> FeatureEmbedding:
    parts = ([getattr(each.embed, name) for each in networks] for name in ("weight", "bias"))
    weight, bias = (torch.stack(part).detach().double().numpy() for part in parts)
    return FeatureEmbedding(weight, bias)


class _TrainingLoss(nn.Module):
    """The embedding with what it needs while learning only."""

    def __init__(self, embedding: EmbeddingNetwork) -> None:
        super().__init__()
        self.embedding = embedding
        self.scale = nn.Parameter(torch.tensor([8.0, -4.0]))  # from cosines to log odds
        self.teacher = nn.Parameter(torch.tensor([1.0, 0.0]))  # from cosines to the teacher's

    def loss(self, batch: Example) -> Tensor:
        decided = batch.table != UNKNOWN
        same = (batch.table[decided] == SAME).float()
        cosine = self.embedding(batch.before) @ self.embedding(batch.after).mT
        weight = torch.where(same > 0, 0.5 / max(_FEW, int(same.sum())), 0.5 / max(1, len(same)))
        odds = cosine[decided] * self.scale[0] + self.scale[1]
        contrastive = (binary_cross_entropy_with_logits(odds, same, reduction="none") * weight).sum()
        known = ~batch.similarity.isnan()
        apart = cosine[known] * self.teacher[0] + self.teacher[1] - batch.similarity[known]
        distilled = apart.square().mean() if len(apart) else cosine.sum() * 0
        total: Tensor = contrastive + distilled
        return total


def train_feature_embedding(
    cameras: Sequence[CameraSnapshots], options: StageOptions, state: Path | None = None
) -> EmbeddingNetwork:
    """Train an embedding; an interrupted run goes on from the file `state`, which is removed at the end."""
    torch.manual_seed(options.seed)
    model = _TrainingLoss(EmbeddingNetwork())
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    parts: dict[str, Stateful] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    begin = load_state(state, **parts) if state else 0
    model.train()
    for step in range(begin, options.steps):
        batch = _batch(cameras, options, step)
        torch.manual_seed(options.seed * 1_000_003 + step)  # a resumed run drops out what a whole one does
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if state and (step + 1) % _SAVE_EVERY == 0:
            save_state(state, step + 1, **parts)
    if state:
        state.unlink(missing_ok=True)
    return model.embedding.eval()


def _batch(cameras: Sequence[CameraSnapshots], options: StageOptions, step: int) -> Example:
    chance = np.random.default_rng([options.seed, step])
    weight = np.sqrt([len(camera) for camera in cameras])
    examples: list[Example] = []
    for _ in range(_PATIENCE * options.batch):
        example = cameras[chance.choice(len(cameras), p=weight / weight.sum())].draw(chance)
        if example is not None and example.table.numel():
            examples.append(example)
        if len(examples) == options.batch:
            break
    else:
        raise TrainError(
            "nothing to learn an embedding from: label clips in which objects go on from frame to frame"
        )
    return stack_examples(examples)
