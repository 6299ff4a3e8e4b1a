"""Training a captioner jointly with a retrieval network, around any captioner that gives word distributions.

Hosseinzadeh and Wang, "Image Change Captioning by Learning from an Auxiliary Task", CVPR 2021, section 4.

    primary -> auxiliary   P = f(A, B); E = P W_emb                                       (3-5)
                           L_aux = -log softmax over the candidates of <k(A, E), g(.)>    (6)
    auxiliary -> primary   R = k(A, E_C); omega = softmax(S~ R); B^ = sum omega_j I_j     (7-10)
                           L_pri = -log P(C | A, B^)                                      (11)
    candidates             n - 1 random pictures and B; from epoch xi n - 2, A and B      (13)
    L = (1 - gamma) L_pri + gamma L_aux                                                   (14)

The two stages alternate from batch to batch. The auxiliary network is `models.papers.tirg`.

Where the paper is silent, and departures:
* Both losses are taken in both stages; a stage decides what one of them is given. In the first L_pri is the
  captioner's own loss of (A, B) and L_aux is given its soft words; in the second L_aux is given the true
  words and L_pri the picture softly chosen by it.
* B^ of equation 10 is a vector, where a captioner needs a map: the candidates' maps are mixed with omega.
  Clusters, where a captioner has them, stay those of (A, B).
* L_pri is the captioner's whole loss, with its regularisers and for DDLA marginal over clusters.
* P is taken along the true words, in one pass; the paper gives TIRG the generated caption. DDLA has a P for
  every cluster: they are mixed by the posterior P(z | S, X).
* Random pictures are those of the other pairs of the batch, before and after; `candidates` says how many make
  up n, as far as the batch has them. A picture equal to B (another annotator's, or A of a pair in which no
  pixel changes) is never a wrong candidate. The sentences of one annotator are one text.
* gamma .2, n 8; xi is an epoch, 30 in the paper's 60. An epoch of the full size has one caption of each pair.
* `against="captions"` is no paper's form. With other pictures as candidates the task is solved from A alone,
  or by knowing the pictures by heart. Here L_aux also asks which of n captions, the pair's own and those of
  other pairs of the batch, leads from A to B, and so cannot be lowered without reading:

      L_aux = (6) - log softmax over the captions C_j of <k(A, E_j), g(B)>

  Captions of the same words, and two that nothing changed, are never wrong for each other. It takes vectors
  of length `scale` (16, learned): by plain dot products it learns pictures by heart, and reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.checkpoint import CheckpointError
from models.encoders import ENCODERS, Encoder
from models.papers.captioner import PairBatch, WordCaptioner
from models.papers.tirg import TIRG, save_tirg
from models.papers.vocabulary import PAD
from train.checkpoints import writing
from train.papers.batches import Split
from train.papers.objectives import Objective, Step

SUFFIX = ".tirg.safetensors"
_AT_ONCE = 32


class JointTraining(Objective):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Objective.Options):
        gamma: float = 0.2  # share 0..1 of the auxiliary loss
        candidates: int = 8  # n, how many pictures are chosen from, at least 2
        hard_from: int | None = 30  # xi, the first epoch in which A is a candidate; None never (the easy set)
        against: Literal["pictures", "captions"] = "pictures"  # captions too; the paper has pictures
        network: dict[str, Any] = field(default_factory=dict)  # arguments of `TIRG`

        def __post_init__(self) -> None:
            known = self.against in ("pictures", "captions")
            if not known or not 0 <= self.gamma <= 1 or self.candidates < 2:  # noqa: PLR2004 - B and another
                raise ValueError(
                    f"gamma is 0..1, candidates at least 2, against pictures or captions: {self}"
                )

    name = "joint"
    one_text = True
    options: Options

    def __init__(self, captioner: WordCaptioner, training: Split, **arguments: Any) -> None:
        super().__init__(**arguments)
        del training
        if captioner.needs_images:
            raise ValueError(
                f"{captioner.name} does not look at maps of whole frames, which candidates are mixed from: "
                "take ddla or duda"
            )
        encoder = captioner.encoder
        made_of = encoder.name, encoder.sha256
        self.network = TIRG(captioner.vocabulary, encoder.channels, made_of, **self.options.network)

    def loss(self, captioner: WordCaptioner, pairs: PairBatch, tokens: Tensor, step: Step) -> Tensor:
        options, maps = self.options, captioner.maps(pairs)
        pairs = replace(pairs, maps=maps)
        hard = options.hard_from is not None and step.epoch >= options.hard_from
        seen = PicturedBatch(self.network, maps, options.candidates, hard=hard)
        embed_word, first = self.network.embed_word, step.done % 2 == 0
        if first:  # equation 4: soft word vectors
            likely = forced_words(captioner, pairs, tokens)
            words, counted = likely @ embed_word.weight, likely.detach().sum(dim=3) > 0
        else:
            words, counted = embed_word(tokens), tokens != PAD
        row, lengths = in_one_row(words, counted)
        queries = self.network.queries(seen.pictures[: len(row)], row, lengths)
        auxiliary = seen.loss(queries, lengths > 0)
        if options.against == "captions":
            others = caption_sets(tokens, pairs.changed, options.candidates)
            auxiliary = auxiliary + self._among_captions(seen, row, lengths, others)
        if not first:
            pairs = replace(pairs, maps=(seen.before, seen.mix_candidates(queries)))
        return (1 - options.gamma) * captioner.loss(pairs, tokens) + options.gamma * auxiliary

    def keep(self, captioner: WordCaptioner, out: Path) -> None:
        self.network.record = captioner.record
        with writing(out):
            save_tirg(self.network, out.with_name(out.stem + SUFFIX))

    def _among_captions(self, seen: PicturedBatch, row: Tensor, lengths: Tensor, sets: Tensor) -> Tensor:
        """Probability that a pair's own caption, of those in its set ``(B, B)``, leads from A to B."""
        picture, caption = sets.nonzero(as_tuple=True)
        queries = self.network.queries(seen.pictures[picture], row[caption], lengths[caption])
        scores = (queries * seen.candidates[len(row) + picture]).sum(dim=1)
        logits = scores.new_full(sets.shape, -torch.inf).index_put((picture, caption), scores)
        own = torch.arange(len(row), device=row.device)
        each = cross_entropy(logits, own, reduction="none")
        counted = (lengths > 0) & (sets.sum(dim=1) > 1)
        return (each * counted).sum() / counted.sum().clamp(min=1)


