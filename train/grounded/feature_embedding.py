"""Training the embedding of the detector's features: an interrupted run goes on where it was."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from models.grounded.observations import FEATURES, FeatureEmbedding
from train.checkpoints import TrainError
from train.grounded.identity_pairs import SAME, UNKNOWN, CameraSnapshots, Example, stack_examples
from train.grounded.stages import StageOptions, Stateful, load_state, save_state

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
