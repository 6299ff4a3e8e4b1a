"""The grounded captioner: see both sides, link, judge, decide, and only then find the words.

DDLA (Jhamtani and Berg-Kirkpatrick 2018) aligns each sentence to a cluster and lets the decoder guess what
happened there. Here the facts come first:

1. `looking`: which objects are on each side, absolutely, by a detector that sees the whole frames and, where
   something small differs, tiles of them.
2. `linking`: which object before is which object after, or none.
3. `judging`: whether an object is really there and not the same one at the same place on the other side.
4. `deciding`: appeared, disappeared or moved, with a probability.
5. The alignment prior of DDLA over facts, its four features beside the log odds that it is so:
   P(z = k | X) ~ exp(w . g(k) + v logit p(k)).
6. `models.grounded.speaker`: words for the facts. A sentence that does not say just these facts is
   replaced by the plain one (`models.language.phrases`).

Detector, linker, judge and speaker learn apart, each from what it needs (`train.learning`); `loss` is DDLA's
marginal likelihood of sentences, equation (1), and trains prior and speaker alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from models.boxes import box_of, hull, intersection
from models.captioner import FEATURES, Captioner, DescribeOptions, PairBatch, Sentence
from models.detections import Detections
from models.encoders.encoder import Encoder
from models.families import CLASSES
from models.grounded.committee import committee
from models.grounded.decisions import LONE, Judged, alone, decided
from models.grounded.detector import Detector
from models.grounded.exchange import REAL, exchanged
from models.grounded.judge import Judge, Sides, evidence
from models.grounded.linker import Linker, ends, links
from models.grounded.sight import LEAST, nearer, seen
from models.grounded.speaker import Speaker, facts_of, said, speak
from models.language.claims import Claims, claims_of, merged
from models.language.facts import Fact
from models.language.vocabulary import PAD, Vocabulary
from models.state import State

PROPOSED = 0.15
"""What the detector is less sure of is only weighed against the other side, never told."""


Eyes = Callable[[Sequence[Tensor]], list[Detections]]
"""What is in pictures, uint8 RGB ``(3, h, w)`` with sides that are multiples of 32."""


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What may be told about the pairs of a batch: R rows, per pair one of nothing and one for each fact."""

    facts: list[Fact | None]
    pair: Tensor  # (R,)
    cluster: Tensor  # (R,)
    log_prior: Tensor  # (R,), normalised over each pair's rows


