"""Training the change classifier on pairs of labelled frames."""

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
from models.grounded.change_classifier import EVIDENCE, ChangeClassifier, ObservedPair, evidence
from models.grounded.grounded import Grounded
from models.grounded.settings import SETTINGS
from pipeline.changes import image_changes
from pipeline.narration.batch import clusters_of, with_views
from train.footage.frames import LabelledFrame, picture
from train.footage.recipe import GROUNDED
from train.grounded.pairs import FramePairing, pairings, verdicts

UNKNOWN_GAP = 0.3
"""Share of the pairs whose gap is withheld: of many stills nobody knows it."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangeLabels:
    evidence: Tensor  # float32 ``(N, len(EVIDENCE))``
    change: Tensor  # bool ``(N,)``
    camera: NDArray[np.str_]  # str ``(N,)``


def observed_pairs(
    captioner: Grounded, folder: Path, pairs: Sequence[FramePairing], seed: int
) -> Iterator[tuple[FramePairing, ObservedPair]]:
    """Observations of pairs that differ, as they would be in use."""
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
            for _, observed in captioner.observe(batch):
                yield pair, observed


def change_labels(
    captioner: Grounded, folder: Path, frames: Sequence[LabelledFrame], number: int, seed: int
) -> ChangeLabels:
    """Draw pairs and collect what is known of their observations."""
    rows, change, camera = [], [], []
    for pair, observed in observed_pairs(captioner, folder, list(pairings(frames, number, seed)), seed):
        votes = pair.before.votes, pair.after.votes
        for side in (0, 1):
            seen = evidence(observed, side)
            apart = pair.before.file != pair.after.file
            known = verdicts(observed.sides[side], votes[side], votes[1 - side], seen, apart=apart)
            keep = torch.from_numpy(known >= 0) & (observed.sides[side].score >= SETTINGS.proposed_score)
            rows.append(seen[keep])
            change.append(torch.from_numpy(known)[keep] > 0)
            camera += [pair.before.camera] * int(keep.sum())
    none = torch.zeros(0, len(EVIDENCE)), torch.zeros(0, dtype=torch.bool)
    return ChangeLabels(torch.cat([none[0], *rows]), torch.cat([none[1], *change]), np.array(camera))


def train_classifier(known: ChangeLabels, seed: int, steps: int = 3000) -> ChangeClassifier:
    """Train on labels, every camera weighing about as much."""
    torch.manual_seed(seed)
    classifier = ChangeClassifier()
    classifier.fit_scaling(known.evidence)
    _, of, counts = np.unique(known.camera, return_inverse=True, return_counts=True)
    weight = torch.from_numpy((counts[of] ** -0.5).astype(np.float32))
    weight = weight / weight.mean()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    chance = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(known.evidence), (512,), generator=chance)
        loss = binary_cross_entropy_with_logits(
            classifier(known.evidence[rows]), known.change[rows].float(), weight=weight[rows]
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return classifier.eval()
