"""Training the judge: on pairs of labelled frames, which of the ends that are proposed are changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from models.captioner import PairBatch
from models.grounded.grounded import Grounded
from models.grounded.change_classifier import EVIDENCE, ChangeClassifier, ObservedPair, evidence
from models.grounded.settings import SETTINGS
from pipeline.changes import image_changes
from pipeline.narration.batch import clusters_of, with_views
from train.footage.frames import LabelledFrame, picture
from train.footage.recipe import GROUNDED
from train.grounded.pairs import FramePairing, pairings, verdicts

UNKNOWN_GAP = 0.3
"""Share of the pairs whose gap is withheld: of many stills nobody knows it."""


@dataclass(frozen=True, slots=True, eq=False)
class Judgements:
    """Observations with the teacher's word.

    Attributes:
        evidence: float32 ``(N, len(EVIDENCE))``.
        change: bool ``(N,)``.
        camera: str ``(N,)``.
    """

    evidence: Tensor
    change: Tensor
    camera: NDArray[np.str_]


def looked(
    captioner: Grounded, folder: Path, pairs: Sequence[FramePairing], seed: int
) -> Iterator[tuple[FramePairing, ObservedPair]]:
    """What the captioner sees of pairs that differ, as it would in use."""
    rng = np.random.default_rng(seed)
    for pair in pairs:
        before, after = (picture(folder, frame) for frame in (pair.before, pair.after))
        if before.shape != after.shape:
            continue
        shift, clusters, _ = image_changes(before, after, GROUNDED)
        if not clusters:
            continue
        known = pair.gap_s is not None and rng.random() >= UNKNOWN_GAP
        gap = torch.tensor([pair.gap_s if known and pair.gap_s is not None else torch.nan])
        batch = PairBatch(None, None, *clusters_of([clusters]), gap_s=gap)
        batch = with_views(batch, [(before, after)], [shift], [clusters])
        with torch.inference_mode():
            for _, sides in captioner.look(batch):
                yield pair, sides


def judgements(
    captioner: Grounded, folder: Path, frames: Sequence[LabelledFrame], number: int, seed: int
) -> Judgements:
    """Draw pairs and collect what is known of their ends."""
    rows, change, camera = [], [], []
    for pair, sides in looked(captioner, folder, list(pairings(frames, number, seed)), seed):
        votes = pair.before.votes, pair.after.votes
        for side in (0, 1):
            seen = evidence(sides, side)
            apart = pair.before.file != pair.after.file
            known = verdicts(sides.ends[side], votes[side], votes[1 - side], seen, apart=apart)
            keep = torch.from_numpy(known >= 0) & (sides.ends[side].score >= SETTINGS.proposed_score)
            rows.append(seen[keep])
            change.append(torch.from_numpy(known)[keep] > 0)
            camera += [pair.before.camera] * int(keep.sum())
    none = torch.zeros(0, len(EVIDENCE)), torch.zeros(0, dtype=torch.bool)
    return Judgements(torch.cat([none[0], *rows]), torch.cat([none[1], *change]), np.array(camera))


def train_judge(known: Judgements, seed: int, steps: int = 3000) -> ChangeClassifier:
    """Learn from judgements, every camera about equally much."""
    torch.manual_seed(seed)
    judge = ChangeClassifier()
    judge.fit_scaling(known.evidence)
    _, of, counts = np.unique(known.camera, return_inverse=True, return_counts=True)
    weight = torch.from_numpy((counts[of] ** -0.5).astype(np.float32))
    weight = weight / weight.mean()
    optimizer = torch.optim.AdamW(judge.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    chance = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(known.evidence), (512,), generator=chance)
        loss = binary_cross_entropy_with_logits(
            judge(known.evidence[rows]), known.change[rows].float(), weight=weight[rows]
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return judge.eval()
