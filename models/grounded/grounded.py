"""The grounded captioner: see both sides, link, classify changes, decide, and say it with templates.

1. `sight`: which objects are on each side, absolutely, by a detector that sees the whole frames and, where
   something small differs, tiles of them.
2. `judge`: whether an object is really there and not the same one at the same place on the other side.
3. `linker`: which object before is which object after, or none.
4. `decisions`: appeared, disappeared or moved, with a calibrated confidence.
5. `models.language`: statements, merged where they are equal, and their sentences.

Detector, linker and judge learn apart, each from what it needs (`train.grounded`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.box_tensors import overlaps
from models.boxes import hull
from models.captioner import Captioner, DescribeOptions, PairBatch, Sentence
from models.detections import Detections
from models.detector import Detector as DetectorInterface
from models.embedding import AppearanceEmbedding
from models.encoders.encoder import Encoder
from models.families import CLASSES
from models.grounded.committee import committee
from models.grounded.decisions import CONFIDENCE, Candidates, decide, distinct, only_ones, replaced
from models.grounded.detector import Detector
from models.grounded.judge import Judge, Sides, evidence
from models.grounded.linker import Linker, ends, links
from models.grounded.settings import SETTINGS
from models.grounded.sight import nearer, seen
from models.language.facts import Fact
from models.language.statements import merge, statement_of
from models.language.templates import Statement, render
from models.language.vocabulary import Vocabulary


class Grounded(Captioner):
    """See the head of this file. The encoder is not looked through; the detector has eyes of its own.

    Attributes:
        remote: detects in place of this process; None detects here.
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
    confidence: Tensor

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        hidden, members = self.options.hidden, range(self.options.members)
        self.register_buffer("calibration", torch.tensor([1.0, 0.0, 0.5]))
        self.register_buffer("confidence", torch.tensor(CONFIDENCE))
        # In this order of memory convolutions on a CPU take two thirds of the time.
        self.detector = Detector(len(CLASSES)).to(memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload]
        self.linker = committee(Linker(hidden) for _ in members).requires_grad_(False)
        self.judge = committee(Judge(hidden) for _ in members).requires_grad_(False)
        self.remote: DetectorInterface | None = None

    @cached_property
    def appearance(self) -> AppearanceEmbedding | None:
        """What the objects of an image look like; None where the checkpoint has no such graph."""
        graph = self.graphs.get("embedding")
        return AppearanceEmbedding(graph) if graph else None

    def fit_confidence(self, slope: float, offset: float, threshold: float = 0.5) -> None:
        """Take the calibration, confidence = sigmoid(slope x logit(decided) + offset), and the threshold."""
        self.calibration.copy_(torch.tensor([slope, offset, threshold]))

    @property
    def min_confidence(self) -> float:
        """See `Captioner`: the threshold that was chosen with the calibration."""
        return float(self.calibration[2])

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

    def see(self, pictures: Sequence[Tensor], least: float = SETTINGS.seen_score) -> list[Detections]:
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

    def detect(
        self, images: Sequence[NDArray[np.uint8]], least: float = SETTINGS.seen_score
    ) -> list[Detections]:
        """See `models.detector.Detector`; always by this process."""
        with torch.inference_mode():
            tensors = [torch.from_numpy(image).permute(2, 0, 1).to(self.device) for image in images]
            return seen(self.detector, [each.contiguous() for each in tensors], least)

    def _seen(self, pictures: Sequence[Tensor], least: float = SETTINGS.seen_score) -> list[Detections]:
        if self.remote is None:
            return seen(self.detector, pictures, least)
        images = [each.permute(1, 2, 0).contiguous().cpu().numpy() for each in pictures]
        found = self.remote.detect(images, least)
        return [
            Detections(*(part.to(self.device) for part in (each.box, each.score, each.label, each.feature)))
            for each in found
        ]

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
        both = []
        for side in (0, 1):
            change = self.judge(evidence(sides, side)).sigmoid()
            kept = sides.ends[side].score >= SETTINGS.proposed_score
            both.append(distinct(Candidates(sides.ends[side], change).select(kept)))
        odds = self.linker(both[0].ends, both[1].ends, sides.gap_s)
        if not float(sides.gap_s) >= SETTINGS.replaced_s:
            beside = overlaps(both[0].ends.box, both[1].ends.box) > SETTINGS.beside
            odds = torch.where(beside, odds, odds + SETTINGS.link_shift)
        other = replaced(sides, both[0].ends, both[1].ends)
        odds = odds.masked_fill(other, -torch.inf)
        for side, own in enumerate(both):
            least = other.any(1 - side) * SETTINGS.replaced_change
            both[side] = replace(own, change=torch.maximum(own.change, least))
        gap = float(sides.gap_s)
        same = links(odds + SETTINGS.lone * only_ones(both[0], both[1], gap))
        slope, offset, _ = self.calibration.tolist()
        weights = self.confidence.tolist()
        facts = decide(both[0], both[1], same, pair=number, gap_s=gap, weights=weights)
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