class PicturedBatch:
    """The pictures of a batch, first all before frames, then all after frames, and who chooses from which."""

    def __init__(self, network: TIRG, maps: tuple[Tensor, Tensor], n: int, *, hard: bool) -> None:
        self.before, after = (each.float() for each in maps)
        self.maps = torch.cat([self.before, after])
        self.pictures = network.pictures(self.maps)
        self.candidates = network.candidates(self.pictures)
        self.allowed = candidate_sets(same_pictures(self.maps), n, hard=hard)

    def logits(self, queries: Tensor) -> Tensor:
        """<k(A, C), g(I)> ``(B, 2B)``; -inf for what is not in the set."""
        return (queries @ self.candidates.T).masked_fill(~self.allowed, -torch.inf)

    def loss(self, queries: Tensor, worded: Tensor) -> Tensor:
        """Equation 6, over the pairs that have a sentence."""
        b = len(queries)
        right = torch.arange(b, 2 * b, device=queries.device)
        each = cross_entropy(self.logits(queries), right, reduction="none")
        return (each * worded).sum() / worded.sum().clamp(min=1)

    def mix_candidates(self, queries: Tensor) -> Tensor:
        """B^, equations 9 and 10, as maps ``(B, C, 14, 14)``."""
        omega = self.logits(queries).softmax(dim=1)
        return (omega @ self.maps.flatten(1)).view(-1, *self.maps.shape[1:])


