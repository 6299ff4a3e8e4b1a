"""The grounded captioner: detect on both sides, classify changes, associate, decide, word with templates.

1. `inference`: which objects are on each side.
2. `change_classifier`: whether an object is really there and not the same one at the same place on the other
   side.
3. `association`: which observation before is which after, and what became of each.
4. `decisions`: appeared, disappeared or moved, with a probability.
5. `models.language`: statements, merged where they are equal, and their sentences.

Each part is trained by itself (`train.grounded`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from models.boxes import hull
from models.captioner import Captioner, DescribeOptions, PairInput, Sentence
from models.detections import Detections, Detector
from models.embedding import AppearanceEmbedding
from models.families import first_of
from models.grounded.association import (
    CHANGE_COLUMNS,
    Floats,
    PairSigns,
    Side,
    match_probabilities,
    pair_signs,
    probability,
    signs,
)
from models.grounded.change_classifier import ChangeClassifier, ObservedPair, evidence
from models.grounded.decisions import Outcomes, decide, distinct
from models.grounded.inference import OnnxDetector
from models.grounded.observations import FeatureEmbedding, colour_histograms, colour_likeness
from models.grounded.settings import SETTINGS
from models.label import CheckpointError, CheckpointLabel
from models.language.statements import Fact, merge, statement_of
from models.language.templates import Statement, render

if TYPE_CHECKING:  # it loads torch
    from models.encoders.encoder import Encoder

_GRAPH = "graph."
_NO_ENCODER = {"name": "none", "sha256": hashlib.sha256().hexdigest()}


@dataclass(frozen=True, slots=True, eq=False)
class Association:
    """Two sides, associated.

    Attributes:
        sides: before, S observations, and after, T.
        pairs: signs of each two.
        gap_s: seconds between the stills, NaN where that is not known.
    """

    sides: tuple[Side, Side]
    pairs: PairSigns
    gap_s: float

    def match(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `match_probabilities`."""
        return match_probabilities(self.pairs, weights)

    def signs(self, match: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `models.grounded.association.signs`, of both sides."""
        before, after = self.sides
        return (
            signs(before, after, self.pairs, match, self.gap_s),
            signs(after, before, self.pairs.transpose(), match.T, self.gap_s),
        )


@dataclass(slots=True, eq=False)
class Weights:
    """The trained weights, besides the graphs.

    Attributes:
        threshold: confidence from which facts are told.
        match, change, move: of the logistic regressions of `models.grounded.association`, the constant last.
        classifier: see there.
        embedding: of the detector's features.
    """

    threshold: float
    match: Floats
    change: Floats
    move: Floats
    classifier: ChangeClassifier
    embedding: FeatureEmbedding

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Weights:
        """From what `arrays` gave.

        Raises:
            KeyError: something is missing.
        """
        match, change, move, weight, bias = (
            arrays[name].astype(np.float64)
            for name in (
                "match_weights",
                "change_weights",
                "move_weights",
                "embedding.weight",
                "embedding.bias",
            )
        )
        part = "classifier."
        own = {name.removeprefix(part): each for name, each in arrays.items() if name.startswith(part)}
        embedding = FeatureEmbedding(weight, bias)
        return cls(float(arrays["threshold"]), match, change, move, ChangeClassifier.of(own), embedding)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The arrays of a checkpoint, by name."""
        found = {
            "threshold": np.array(self.threshold),
            "match_weights": self.match,
            "change_weights": self.change,
            "move_weights": self.move,
            "embedding.weight": self.embedding.weight,
            "embedding.bias": self.embedding.bias,
            **{f"classifier.{name}": each for name, each in self.classifier.arrays().items()},
        }
        return {name: each.astype(np.float32) for name, each in found.items()}


class Grounded(Captioner):
    """See the head of this file.

    Attributes:
        weights: what training found.
        graphs: ONNX by name: "detector", and "embedding" for the appearance embedding.
        detector: of this process.
        remote: detects in place of this process; None detects here.
    """

    name = "grounded"
    image_size = (288, 384)
    sees_views = True

    def __init__(self, weights: Weights, graphs: Mapping[str, bytes], device: str = "cpu") -> None:
        self.weights, self.graphs, self._device = weights, dict(graphs), device
        self.detector = detector_on(device, self.graphs["detector"])
        self.remote: Detector | None = None
        self.sha256 = ""
        self.record: Mapping[str, Any] = {}

    @classmethod
    def of(
        cls,
        label: CheckpointLabel,
        arrays: Mapping[str, NDArray[Any]],
        device: str,
        encoder: Encoder | None = None,  # noqa: ARG003 - the detector has its own backbone
    ) -> Self:
        """See `Captioner`."""
        graphs = {name.removeprefix(_GRAPH): each for name, each in arrays.items() if name.startswith(_GRAPH)}
        try:
            weights = Weights.of(arrays)
            return cls(weights, {name: each.tobytes() for name, each in graphs.items()}, device)
        except KeyError as error:
            raise CheckpointError(
                f"it has no {error}, and is of format {label.format}: train it again, or install the "
                "version it is from"
            ) from error

    def label(self) -> dict[str, Any]:
        """See `Captioner`."""
        return {"arguments": {}, "encoder": _NO_ENCODER, "vocabulary": ()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Captioner`."""
        graphs = {_GRAPH + name: np.frombuffer(graph, np.uint8) for name, graph in self.graphs.items()}
        return {**self.weights.arrays(), **graphs}

    def take_detector(self, graph: bytes) -> None:
        """Detect with another graph from now on."""
        self.graphs["detector"], self.detector = graph, detector_on(self._device, graph)

    @property
    def device(self) -> str:
        """See `Captioner`."""
        return self._device

    def cpu_copy(self) -> Grounded:
        """See `Captioner`."""
        copied = Grounded(self.weights, self.graphs)
        copied.sha256, copied.record = self.sha256, self.record
        return copied

    def release_memory(self) -> None:
        """See `Captioner`."""
        if self._device != "cpu":
            import torch  # noqa: PLC0415 - only where it is used already

            torch.cuda.empty_cache()

    @cached_property
    def appearance(self) -> AppearanceEmbedding | None:  # type: ignore[override]
        """See `Captioner`."""
        graph = self.graphs.get("embedding")
        return AppearanceEmbedding(graph) if graph else None

    @property
    def min_confidence(self) -> float:
        """See `Captioner`."""
        return self.weights.threshold

    def facts(self, pairs: Sequence[PairInput]) -> list[Fact]:
        """Facts about pairs of stills with their probabilities; none where there is no cluster."""
        return [fact for n, pair in self.observe(pairs) for fact in self.facts_of_pair(pair, n)]

    def see(
        self, pictures: Sequence[NDArray[np.uint8]], least: float = SETTINGS.seen_score
    ) -> list[Detections]:
        """See `Sighted`."""
        return (self.remote or self.detector).detect(pictures, least)

    def embed(self, found: Detections) -> NDArray[np.float32]:
        """Unit vectors of detections, those of all embeddings side by side."""
        return self.weights.embedding(found.feature)

    def detect(
        self, images: Sequence[NDArray[np.uint8]], least: float = SETTINGS.seen_score
    ) -> list[Detections]:
        """See `models.detections.Detector`; always by this process."""
        return self.detector.detect(images, least)

    def observe(self, pairs: Sequence[PairInput]) -> list[tuple[int, ObservedPair]]:
        """The observations of every pair that has clusters, with its number."""
        asked = [(b, pair) for b, pair in enumerate(pairs) if len(pair.boxes)]
        found = iter(self.see([view for _, pair in asked for view in pair.views]))
        observed = []
        for b, pair in asked:
            sides = [
                replace(own, colours=colour_histograms(view, own.box))
                for own, view in zip((next(found), next(found)), pair.views, strict=True)
            ]
            changed = np.asarray(pair.masks.any(0), np.float32)
            both = sides[0], sides[1]
            observed.append((b, ObservedPair(both, pair.views, changed, pair.boxes, pair.gap_s, pair.images)))
        return observed

    def associate(self, pair: ObservedPair) -> Association:
        """The two sides of a pair, each object once, with the signs of each two."""
        observed, change = [], []
        for side in (0, 1):
            own = pair.sides[side]
            rows = np.flatnonzero(own.score >= SETTINGS.proposed_score)
            rows = rows[distinct(own.select(rows))]
            observed.append(own.select(rows))
            change.append(self.weights.classifier(evidence(pair, side))[rows])
        before, after = observed
        sides = [
            self._side(own, p, pair.images[n] if pair.images else None)
            for n, (own, p) in enumerate(zip(observed, change, strict=True))
        ]
        pairs = pair_signs(sides[0], sides[1], colour_likeness(before.colours, after.colours), pair.gap_s)
        return Association((sides[0], sides[1]), pairs, pair.gap_s)

    def _side(self, own: Detections, change: Floats, image: NDArray[np.uint8] | None) -> Side:
        appearance = np.zeros((len(own.box), self.appearance.size if self.appearance else 1))
        people = np.flatnonzero(own.family == first_of("person"))
        if self.appearance is not None and image is not None and len(people):
            appearance[people] = self.appearance(image, own.box[people])
        box, score, label, vectors = (
            each.astype(np.float64)
            for each in (own.box, own.score, own.label, self.weights.embedding(own.feature))
        )
        return Side(box, score, label, own.family, change, vectors, appearance)

    def facts_of_pair(self, pair: ObservedPair, number: int) -> list[Fact]:
        """Facts about a pair, given its observations."""
        association = self.associate(pair)
        match, change, move = association.match(self.weights.match), self.weights.change, self.weights.move
        before, after = (
            Outcomes(probability(each[:, CHANGE_COLUMNS], change), probability(each, move))
            for each in association.signs(match)
        )
        return decide(
            *association.sides, association.pairs, match, (before, after),
            pair=number, threshold=self.min_confidence,
        )  # fmt: skip

    def describe(
        self, pairs: Sequence[PairInput], options: DescribeOptions | None = None
    ) -> list[list[Sentence]]:
        """See `Captioner`; confidence decides unless the number of sentences is given."""
        return self.tell(self.facts(pairs), len(pairs), options)

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
                sentences[b] = self._sentences(own, options)
        return sentences

    def _sentences(self, facts: list[Fact], options: DescribeOptions) -> list[Sentence]:
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


def detector_on(device: str, graph: bytes) -> Detector:
    """The detector of an ONNX graph, on a CPU or a GPU."""
    if device == "cpu":
        return OnnxDetector(graph)
    from models.grounded.detector import TorchDetector, detector_of  # noqa: PLC0415 - loads torch

    return TorchDetector(detector_of(graph), device)
