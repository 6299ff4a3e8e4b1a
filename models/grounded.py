"""The grounded captioner: perceive every cluster on both sides, decide, and only then find the words.

DDLA (Jhamtani and Berg-Kirkpatrick 2018) aligns each sentence to a cluster and lets the decoder guess what
happened there. Here the facts come first:

1. `models.perception`: which objects are on this side of a crop and not on the other, by one function for
   both sides; several objects in one cluster are several things.
2. `models.linking`: which thing before is which thing after, by looks and, in video, by the points followed
   through the frames in between.
3. `models.telling`: appeared, disappeared, moved or replaced, how many; neighbours are told together.
4. The alignment prior of DDLA over things, its four features beside the log-odds that something changed:
   P(z = k | X) ~ exp(w . g(k) + v logit p(k)).
5. `models.speaker`: words for the facts. A sentence that does not say just these facts is replaced by the
   plain one (`models.phrases`).

Training lowers 4 x (perception + linking) + each true change's own sentence + the prior's log-loss; where
nothing is known but the sentences (people's annotations) it lowers DDLA's marginal likelihood, equation (1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.captioner import FEATURES, Captioner, DescribeOptions, PairBatch, Sentence
from models.decoding import decode
from models.encoder import Encoder, PyramidEncoder
from models.following import followed, moment_s
from models.grounding import identities, link_loss, matched, prior_loss
from models.imagenet import familiar, recognised
from models.linking import Linker, linked
from models.perception import Perception, Seen, crop_levels, crop_masks, perception_loss
from models.phrases import Facts, agrees, plain_sentence
from models.places import depth_place, place, zone_of
from models.speaker import TYPES, Speaker, facts_of
from models.state import State
from models.telling import LARGE, UNLIKE, Tale, beside_others, grouped, tales, unexplained
from models.things import Things, find_things, likeness, without_ghosts
from models.vocabulary import PAD, Vocabulary, surface

PERCEIVED = 4.0
"""Weight of perception and linking beside the words in the loss."""
_UNLIKELY = 0.03
"""Things before and after that are one with less than this probability are two, whatever stands there."""


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The N crops of a batch, perceived on both sides."""

    pair: Tensor  # (N,)
    cluster: Tensor  # (N,)
    windows: Tensor  # (N, 4)
    masks: Tensor  # (N, G, G)
    colours: Tensor  # (N, 2, 3, G, G)
    seen: tuple[Seen, Seen]
    coarse: Tensor  # (N, 2, C, h, w), the encoder's coarsest maps

    def things(self, side: int) -> Things:
        """What is on one side."""
        colours = self.colours[:, side]
        return find_things(self.seen[side], colours, self.pair, self.windows, self.masks)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What may be told about the pairs of a batch: R rows, per pair one of nothing and one for each tale."""

    tales: list[Tale | None]
    pair: Tensor  # (R,)
    cluster: Tensor  # (R,)
    log_prior: Tensor  # (R,), normalised over each pair's rows


class Grounded(Captioner):
    """See the head of this file."""

    name = "grounded"
    crop_size = 128
    calibration: Tensor

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: Encoder,
        *,
        width: int = 96,
        embedded: int = 64,
        blocks: int = 3,
        dropout: float = 0.1,
        other_side: bool = True,
        use_mask: bool = True,
        split: bool = True,
        link: bool = True,
        group: bool = True,
        recognise: bool = True,
    ) -> None:
        """Build with random weights.

        Args:
            vocabulary: what it can say.
            encoder: its eyes; one that gives maps of crops.
            width: see `Perception`.
            embedded: see `Perception`.
            blocks: see `Perception`.
            dropout: see `Perception`.
            other_side: see `Perception`.
            use_mask: see `Perception`.
            split: whether a cluster may hold several things.
            link: whether things of both sides are linked; otherwise nothing has moved.
            group: whether neighbours are told together.
            recognise: whether the encoder's own classes are asked, see `models.imagenet`.

        Raises:
            ValueError: the encoder gives no maps of crops.
        """
        super().__init__(vocabulary, encoder)
        if not isinstance(encoder, PyramidEncoder):
            raise ValueError(  # noqa: TRY004 - a wrong choice of the configuration, not of a type
                f"encoder {encoder.name} gives no maps of crops; take efficientnet_lite0"
            )
        self._arguments: dict[str, Any] = {
            "width": width,
            "embedded": embedded,
            "blocks": blocks,
            "dropout": dropout,
            "other_side": other_side,
            "use_mask": use_mask,
            "split": split,
            "link": link,
            "group": group,
            "recognise": recognise,
        }
        self.split, self.link, self.group, self.recognise = split, link, group, recognise
        self.something = True
        self.register_buffer("calibration", torch.tensor([1.0, 0.0, 0.5]))
        self.prior_weights = nn.Parameter(torch.zeros(FEATURES))
        self.prior_change = nn.Parameter(torch.ones(()))
        self.prior_nothing = nn.Parameter(torch.zeros(()))
        self.perception = Perception(
            (*encoder.pyramid_channels, 3),
            width=width,
            embedded=embedded,
            blocks=blocks,
            dropout=dropout,
            other_side=other_side,
            use_mask=use_mask,
        )
        self.linker = Linker()
        self.speaker = Speaker(len(vocabulary))

    def arguments(self) -> dict[str, Any]:
        """See `Captioner`."""
        return dict(self._arguments)

    def fit_confidence(self, slope: float, offset: float, threshold: float = 0.5) -> None:
        """Take the calibration, confidence = sigmoid(slope x logit(raw) + offset), and the threshold."""
        self.calibration.copy_(torch.tensor([slope, offset, threshold]))

    @property
    def min_confidence(self) -> float:
        """See `Captioner`: the threshold that was chosen with the calibration."""
        return float(self.calibration[2])

    def prior_scores(self, features: Tensor) -> Tensor:
        """See `Captioner`: the part of the prior that needs no pictures, the paper's w . g(z)."""
        return self.scaled(features) @ self.prior_weights

    def encode(self, pairs: PairBatch) -> State:
        """See `Captioner`: per pair with clusters a row for nothing, and a row for everything to be told."""
        rows = self._rows(pairs, self._tales(pairs, self._view(pairs)))
        return self._state(rows, pairs)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Captioner`."""
        hidden, cell = state.memory
        log_probs, memory = self.speaker.step(tokens, state.pictures[0], (hidden, cell))
        return log_probs, state.remember(*memory)

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """See the head of this file; a mean over pairs."""
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        if not pairs.valid.any():
            return sum((p.sum() * 0 for p in self.parameters() if p.requires_grad), self.prior_nothing * 0)
        truth = pairs.truth
        if truth is None:
            told = (sentences[:, :, 0] != PAD).any(dim=1) & pairs.valid.any(dim=1)
            return -self.log_likelihood(pairs, sentences).sum() / told.sum().clamp(min=1)
        view = self._view(pairs)
        total = PERCEIVED * perception_loss(view.seen, truth, view.pair, view.windows, view.masks)
        with torch.no_grad():
            sides = view.things(0), view.things(1)
            same = tuple(identities(t, matched(t, truth, k), truth) for k, t in enumerate(sides))
        logits = self.linker(*sides)
        total = total + PERCEIVED * 0.25 * link_loss(logits, *sides, same=(same[0], same[1]))
        clusters = view.cluster.tolist()
        links = linked(logits.detach().sigmoid(), *sides) if self.link else []
        rows = self._rows(pairs, tales(*sides, links, torch.zeros_like(logits, dtype=torch.bool), clusters))
        total = total + prior_loss(rows.log_prior, rows.tales, rows.pair, truth, len(pairs.valid))
        told = truth.told[:, : sentences.shape[1]]
        sentences = sentences[:, : told.shape[1]]
        known = (told[..., 0] >= 0) & (sentences[:, :, 0] != PAD)
        if known.any():
            total = total - self.speaker.log_likelihood(told[known], sentences[known]).mean()
        return total

    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """See `Captioner`: equation (1) of DDLA with what may be told in place of the clusters."""
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        result = torch.zeros(sentences.shape[:2], device=self.device)
        if not pairs.valid.any():
            return result
        rows = self._rows(pairs, self._tales(pairs, self._view(pairs)))
        facts = facts_of(rows.tales).to(self.device)
        for b, t in (sentences[:, :, 0] != PAD).nonzero().tolist():
            own = (rows.pair == b).nonzero()[:, 0]
            if len(own):
                each = self.speaker.log_likelihood(facts[own], sentences[b, t].expand(len(own), -1))
                result = result.index_put(
                    (torch.tensor(b, device=self.device), torch.tensor(t, device=self.device)),
                    torch.logsumexp(rows.log_prior[own] + each, 0),
                )
        return result

    def describe(self, pairs: PairBatch, options: DescribeOptions | None = None) -> list[list[Sentence]]:
        """See `Captioner`; confidence is calibrated, and decides unless the number of sentences is given."""
        options = options or DescribeOptions()
        described: list[list[Sentence]] = [[] for _ in pairs.valid]
        was_training = self.training
        if was_training:  # walking through all modules takes milliseconds
            self.eval()
        try:
            with torch.inference_mode():
                pairs = pairs.to(self.device)
                if not pairs.valid.any():
                    return described
                view = self._view(pairs)
                told = self._tales(pairs, view)
                told = beside_others(grouped(told)) if self.group else told
                rows = self._rows(pairs, [*told, *self._unexplained(pairs, view, told)])
                told_rows = self._told(rows, options)
                state = self._state(rows, pairs).select(
                    torch.tensor(told_rows, dtype=torch.int64, device=self.device)
                )
                decoded = decode(self.step, state, options.beam_size, options.max_words)
        finally:
            if was_training:
                self.train()
        for r, row in zip(told_rows, decoded, strict=True):
            tale = rows.tales[r]
            if tale is not None:
                words = surface(self.vocabulary.decode(row.tokens))
                prior = min(float(rows.log_prior[r].exp()), 1.0)
                described[tale.pair].append(self._sentence(tale, words, prior, pairs, options))
        return described

    def confidence(self, tale: Tale) -> float:
        """The calibrated probability that something changed there and that it has this name."""
        if tale.certain is not None:
            return tale.certain
        raw = min(max(tale.score * tale.named, 1e-4), 1 - 1e-4)
        logit = torch.logit(torch.tensor(raw))
        slope, offset, _ = self.calibration.tolist()
        return float((slope * logit + offset).sigmoid())

    def _view(self, pairs: PairBatch) -> _View:
        pair, cluster = pairs.valid.nonzero(as_tuple=True)
        levels = pairs.levels
        if levels is None:
            if pairs.crops is None:
                raise ValueError("a PairBatch for a grounded captioner needs crops or levels")
            levels = crop_levels(self.encoder, pairs.crops)  # type: ignore[arg-type]  # checked at the start
        if pairs.windows is None:
            raise ValueError("a PairBatch for a grounded captioner needs the windows of its crops")
        levels = tuple(level.float() for level in levels)  # a cache may hold halves
        masks = crop_masks(pairs.masks[pair, cluster], pairs.windows, levels[0].shape[-1])
        before, after = (tuple(level[:, side] for level in levels) for side in (0, 1))
        seen = self.perception(before, after, masks)
        return _View(pair, cluster, pairs.windows, masks, levels[-1], seen, levels[-2])

    def _tales(self, pairs: PairBatch, view: _View) -> list[Tale]:
        with torch.no_grad():
            before, after = without_ghosts(*(self._kept(view.things(side)) for side in (0, 1)))
            if self.recognise:
                known = familiar(self.encoder, view.coarse, view.masks)
                before, after = recognised(before, known[:, 0]), recognised(after, known[:, 1])
            looks = self.linker(before, after).sigmoid()
            same = followed(looks, before, after, pairs.tracks)
            links = linked(same, before, after) if self.link else []
            another = (same < _UNLIKELY) if self.link else torch.zeros_like(same, dtype=torch.bool)
            return tales(before, after, links, another, view.cluster.tolist())

    def _unexplained(self, pairs: PairBatch, view: _View, told: list[Tale]) -> list[Tale]:
        """Something, for every large cluster about which nothing is told."""
        sure = [t for t in told if self.confidence(t) >= self.min_confidence]
        looks = torch.stack([seen.centre.sigmoid().flatten(1).amax(1) for seen in view.seen], dim=1).tolist()
        found: list[Tale] = []
        if not self.something:
            return found
        light = likeness(view.colours, view.masks).tolist()
        for n, (b, k) in enumerate(zip(view.pair.tolist(), view.cluster.tolist(), strict=True)):
            if float(pairs.active[b, k]) >= LARGE and light[n] <= UNLIKE:
                x, y, width, height = pairs.boxes[b, k].tolist()
                seen = (looks[n][0], looks[n][1])
                tale = unexplained(sure, (b, k), (x, y, width, height), seen, self.min_confidence)
                found += [tale] if tale else []
        return found

    def _kept(self, things: Things) -> Things:
        """All things, or the surest of each cluster where clusters are not split."""
        if self.split:
            return things
        first: dict[int, int] = {}
        for row, cluster in enumerate(things.cluster.tolist()):
            first.setdefault(cluster, row)  # the surest come first
        return things.select(torch.tensor(sorted(first.values()), dtype=torch.int64, device=self.device))

    def _rows(self, pairs: PairBatch, told: list[Tale]) -> _Rows:
        """Rows with their prior, pair by pair."""
        active, valid = pairs.active.tolist(), pairs.valid
        rows: list[Tale | None] = []
        pair, cluster, features, odds = [], [], [], []
        for b in valid.any(1).nonzero()[:, 0].tolist():
            rows.append(None)
            pair.append(b)
            cluster.append(int(valid[b].nonzero()[0, 0]))
            features.append([0.0] * FEATURES)
            odds.append(0.0)
            for tale in (t for t in told if t.pair == b):
                _, _, width, height = tale.box
                rows.append(tale)
                pair.append(b)
                cluster.append(tale.cluster)
                features.append([height, width, height * width, active[b][tale.cluster]])
                odds.append(min(max(tale.score, 1e-4), 1 - 1e-4))
        of = torch.tensor(pair, dtype=torch.int64, device=self.device)
        something = torch.tensor([row is not None for row in rows], device=self.device)
        g = torch.tensor(features, device=self.device).view(-1, FEATURES)
        logit = torch.tensor(odds, device=self.device).logit(eps=1e-4)
        score = torch.where(
            something, self.prior_scores(g) + self.prior_change * logit, self.prior_nothing.expand(len(of))
        )
        total = torch.stack([torch.logsumexp(score[of == b], 0) for b in range(len(valid))])
        where = torch.tensor(cluster, dtype=torch.int64, device=self.device)
        return _Rows(rows, of, where, score - total[of])

    def _state(self, rows: _Rows, pairs: PairBatch) -> State:
        told, memory = self.speaker.begin(facts_of(rows.tales).to(self.device))
        log_prior = torch.full(pairs.valid.shape, -torch.inf, device=self.device)
        for b, k in set(zip(rows.pair.tolist(), rows.cluster.tolist(), strict=True)):
            own = (rows.pair == b) & (rows.cluster == k)
            log_prior[b, k] = torch.logsumexp(rows.log_prior.detach()[own], 0)
        return State(rows.pair, rows.cluster, log_prior, pictures=(told,), memory=memory)

    def _told(self, rows: _Rows, options: DescribeOptions) -> list[int]:
        """The rows that are told, per pair by falling salience."""
        least = self.min_confidence if options.min_confidence is None else options.min_confidence
        most = options.max_sentences if options.sentences is None else options.sentences
        prior = rows.log_prior.tolist()
        chosen: dict[int, list[tuple[float, int]]] = {}
        for r, tale in enumerate(rows.tales):
            if tale is not None and (options.sentences is not None or self.confidence(tale) >= least):
                chosen.setdefault(tale.pair, []).append((-prior[r], r))
        return [r for b in sorted(chosen) for _, r in sorted(chosen[b])[:most]]

    def _sentence(
        self, tale: Tale, words: str, prior: float, pairs: PairBatch, options: DescribeOptions
    ) -> Sentence:
        """The decoder's words if they tell the facts, else the plain ones."""
        zone = zone_of(tale.place_box, options.zones)
        where = zone.phrase if zone else (depth_place if options.depth else place)(tale.place_box)
        facts = Facts(tale.type, tale.object, tale.count, where)
        taught = tale.type in TYPES  # of another type the decoder knows no words, "The object has been."
        text = words if taught and agrees(words, facts) else plain_sentence(facts)
        return Sentence(
            text,
            tale.type,
            tale.object,
            tale.box,
            salience=prior,
            confidence=self.confidence(tale),
            count=tale.count,
            before=tale.before,
            after=tale.after,
            moment_s=moment_s(tale, pairs.tracks),
        )
