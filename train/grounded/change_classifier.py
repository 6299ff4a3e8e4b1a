"""Training the change classifier on pairs of labelled frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from models.grounded.change_classifier import EVIDENCE, ChangeClassifier, ObservedPair, evidence
from models.grounded.grounded import Grounded
from models.grounded.settings import SETTINGS
from pipeline.changes import image_changes
from pipeline.narration.batch import with_views
from train.checkpoints import trained_changes
from train.footage.frames import LabelledFrame, picture
from train.grounded.pairs import FramePairing, pairings, verdicts

UNKNOWN_GAP = 0.3
"""Share of the pairs whose gap is withheld: of many stills it is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangeLabels:
    evidence: NDArray[np.float32]  # float32 ``(N, len(EVIDENCE))``
    change: NDArray[np.bool_]  # bool ``(N,)``
    camera: NDArray[np.str_]  # str ``(N,)``


class Network(nn.Module):
    """Log odds that an observation is a change: a member of `ChangeClassifier`."""

    def __init__(self, hidden: int = 32) -> None:
        """Build with random weights."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(len(EVIDENCE)))
        self.register_buffer("deviation", torch.ones(len(EVIDENCE)))
        sizes = (len(EVIDENCE), hidden, hidden, 1)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    mean: Tensor
    deviation: Tensor

    def fit_scaling(self, evidence: Tensor) -> None:
        """Take the scale of evidence float32 ``(N, len(EVIDENCE))``."""
        self.mean.copy_(evidence.mean(0))
        self.deviation.copy_(evidence.std(0).clamp(min=1e-3))

    def forward(self, evidence: Tensor) -> Tensor:
        """Log odds float32 ``(N,)`` of evidence ``(N, len(EVIDENCE))``."""
        x = ((evidence - self.mean) / self.deviation).clamp(-5, 5)
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        logits: Tensor = self.layers[-1](x)[..., 0]
        return logits


def classifier_of(networks: Sequence[Network]) -> ChangeClassifier:
    """Networks that were trained from several seeds as one classifier."""
    weights = [network.state_dict() for network in networks]
    stacked = {name: torch.stack([each[name] for each in weights]).numpy() for name in weights[0]}
    return ChangeClassifier.of({name.removeprefix("layers."): each for name, each in stacked.items()})


def observed_pairs(
    captioner: Grounded, folder: Path, pairs: Sequence[FramePairing], seed: int
) -> Iterator[tuple[FramePairing, ObservedPair]]:
    """Observations of pairs that differ, as they would be in use."""
    rng, options = np.random.default_rng(seed), trained_changes(captioner)
    for pair in pairs:
        before, after = (picture(folder, frame) for frame in (pair.before, pair.after))
        if before.shape != after.shape:
            continue
        shift, clusters, _ = image_changes(before, after, options)
        if not clusters:
            continue
        known = pair.gap_s is not None and rng.random() >= UNKNOWN_GAP
        gap_s = pair.gap_s if known and pair.gap_s is not None else np.nan
        seen = with_views((before, after), shift, clusters, gap_s)
        yield from ((pair, observed) for _, observed in captioner.observe([seen]))


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
            keep = (known >= 0) & (observed.sides[side].score >= SETTINGS.proposed_score)
            rows.append(seen[keep])
            change.append(known[keep] > 0)
            camera += [pair.before.camera] * int(keep.sum())
    none = np.zeros((0, len(EVIDENCE)), np.float32), np.zeros(0, np.bool_)
    return ChangeLabels(
        np.concatenate([none[0], *rows]), np.concatenate([none[1], *change]), np.array(camera)
    )


def train_classifier(known: ChangeLabels, seed: int, steps: int = 3000) -> Network:
    """Train on labels, every camera weighing about as much."""
    torch.manual_seed(seed)
    classifier = Network()
    shown, change = torch.from_numpy(known.evidence), torch.from_numpy(known.change).float()
    classifier.fit_scaling(shown)
    _, of, counts = np.unique(known.camera, return_inverse=True, return_counts=True)
    weight = torch.from_numpy((counts[of] ** -0.5).astype(np.float32))
    weight = weight / weight.mean()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    chance = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(shown), (512,), generator=chance)
        loss = binary_cross_entropy_with_logits(classifier(shown[rows]), change[rows], weight=weight[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return classifier.eval()