def candidate_sets(same: Tensor, n: int, *, hard: bool) -> Tensor:
    """The candidates of each pair, equation 13, bool ``(B, 2B)``, before frames first.

    B always, A if `hard` and it is not the same picture, others at random from the other pairs.
    """
    b = len(same) // 2
    own = torch.arange(b, device=same.device)
    others = ~same[b:] & ~same[:b]  # neither B nor A
    sets = torch.zeros_like(others)
    sets[own, own + b] = True
    if hard:
        sets[own, own] = ~same[own, own + b]
    return sets | _draw(others, n - sets.sum(dim=1, keepdim=True))


def caption_sets(tokens: Tensor, changed: Tensor | None, n: int) -> Tensor:
    """The captions to contrast with each pair's own, and that, bool ``(B, B)``, of tokens ``(B, T, L)``.

    Others are drawn from those of other words; never one without words, and of a distractor no other
    distractor's.
    """
    flat, b = tokens.flatten(1), len(tokens)
    own = torch.eye(b, dtype=torch.bool, device=tokens.device)
    others = (flat.unsqueeze(1) != flat.unsqueeze(0)).any(dim=2) & (flat != PAD).any(dim=1)
    if changed is not None:
        others &= changed.unsqueeze(1) | changed.unsqueeze(0)
    return own | _draw(others, n - 1)


def _draw(among: Tensor, number: int | Tensor) -> Tensor:
    """So many of what is True in each row of bool ``(N, M)``, at random."""
    drawn = torch.rand(among.shape, device=among.device).masked_fill(~among, -1.0)
    return among & (drawn.argsort(dim=1, descending=True).argsort(dim=1) < number)


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
    log_probs = captioner.distributions(state.select(row), tokens)
    real = tokens != PAD
    likelihood = log_probs.gather(2, tokens.unsqueeze(2))[..., 0].masked_fill(~real, 0.0).sum(dim=1)
    which = b * worded.shape[1] + t
    posterior = _softmax_within((state.log_prior[b, k] + likelihood).detach(), which, worded.numel())
    mixed = whole.index_add(0, which, log_probs.exp() * (posterior.unsqueeze(1) * real).unsqueeze(2))
    return mixed.view(*sentences.shape, -1)


def in_one_row(words: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Word vectors ``(B, T, L, d)`` without padding between them, ``(B, M, d)``, and their number."""
    flat, real = words.flatten(1, 2), counted.flatten(1)
    lengths = real.sum(dim=1)
    order = (~real).to(torch.int8).argsort(dim=1, stable=True)[:, : max(int(lengths.max()), 1)]
    return flat.gather(1, order.unsqueeze(2).expand(-1, -1, flat.shape[2])), lengths


def _softmax_within(scores: Tensor, group: Tensor, groups: int) -> Tensor:
    """Softmax of ``(N,)`` among those of the same group."""
    largest = scores.new_full((groups,), -torch.inf).scatter_reduce(0, group, scores, "amax")
    shares = (scores - largest[group]).exp()
    return shares / shares.new_zeros(groups).index_add(0, group, shares)[group]


def split_recall(network: TIRG, split: Split) -> dict[str, float | None]:
    """Measure a network on a split, with the first annotator's sentences as one text.

    Each text against the after frames of all pairs and its own before frame, which is what "nothing changed"
    looks like (the hard candidates of equation 13).

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
    every, n = [], len(split.samples)
    for start in range(0, n, _AT_ONCE):
        maps = split.features.batch(range(start, min(start + _AT_ONCE, n)), whole=True).maps
        assert maps is not None  # noqa: S101 - features have maps
        every.append(torch.stack(maps).float())
    before, after = torch.cat(every, dim=1)
    return before, after


def same_pictures(maps: Tensor) -> Tensor:
    """Which of N pictures are one picture, bool ``(N, N)``, by their maps ``(N, C, h, w)``."""
    means = maps.flatten(2).mean(dim=2)
    near = torch.cdist(means, means, compute_mode="donot_use_mm_for_euclid_dist") < 1e-6  # noqa: PLR2004 - rounding
    for i, j in near.triu(1).nonzero().tolist():
        near[i, j] = near[j, i] = torch.equal(maps[i], maps[j])
    return near
