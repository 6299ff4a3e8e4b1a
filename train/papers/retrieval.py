"""How good a retrieval network is: recall@k over a split.

Each pair's sentence against the after frames of all pairs and its own before frame, which is what "nothing
changed" looks like (Hosseinzadeh and Wang 2021, the hard candidates of equation 13).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.encoders.encoder import ENCODERS, Encoder
from models.label import CheckpointError
from models.papers.tirg import TIRG
from train.papers.batches import Split

_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Recall:
    pairs: int  # how many were asked for
    candidates: int  # how many each was chosen from
    at_1: float  # at_1, at_5, at_10: recall@k, 0..1
    at_5: float
    at_10: float
    median_rank: float  # of the right frame, from 1
    before: float  # share 0..1 of pairs whose own before frame was ranked above the right frame
    before_otherwise: float  # the same with another pair's sentence: where it is no larger, nothing was read
    # of pairs with one before frame and different after frames, the share whose sentence finds its own after
    # frame rather than the other's; .5 is by chance, None where there are no such pairs. Frames that were
    # aligned by different shifts are not the same.
    sibling: float | None = None

    def chance(self, k: int) -> float:
        return min(k / self.candidates, 1.0)


def recall(ranks: Sequence[int], k: int) -> float:
    """Share of ranks, from 1, that are at most k."""
    return sum(rank <= k for rank in ranks) / len(ranks)


def split_recall(network: TIRG, split: Split) -> Recall:
    """Measure a network on a split, with the first annotator's sentences as one text."""
    device = next(network.parameters()).device
    before, after = _maps(split)
    texts = [" ".join(sample.sentences) for sample in split.samples]
    tokens = network.vocabulary.batch([[text] for text in texts])[:, 0]
    candidates = torch.cat([after, before]).to(device)
    scores = network.scores(before.to(device), tokens.to(device), candidates).cpu()
    n = len(texts)
    right = scores[:, :n].diagonal()
    own = scores[:, n:].diagonal() >= right
    # A frame that equals the right one (a scene in which nothing happens twice) is no worse a choice.
    wrong = (scores[:, :n] >= right.unsqueeze(1)) & ~same_pictures(after)
    ranks = (1 + wrong.sum(dim=1) + own).tolist()
    at = {k: recall(ranks, k) for k in (1, 5, 10)}
    otherwise = network.scores(before.to(device), tokens.roll(1, dims=0).to(device), candidates).cpu()
    turned = otherwise[:, n:].diagonal() >= otherwise[:, :n].diagonal()
    same = same_pictures(before) & ~same_pictures(after)
    same &= (tokens.unsqueeze(1) != tokens.unsqueeze(0)).any(dim=2)
    won = (right.unsqueeze(1) > scores[:, :n])[same]
    return Recall(
        n,
        n + 1,
        at[1],
        at[5],
        at[10],
        float(np.median(ranks)),
        float(own.float().mean()),
        float(turned.float().mean()),
        float(won.float().mean()) if len(won) else None,
    )


def checked_encoder(network: TIRG, encoder: Encoder | None = None) -> Encoder:
    """The encoder that a network was trained on; None loads it."""
    name = network.encoder[0]
    if encoder is None and name not in ENCODERS:
        raise CheckpointError(
            f"the network needs the encoder {name!r}, this version has {', '.join(ENCODERS)}"
        )
    encoder = encoder or ENCODERS[name]()
    if (encoder.name, encoder.sha256) != network.encoder:
        raise CheckpointError(
            f"the network was trained on encoder {network.encoder[0]}, weights {network.encoder[1][:12]}; "
            f"here is {encoder.name}, weights {encoder.sha256[:12]}: install that encoder, or train again"
        )
    return encoder


def _maps(split: Split) -> tuple[Tensor, Tensor]:
    before, after = [], []
    for start in range(0, len(split.samples), _AT_ONCE):
        some = range(start, min(start + _AT_ONCE, len(split.samples)))
        maps = split.features.batch(some, whole=True).maps
        if maps is None:
            raise ValueError("recall needs maps of whole frames, this split has crops")
        before.append(maps[0].float())
        after.append(maps[1].float())
    return torch.cat(before), torch.cat(after)


def same_pictures(maps: Tensor) -> Tensor:
    """Which of N pictures are one picture, bool ``(N, N)``, by their maps ``(N, C, h, w)``."""
    means = maps.flatten(2).mean(dim=2)
    near = torch.cdist(means, means, compute_mode="donot_use_mm_for_euclid_dist") < 1e-6  # noqa: PLR2004 - rounding
    for i, j in near.triu(1).nonzero().tolist():
        near[i, j] = near[j, i] = torch.equal(maps[i], maps[j])
    return near
