"""Evaluation of a retrieval network: recall@k over a split.

Each pair's sentence against the after frames of all pairs and its own before frame, which is what "nothing
changed" looks like (Hosseinzadeh and Wang 2021, the hard candidates of equation 13).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from models.encoders.encoder import ENCODERS, Encoder
from models.label import CheckpointError
from models.papers.tirg import TIRG
from train.papers.batches import Split

_AT_ONCE = 32


def split_recall(network: TIRG, split: Split) -> dict[str, float | None]:
    """Measure a network on a split, with the first annotator's sentences as one text.

    Returns recall at_1, at_5, at_10 and by chance, the median rank of the right frame, from 1, and as shares:

    * before: of pairs whose own before frame was ranked above the right frame; before_otherwise: with another
      pair's sentence (where it is no larger, nothing was read);
    * sibling: of pairs with one before frame and different after frames, those whose sentence finds its own
      after frame rather than the other's; .5 is by chance, None where there are no such pairs. Frames that
      were aligned by different shifts are not the same.
    """
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
    ranks = 1 + wrong.sum(dim=1) + own
    otherwise = network.scores(before.to(device), tokens.roll(1, dims=0).to(device), candidates).cpu()
    turned = otherwise[:, n:].diagonal() >= otherwise[:, :n].diagonal()
    same = same_pictures(before) & ~same_pictures(after)
    same &= (tokens.unsqueeze(1) != tokens.unsqueeze(0)).any(dim=2)
    won = (right.unsqueeze(1) > scores[:, :n])[same]
    return {
        "pairs": n,
        "candidates": n + 1,
        **{f"at_{k}": float((ranks <= k).double().mean()) for k in (1, 5, 10)},
        "chance_at_1": 1 / (n + 1),
        "median_rank": float(np.median(ranks)),
        "before": float(own.float().mean()),
        "before_otherwise": float(turned.float().mean()),
        "sibling": float(won.float().mean()) if len(won) else None,
    }


def encoder_of(network: TIRG) -> Encoder:
    """The encoder that a network was trained on; CheckpointError where it is another one here."""
    name, sha256 = network.encoder
    if name not in ENCODERS or (encoder := ENCODERS[name]()).sha256 != sha256:
        raise CheckpointError(
            f"the network was trained on encoder {name}, weights {sha256[:12]}, which are not here: "
            "install that encoder, or train again"
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
