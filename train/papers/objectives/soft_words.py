"""What a captioner would say, as probabilities: words that gradients pass through.

Hosseinzadeh and Wang 2021, equations 3 and 4: P, the softmax over the vocabulary at every step.

Silences: whether P is taken along the true sentence or along what the captioner says itself. Both are here:
`forced_words` costs one pass over the sentence and has its length; `greedy_words` follows the likeliest word.
A captioner that tells one cluster each row (DDLA) has a P for every cluster: along the true sentence they are
mixed by the posterior P(z | S, X); by itself it tells the cluster of the largest prior.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.captioner import PairBatch, WordCaptioner
from models.language.vocabulary import BOS, EOS, PAD
from models.state import State


def forced_words(captioner: WordCaptioner, pairs: PairBatch, sentences: Tensor) -> Tensor:
    """The word probabilities along sentences ``(B, T, L)``, ``(B, T, L, V)``; zeros at padding."""
    state = captioner.encode(pairs)
    worded = sentences[:, :, 0] != PAD
    row, t = worded[state.pair].nonzero(as_tuple=True)
    b, k = state.pair[row], state.cluster[row].clamp(min=0)
    tokens = sentences[b, t]
    shape = worded.numel(), tokens.shape[1], len(captioner.vocabulary)
    whole = sentences.new_zeros(*shape, dtype=torch.float32)
    if not len(row):
        return whole.view(*sentences.shape, -1)
    log_probs = _along(captioner, state.select(row), tokens)
    real = tokens != PAD
    likelihood = log_probs.gather(2, tokens.unsqueeze(2))[..., 0].masked_fill(~real, 0.0).sum(dim=1)
    which = b * worded.shape[1] + t
    posterior = _softmax_within((state.log_prior[b, k] + likelihood).detach(), which, worded.numel())
    mixed = whole.index_add(0, which, log_probs.exp() * (posterior.unsqueeze(1) * real).unsqueeze(2))
    return mixed.view(*sentences.shape, -1)


def greedy_words(captioner: WordCaptioner, pairs: PairBatch, max_words: int) -> Tensor:
    """Those along what it says itself, ``(B, 1, max_words + 1, V)``; zeros after EOS."""
    state = captioner.encode(pairs)
    prior = state.log_prior[state.pair, state.cluster.clamp(min=0)].tolist()
    best: dict[int, int] = {}
    for row, b in enumerate(state.pair.tolist()):
        if b not in best or prior[row] > prior[best[b]]:
            best[b] = row
    rows = torch.tensor(list(best.values()), dtype=torch.int64, device=state.pair.device)
    whole = torch.zeros(len(pairs.valid), max_words + 1, len(captioner.vocabulary), device=state.pair.device)
    if not len(rows):
        return whole.unsqueeze(1)
    state = state.select(rows)
    words, going, said = torch.full_like(rows, BOS), torch.ones_like(rows, dtype=torch.bool), []
    for _ in range(max_words + 1):
        log_probs, state = captioner.step(words, state)
        said.append(log_probs.exp() * going.unsqueeze(1))
        words = log_probs.detach().argmax(dim=1)
        going = going & (words != EOS)
    return whole.index_add(0, state.pair, torch.stack(said, dim=1)).unsqueeze(1)


def in_one_row(words: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Word vectors ``(B, T, L, d)`` without padding between them, ``(B, M, d)``, and their number."""
    flat, real = words.flatten(1, 2), counted.flatten(1)
    lengths = real.sum(dim=1)
    order = (~real).to(torch.int8).argsort(dim=1, stable=True)[:, : max(int(lengths.max()), 1)]
    return flat.gather(1, order.unsqueeze(2).expand(-1, -1, flat.shape[2])), lengths


def _along(captioner: WordCaptioner, state: State, tokens: Tensor) -> Tensor:
    """Log probabilities ``(N, L, V)`` before each word of ``(N, L)``."""
    said = torch.cat([torch.full_like(tokens[:, :1], BOS), tokens[:, :-1]], dim=1)
    each = []
    for position in range(tokens.shape[1]):
        log_probs, state = captioner.step(said[:, position], state)
        each.append(log_probs)
    return torch.stack(each, dim=1)


def _softmax_within(scores: Tensor, group: Tensor, groups: int) -> Tensor:
    """Softmax of ``(N,)`` among those of the same group."""
    largest = scores.new_full((groups,), -torch.inf).scatter_reduce(0, group, scores, "amax")
    shares = (scores - largest[group]).exp()
    return shares / shares.new_zeros(groups).index_add(0, group, shares)[group]
