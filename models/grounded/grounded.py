"""The grounded captioner: detect on both sides, classify changes, associate, decide, word with templates.

1. `inference`: which objects are on each side, by a detector that sees the whole frames and, where something
   small differs, tiles of them.
2. `change_classifier`: whether an object is really there and not the same one at the same place on the other
   side.
3. `association`: which observation before is which after, and what became of each.
4. `decisions`: appeared, disappeared or moved, with a probability.
5. `models.language`: statements, merged where they are equal, and their sentences.

Each part is trained by itself (`train.grounded`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.boxes import hull
from models.captioner import Captioner, DescribeOptions, PairBatch, Sentence
from models.detections import Detections
from models.detector import Detector as DetectorInterface
from models.encoders.encoder import Encoder
from models.families import CLASSES, first_of
from models.grounded.association import (
    CHANGE_COLUMNS,
    CHANGE_SIGNS,
    PAIR_SIGNS,
    SIGNS,
    PairSigns,
    Side,
    match_probabilities,
    pair_signs,
    probability,
    signs,
)
from models.grounded.change_classifier import ChangeClassifier, ObservedPair, evidence
from models.grounded.decisions import Outcomes, decide, distinct, families, replaced, unreported
from models.grounded.detector import Detector
from models.grounded.ensemble import ensemble
from models.grounded.inference import detect, merge_tiles
from models.grounded.observations import FeatureEmbedding, Observations, colour_likeness, observe
from models.grounded.settings import SETTINGS
from models.language.facts import Fact
from models.language.statements import merge, statement_of
from models.language.templates import Statement, render
from models.language.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, eq=False)
class Association:
    """Two sides, associated.

    Attributes:
        sides: before, S observations, and after, T.
        pairs: signs of each two.
        excluded: bool ``(S, T)``, those that are known to be two.
        gap_s: seconds between the stills, NaN where that is not known.
    """

    sides: tuple[Side, Side]
    pairs: PairSigns
    excluded: NDArray[np.bool_]
    gap_s: float

    def match(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `match_probabilities`."""
        return match_probabilities(self.pairs, weights, self.excluded)

    def signs(self, match: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `models.grounded.association.signs`, of both sides."""
        before, after = self.sides
        return (
            signs(before, after, self.pairs, match, self.gap_s),
            signs(after, before, self.pairs.transposed(), match.T, self.gap_s),
        )


class Grounded(Captioner):
    """See the head of this file. The encoder is not used; the detector has its own backbone.

    Attributes:
        remote: detects in place of this process; None detects here.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Captioner.Options):
        """Sizes.

        Attributes:
            hidden: width of the change classifier.
            members: how many of it, and of the feature embedding.
        """

        hidden: int = 32
        members: int = 1

    name = "grounded"
    options: Options
    sees_views = True
    needs_images = True
    threshold: Tensor
    match_weights: Tensor
    change_weights: Tensor
    move_weights: Tensor

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        hidden, members = self.options.hidden, range(self.options.members)
        self.register_buffer("threshold", torch.tensor(0.5))
        for name, count in (("match", len(PAIR_SIGNS)), ("change", len(CHANGE_SIGNS)), ("move", len(SIGNS))):
            self.register_buffer(f"{name}_weights", torch.zeros(count + 1))
        # In this order of memory convolutions on a CPU take two thirds of the time.
        self.detector = Detector(len(CLASSES)).to(memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload]
        self.embeddings = nn.ModuleList(FeatureEmbedding() for _ in members).requires_grad_(False)
        self.classifier = ensemble(ChangeClassifier(hidden) for _ in members).requires_grad_(False)
        self.remote: DetectorInterface | None = None

    @property
    def min_confidence(self) -> float:
        """See `Captioner`."""
        return float(self.threshold)

    @torch.no_grad()
    def facts(self, pairs: PairBatch) -> list[Fact]:
        """What may be told of pairs of stills, with its probability; nothing where no cluster is."""
        was_training = self.training
        if was_training:
            self.eval()
        try:
            found = [fact for n, pair in self.observe(pairs) for fact in self.facts_of_pair(pair, n)]
        finally:
            if was_training:
                self.train()
        return found

    def see(self, pictures: Sequence[Tensor], least: float = SETTINGS.seen_score) -> list[Detections]:
        """See `Sighted`."""
        with torch.inference_mode():
            return self._detect([picture.to(self.device) for picture in pictures], least)

    def embed(self, found: Detections) -> Tensor:
        """Unit vectors of detections, those of all embeddings side by side."""
        with torch.inference_mode():
            return self._embedded(found.feature.to(self.device))

    def detect(
        self, images: Sequence[NDArray[np.uint8]], least: float = SETTINGS.seen_score
    ) -> list[Detections]:
        """See `models.detector.Detector`; always by this process."""
        with torch.inference_mode():
            tensors = [torch.from_numpy(image).permute(2, 0, 1).to(self.device) for image in images]
            return detect(self.detector, [each.contiguous() for each in tensors], least)

    def _detect(self, pictures: Sequence[Tensor], least: float = SETTINGS.seen_score) -> list[Detections]:
        if self.remote is None:
            return detect(self.detector, pictures, least)
        images = [each.permute(1, 2, 0).contiguous().cpu().numpy() for each in pictures]
        found = self.remote.detect(images, least)
        return [
            Detections(*(part.to(self.device) for part in (each.box, each.score, each.label, each.feature)))
            for each in found
        ]

    def observe(self, pairs: PairBatch) -> list[tuple[int, ObservedPair]]:
        """The observations of every pair that has clusters, with its number."""
        asked = pairs.valid.any(1).nonzero()[:, 0].tolist()
        views = pairs.views
        if views is None:
            if pairs.before is None or pairs.after is None:
                raise ValueError("a PairBatch for a grounded captioner needs views, or before and after")
            views = tuple(torch.stack([pairs.before, pairs.after], dim=1))
        whole = self._detect([views[b][side] for b in asked for side in (0, 1)])
        tiles = self._tiles(pairs)
        observed = []
        for n, b in enumerate(asked):
            near = tiles.get(b, ([], []))
            found = [merge_tiles(whole[2 * n + side], near[side]) for side in (0, 1)]
            before, after = (observe(views[b][side], found[side]) for side in (0, 1))
            masks, boxes = (each[b][pairs.valid[b]] for each in (pairs.masks, pairs.boxes))
            gap = pairs.active.new_tensor(torch.nan) if pairs.gap_s is None else pairs.gap_s[b]
            images = pairs.images[b] if pairs.images else None
            pair = ObservedPair((before, after), views[b], masks.any(0).float(), boxes, gap, images)
            observed.append((b, pair))
        return observed

    def _tiles(self, pairs: PairBatch) -> dict[int, tuple[list[tuple[Detections, Tensor]], ...]]:
        """Detections in the tiles of each pair, on both sides, with the tiles' windows."""
        if pairs.tiles is None or pairs.tile_windows is None or pairs.tile_pair is None:
            return {}
        found = self._detect(list(pairs.tiles.flatten(0, 1)))
        near: dict[int, tuple[list[tuple[Detections, Tensor]], ...]] = {}
        for t, b in enumerate(pairs.tile_pair.tolist()):
            for side in (0, 1):
                near.setdefault(b, ([], []))[side].append((found[2 * t + side], pairs.tile_windows[t]))
        return near

    def associate(self, pair: ObservedPair) -> Association:
        """The two sides of a pair, each object once, with the signs of each two."""
        observed, change = [], []
        for side in (0, 1):
            own = pair.sides[side]
            rows = (own.score >= SETTINGS.proposed_score).nonzero()[:, 0]
            rows = rows[distinct(own.select(rows))]
            observed.append(own.select(rows))
            change.append(self.classifier(evidence(pair, side)).sigmoid()[rows])
        before, after = observed
        change = [
            torch.where(unreported(*sides), 0.0, own)
            for sides, own in zip(((before, after), (after, before)), change, strict=True)
        ]
        excluded = replaced(pair, before, after)
        least = [excluded.any(axis) * SETTINGS.replaced_change for axis in (1, 0)]
        sides = [
            self._side(own, torch.maximum(p, floor), pair.images[n] if pair.images else None)
            for n, (own, p, floor) in enumerate(zip(observed, change, least, strict=True))
        ]
        gap_s = float(pair.gap_s)
        colours = tuple(_array(each) for each in colour_likeness(before.colours, after.colours))
        pairs = pair_signs(sides[0], sides[1], colours, gap_s)
        return Association((sides[0], sides[1]), pairs, excluded.numpy(force=True), gap_s)

    def _side(self, own: Observations, change: Tensor, image: NDArray[np.uint8] | None) -> Side:
        box, family = _array(own.box), families(own).numpy(force=True)
        appearance = np.zeros((len(box), self.appearance.size if self.appearance else 1))
        people = np.flatnonzero(family == first_of("person"))
        if self.appearance is not None and image is not None and len(people):
            appearance[people] = self.appearance(image, box[people])
        embedding = self._embedded(own.feature)
        score, label, p, vectors = (_array(each) for each in (own.score, own.label, change, embedding))
        return Side(box, score, label, family, p, vectors, appearance)

    def _embedded(self, feature: Tensor) -> Tensor:
        each: list[Tensor] = [embedding(feature) for embedding in self.embeddings]
        together: Tensor = torch.cat(each, dim=1) / len(each) ** 0.5
        return together

    def facts_of_pair(self, pair: ObservedPair, number: int) -> list[Fact]:
        """What may be told of a pair, given its observations."""
        association = self.associate(pair)
        match = association.match(_array(self.match_weights))
        change, move = _array(self.change_weights), _array(self.move_weights)
        before, after = (
            Outcomes(probability(each[:, CHANGE_COLUMNS], change), probability(each, move))
            for each in association.signs(match)
        )
        return decide(
            *association.sides, association.pairs, match, (before, after),
            pair=number, threshold=self.min_confidence,
        )  # fmt: skip

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
        facts = sorted(facts, key=lambda fact: -fact.confidence)  # of two equals the second is another
        odds = [fact.confidence / max(1 - fact.confidence, 1e-4) for fact in facts]
        salience = [each / (1 + sum(odds)) for each in odds]
        said = [statement_of(fact, zones=options.zones, depth=options.depth) for fact in facts]
        sure = [n for n, fact in enumerate(facts) if fact.confidence >= self.min_confidence]
        groups = [
            (m.statement, [sure[k] for k in m.members])
            for m in merge([said[n] for n in sure], [(facts[n].before, facts[n].after) for n in sure])
        ]
        groups += [(said[n], [n]) for n in range(len(facts)) if n not in sure]
        groups.sort(key=lambda group: group[1][0])
        most = options.max_sentences if options.sentences is None else options.sentences
        return [_sentence(s, [facts[n] for n in own], salience[own[0]]) for s, own in groups[:most]]


def _sentence(statement: Statement, facts: Sequence[Fact], salience: float) -> Sentence:
    """The sentence of facts that are told as one; as sure as the least sure of them."""
    before = hull(fact.before for fact in facts)
    after = hull(fact.after for fact in facts)
    return Sentence(
        render(statement),
        facts[0].type,
        statement.object,
        after or before,
        salience=salience,
        confidence=min(fact.confidence for fact in facts),
        count=statement.count,
        before=before,
        after=after,
        statement=statement,
    )


def _array(values: Tensor) -> NDArray[np.float64]:
    return values.numpy(force=True).astype(np.float64)