class Grounded(Captioner):
    """See the head of this file. The encoder is not looked through; the detector has eyes of its own.

    Attributes:
        eyes: asked in place of the detector, where another machine looks; None is the detector.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Captioner.Options):
        """Sizes.

        Attributes:
            hidden: width of the judge and the linker.
            members: how many of each, heard as one.
        """

        hidden: int = 32
        members: int = 1

    name = "grounded"
    options: Options
    sees_views = True
    needs_images = True
    calibration: Tensor

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        hidden, members = self.options.hidden, range(self.options.members)
        self.register_buffer("calibration", torch.tensor([1.0, 0.0, 0.5]))
        self.prior_weights = nn.Parameter(torch.zeros(FEATURES))
        self.prior_change = nn.Parameter(torch.ones(()))
        self.prior_nothing = nn.Parameter(torch.zeros(()))
        # In this order of memory convolutions on a CPU take two thirds of the time.
        self.detector = Detector(len(CLASSES)).to(memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload]
        self.linker = committee(Linker(hidden) for _ in members).requires_grad_(False)
        self.judge = committee(Judge(hidden) for _ in members).requires_grad_(False)
        self.speaker = Speaker(len(vocabulary))
        self.eyes: Eyes | None = None

    def fit_confidence(self, slope: float, offset: float, threshold: float = 0.5) -> None:
        """Take the calibration, confidence = sigmoid(slope x logit(decided) + offset), and the threshold."""
        self.calibration.copy_(torch.tensor([slope, offset, threshold]))

    @property
    def min_confidence(self) -> float:
        """See `Captioner`: the threshold that was chosen with the calibration."""
        return float(self.calibration[2])

    def prior_scores(self, features: Tensor) -> Tensor:
        """See `Captioner`: the part of the prior that needs no pictures, the paper's w . g(z)."""
        return self.scaled(features) @ self.prior_weights

    def encode(self, pairs: PairBatch) -> State:
        """See `Captioner`: per pair with clusters a row for nothing, and a row for every fact."""
        pairs = pairs.to(self.device)
        return self._state(self._rows(pairs, self.facts(pairs)), pairs)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Captioner`."""
        hidden, cell = state.memory
        log_probs, memory = self.speaker.step(tokens, state.pictures[0], (hidden, cell))
        return log_probs, state.remember(*memory)

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """See the head of this file; a mean over pairs."""
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        worded = (sentences[:, :, 0] != PAD).any(dim=1) & pairs.valid.any(dim=1)
        nothing = sum((p.sum() * 0 for p in self.parameters() if p.requires_grad), self.prior_nothing * 0)
        return nothing - self.log_likelihood(pairs, sentences).sum() / worded.sum().clamp(min=1)

    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """See `Captioner`: equation (1) of DDLA with what may be told in place of the clusters."""
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        result = torch.zeros(sentences.shape[:2], device=self.device)
        if not pairs.valid.any():
            return result
        rows = self._rows(pairs, self.facts(pairs))
        facts = facts_of([_claims(fact) for fact in rows.facts]).to(self.device)
        for b, t in (sentences[:, :, 0] != PAD).nonzero().tolist():
            own = (rows.pair == b).nonzero()[:, 0]
            if len(own):
                each = self.speaker.log_likelihood(facts[own], sentences[b, t].expand(len(own), -1))
                place = (torch.tensor(b, device=self.device), torch.tensor(t, device=self.device))
                result = result.index_put(place, torch.logsumexp(rows.log_prior[own] + each, 0))
        return result

    @torch.no_grad()
    def facts(self, pairs: PairBatch) -> list[Fact]:
        """What may be told of pairs of stills, with calibrated confidence; nothing where no cluster is."""
        was_training = self.training
        if was_training:
            self.eval()
        try:
            found = [fact for n, sides in self.look(pairs) for fact in self.facts_of_sides(sides, n)]
        finally:
            if was_training:
                self.train()
        return found

    def see(self, pictures: Sequence[Tensor], least: float = LEAST) -> list[Detections]:
        """See `Sighted`."""
        with torch.inference_mode():
            return self._seen([picture.to(self.device) for picture in pictures], least)

    def embed(self, found: Detections) -> Tensor:
        """Appearance of detections: the linkers' unit vectors side by side, of unit length again."""
        linkers = [each for each in self.linker.modules() if isinstance(each, Linker)]
        with torch.inference_mode():
            each: list[Tensor] = [linker.embedding(found.feature.to(self.device)) for linker in linkers]
        together: Tensor = torch.cat(each, dim=1) / len(linkers) ** 0.5
        return together

    def _seen(self, pictures: Sequence[Tensor], least: float = LEAST) -> list[Detections]:
        """What the detector sees, or whoever lends his eyes."""
        return seen(self.detector, pictures, least) if self.eyes is None else self.eyes(pictures)

    def look(self, pairs: PairBatch) -> list[tuple[int, Sides]]:
        """What is seen of every pair that has clusters, with its number."""
        asked = pairs.valid.any(1).nonzero()[:, 0].tolist()
        views = pairs.views
        if views is None:
            if pairs.before is None or pairs.after is None:
                raise ValueError("a PairBatch for a grounded captioner needs views, or before and after")
            views = tuple(torch.stack([pairs.before, pairs.after], dim=1))
        whole = self._seen([views[b][side] for b in asked for side in (0, 1)])
        tiles = self._tiles(pairs)
        looked = []
        for n, b in enumerate(asked):
            near = tiles.get(b, ([], []))
            found = [nearer(whole[2 * n + side], near[side]) for side in (0, 1)]
            both = tuple(ends(views[b][side], found[side]) for side in (0, 1))
            masks, boxes = (each[b][pairs.valid[b]] for each in (pairs.masks, pairs.boxes))
            gap = pairs.active.new_tensor(torch.nan) if pairs.gap_s is None else pairs.gap_s[b]
            looked.append((b, Sides((both[0], both[1]), views[b], masks.any(0).float(), boxes, gap)))
        return looked

    def _tiles(self, pairs: PairBatch) -> dict[int, tuple[list[tuple[Detections, Tensor]], ...]]:
        """What is seen in the tiles of each pair, on both sides, with the tiles' windows."""
        if pairs.tiles is None or pairs.tile_windows is None or pairs.tile_pair is None:
            return {}
        found = self._seen(list(pairs.tiles.flatten(0, 1)))
        near: dict[int, tuple[list[tuple[Detections, Tensor]], ...]] = {}
        for t, b in enumerate(pairs.tile_pair.tolist()):
            for side in (0, 1):
                near.setdefault(b, ([], []))[side].append((found[2 * t + side], pairs.tile_windows[t]))
        return near

    def facts_of_sides(self, sides: Sides, number: int) -> list[Fact]:
        """What may be told of a pair, given what is seen of it, with calibrated confidence."""
        judged = []
        for side in (0, 1):
            real = self.judge(evidence(sides, side)).sigmoid()
            kept = sides.ends[side].score >= PROPOSED
            judged.append(Judged(sides.ends[side].select(kept), real[kept]))
        odds = self.linker(judged[0].ends, judged[1].ends, sides.gap_s)
        other = exchanged(sides, judged[0].ends, judged[1].ends)
        odds = odds.masked_fill(other, -torch.inf)
        for side, judgement in enumerate(judged):
            least = other.any(1 - side) * REAL
            judged[side] = replace(judgement, real=torch.maximum(judgement.real, least))
        one = links(odds + LONE * alone(judged[0], judged[1], float(sides.gap_s)))
        slope, offset, _ = self.calibration.tolist()
        facts = decided(judged[0], judged[1], one, number, float(sides.gap_s))
        logits = [math.log(p / (1 - p)) for p in (min(max(f.confidence, 1e-4), 1 - 1e-4) for f in facts)]
        sure = [1 / (1 + math.exp(-slope * x - offset)) for x in logits]
        return [replace(fact, confidence=p) for fact, p in zip(facts, sure, strict=True)]

    def describe(self, pairs: PairBatch, options: DescribeOptions | None = None) -> list[list[Sentence]]:
        """See `Captioner`; confidence decides unless the number of sentences is given."""
        pairs = pairs.to(self.device)
        return self.tell(self.facts(pairs), len(pairs.valid), options)

    def tell(
        self, facts: Sequence[Fact], pairs: int, options: DescribeOptions | None = None
    ) -> list[list[Sentence]]:
        """Sentences for facts, those of each pair by falling salience.

        Args:
            facts: of a batch's pairs, whatever found them.
            pairs: how many pairs the batch has.
            options: see there.
        """
        options = options or DescribeOptions()
        sentences: list[list[Sentence]] = [[] for _ in range(pairs)]
        for b in range(pairs):
            own = [fact for fact in facts if fact.pair == b]
            if own:
                sentences[b] = self._worded(own, options)
        return sentences

    def _worded(self, facts: list[Fact], options: DescribeOptions) -> list[Sentence]:
        least = self.min_confidence if options.min_confidence is None else options.min_confidence
        if options.sentences is None:
            facts = [fact for fact in facts if fact.confidence >= least]
        shares = self._prior(facts).tolist()
        order = sorted(range(len(facts)), key=lambda n: -shares[n])  # of two equals the second is another
        facts, prior = [facts[n] for n in order], [shares[n] for n in order]
        claims = [claims_of(fact, zones=options.zones, depth=options.depth) for fact in facts]
        sure = [n for n, fact in enumerate(facts) if fact.confidence >= self.min_confidence]
        groups = [
            (m.claims, [facts[sure[k]] for k in m.members], max(prior[sure[k]] for k in m.members))
            for m in merged([claims[n] for n in sure], [(facts[n].before, facts[n].after) for n in sure])
        ]
        groups += [(claims[n], [facts[n]], prior[n]) for n in range(len(facts)) if n not in sure]
        groups.sort(key=lambda group: -group[2])
        most = options.max_sentences if options.sentences is None else options.sentences
        groups = groups[:most]
        words = speak(self.speaker, self.vocabulary, [claims for claims, _, _ in groups], options.max_words)
        return [_sentence(said(w, c), c, own, p) for w, (c, own, p) in zip(words, groups, strict=True)]

    def _prior(self, facts: Sequence[Fact | None]) -> Tensor:
        """The prior of a pair's facts and of nothing, without the latter's: float32 ``(len(facts),)``."""
        if not facts:
            return torch.zeros(0)
        with torch.inference_mode():
            scores = torch.cat([self.prior_nothing.view(1), self._scores(facts)])
            return scores.softmax(0)[1:]

    def _scores(self, facts: Sequence[Fact | None]) -> Tensor:
        rows, odds = [], []
        for fact in facts:
            _, _, width, height = fact.box if fact else (0.0, 0.0, 0.0, 0.0)
            rows.append([height, width, height * width, height * width])
            odds.append(min(max(fact.confidence, 1e-4), 1 - 1e-4) if fact else 0.5)
        g = torch.tensor(rows, device=self.device).view(-1, FEATURES)
        logit = torch.tensor(odds, device=self.device).logit()
        score = self.prior_scores(g) + self.prior_change * logit
        nothing = torch.tensor([fact is None for fact in facts], device=self.device)
        return torch.where(nothing, self.prior_nothing.expand(len(facts)), score)

    def _rows(self, pairs: PairBatch, facts: Sequence[Fact]) -> _Rows:
        """Rows with their prior, pair by pair."""
        rows: list[Fact | None] = []
        pair, cluster = [], []
        for b in pairs.valid.any(1).nonzero()[:, 0].tolist():
            numbers = pairs.valid[b].nonzero()[:, 0].tolist()
            boxes = pairs.boxes[b].tolist()
            for fact in (None, *(f for f in facts if f.pair == b)):
                rows.append(fact)
                pair.append(b)
                cluster.append(max(numbers, key=lambda k: _met(fact, boxes[k])) if fact else numbers[0])
        of = torch.tensor(pair, dtype=torch.int64, device=self.device)
        score = self._scores(rows) if rows else torch.zeros(0, device=self.device)
        total = torch.stack([torch.logsumexp(score[of == b], 0) for b in range(len(pairs.valid))])
        where = torch.tensor(cluster, dtype=torch.int64, device=self.device)
        return _Rows(rows, of, where, score - total[of])

    def _state(self, rows: _Rows, pairs: PairBatch) -> State:
        facts = facts_of([_claims(fact) for fact in rows.facts]).to(self.device)
        embedded, memory = self.speaker.begin(facts)
        log_prior = torch.full(pairs.valid.shape, -torch.inf, device=self.device)
        for b, k in set(zip(rows.pair.tolist(), rows.cluster.tolist(), strict=True)):
            own = (rows.pair == b) & (rows.cluster == k)
            log_prior[b, k] = torch.logsumexp(rows.log_prior.detach()[own], 0)
        return State(rows.pair, rows.cluster, log_prior, pictures=(embedded,), memory=memory)


def _claims(fact: Fact | None) -> Claims | None:
    return claims_of(fact) if fact else None


def _met(fact: Fact, cluster: Sequence[float]) -> float:
    """Area that a fact's boxes share with a cluster's."""
    return sum(intersection(box, box_of(cluster)) for box in (fact.before, fact.after) if box is not None)


def _sentence(text: str, claims: Claims, facts: Sequence[Fact], salience: float) -> Sentence:
    """The sentence of facts that are told as one; as sure as the least sure of them."""
    before = hull(fact.before for fact in facts)
    after = hull(fact.after for fact in facts)
    moments = [fact.moment_s for fact in facts if fact.moment_s is not None]
    return Sentence(
        text,
        claims.type,
        claims.object,
        after or before,
        salience=salience,
        confidence=min(fact.confidence for fact in facts),
        count=claims.count,
        before=before,
        after=after,
        moment_s=min(moments, default=None),
        paths=tuple(fact.path for fact in facts if fact.path),
    )
