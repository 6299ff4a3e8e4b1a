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
from models.captioner import Captioner, DescribeOptions, PairInput, Sentence, TrackingWeights
from models.checkpoint import CheckpointError, CheckpointLabel
from models.detections import LEAST, Detections, Detector
from models.embedding import AppearanceEmbedding
from models.families import first_of
from models.grounded.association import CHANGE_COLUMNS, Association, Floats, Side, associate, probability
from models.grounded.decisions import Fact, decide, distinct, merge, statement_of
from models.grounded.inference import OnnxDetector
from models.grounded.observations import (
    ChangeClassifier,
    FeatureEmbedding,
    ObservedPair,
    colour_histograms,
    evidence,
)
from models.grounded.settings import SETTINGS
from models.language.catalogue import in_english
from models.language.templates import Statement, render

if TYPE_CHECKING:  # it loads torch
    from models.encoders import Encoder

_GRAPH = "graph."
_REGRESSIONS = ("match", "change", "move")
_NO_ENCODER = {"name": "none", "sha256": hashlib.sha256().hexdigest()}


@dataclass(slots=True, eq=False)
class Weights:
    threshold: float  # confidence from which facts are reported
    # of the logistic regressions of `models.grounded.association`, the constant last
    match: Floats
    change: Floats
    move: Floats
    classifier: ChangeClassifier
    embedding: FeatureEmbedding  # of the detector's features
    tracking: TrackingWeights | None = None

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Weights:
        match, change, move = (arrays[f"{name}_weights"].astype(np.float64) for name in _REGRESSIONS)
        embedding = (arrays[f"embedding.{name}"].astype(np.float64) for name in ("weight", "bias"))
        part = "classifier."
        own = {name.removeprefix(part): each for name, each in arrays.items() if name.startswith(part)}
        parts = ChangeClassifier.of(own), FeatureEmbedding(*embedding)
        tracking = TrackingWeights.of(arrays) if "tracking.entrance" in arrays else None
        return cls(float(arrays["threshold"]), match, change, move, *parts, tracking)

    def arrays(self) -> dict[str, NDArray[Any]]:
        found = {
            "threshold": np.array(self.threshold),
            **{f"{name}_weights": getattr(self, name) for name in _REGRESSIONS},
            "embedding.weight": self.embedding.weight,
            "embedding.bias": self.embedding.bias,
            **{f"classifier.{name}": each for name, each in self.classifier.arrays().items()},
        }
        tracking = self.tracking.arrays() if self.tracking else {}
        return {**{name: each.astype(np.float32) for name, each in found.items()}, **tracking}


class Grounded(Captioner):
    """See the head of this file. `graphs` are ONNX: "detector", and "embedding" for the appearance embedding.

    `remote` detects in place of this process's `detector`.
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
        return {"arguments": {}, "encoder": _NO_ENCODER, "vocabulary": ()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        graphs = {_GRAPH + name: np.frombuffer(graph, np.uint8) for name, graph in self.graphs.items()}
        return {**self.weights.arrays(), **graphs}

    def take_detector(self, graph: bytes) -> None:
        self.graphs["detector"], self.detector = graph, detector_on(self._device, graph)

    @property
    def device(self) -> str:
        return self._device

    def cpu_copy(self) -> Grounded:
        copied = Grounded(self.weights, self.graphs)
        copied.sha256, copied.record = self.sha256, self.record
        return copied

    def release_memory(self) -> None:
        if self._device != "cpu":
            import torch  # noqa: PLC0415 - only where it is used already

            torch.cuda.empty_cache()

    def unload_if_idle(self) -> None:
        if isinstance(self.detector, OnnxDetector):
            self.detector.unload_if_idle()

    @cached_property
    def appearance(self) -> AppearanceEmbedding | None:  # type: ignore[override]
        graph = self.graphs.get("embedding")
        return AppearanceEmbedding(graph) if graph else None

    @property
    def tracking(self) -> TrackingWeights | None:  # type: ignore[override]
        return self.weights.tracking

    @property
    def min_confidence(self) -> float:
        return self.weights.threshold

    def see(self, pictures: Sequence[NDArray[np.uint8]], least: float = LEAST) -> list[Detections]:
        return (self.remote or self.detector).detect(pictures, least)

    def embed(self, found: Detections) -> NDArray[np.float32]:
        """Unit vectors of detections, those of all embeddings side by side."""
        return self.weights.embedding(found.feature)

    def detect(self, images: Sequence[NDArray[np.uint8]], least: float = LEAST) -> list[Detections]:
        """See `models.detections.Detector`; always by this process."""
        return self.detector.detect(images, least)

    def observe(self, pairs: Sequence[PairInput]) -> list[ObservedPair | None]:
        """The observations of each pair; None where there is no cluster."""
        views = [view for pair in pairs if len(pair.boxes) for view in pair.views]
        found = (
            replace(own, colours=colour_histograms(view, own.box))
            for own, view in zip(self.see(views), views, strict=True)
        )
        return [ObservedPair(p, (next(found), next(found))) if len(p.boxes) else None for p in pairs]

    def associate(self, observed: ObservedPair) -> Association:
        """The two sides of a pair, each object once, with the signs of each two."""
        before, after = (self._side(observed, side) for side in (0, 1))
        return associate(before, after, observed.pair.gap_s)

    def _side(self, observed: ObservedPair, side: int) -> Side:
        every, images = observed.sides[side], observed.pair.images
        change = self.weights.classifier(evidence(observed, side))
        ground = (every.box[:, 2] >= SETTINGS.ground_width) & (change < SETTINGS.ground_change)
        rows = np.flatnonzero((every.score >= SETTINGS.proposed_score) & ~ground)
        rows = rows[distinct(every.select(rows))]
        own, change = every.select(rows), change[rows]
        appearance = np.zeros((len(own.box), self.appearance.size if self.appearance else 1))
        people = np.flatnonzero(own.family == first_of("person"))
        if self.appearance is not None and images and len(people):
            appearance[people] = self.appearance(images[side], own.box[people])
        box, score, label, vectors = (
            each.astype(np.float64) for each in (own.box, own.score, own.label, self.embed(own))
        )
        return Side(box, score, label, own.family, change, vectors, appearance, own.colours)

    def facts(self, pairs: Sequence[PairInput]) -> list[list[Fact]]:
        """Facts about each pair of stills with their probabilities; none where there is no cluster."""
        return [self._facts(observed) if observed else [] for observed in self.observe(pairs)]

    def _facts(self, observed: ObservedPair) -> list[Fact]:
        association = self.associate(observed)
        match = association.match(self.weights.match)
        before, after = association.outcome_signs(match)
        columns, change, move = CHANGE_COLUMNS, self.weights.change, self.weights.move
        return decide(
            association,
            match,
            (probability(before[:, columns], change), probability(after[:, columns], change)),
            (probability(before, move), probability(after, move)),
            threshold=self.min_confidence,
        )

    def describe(
        self, pairs: Sequence[PairInput], options: DescribeOptions | None = None
    ) -> list[list[Sentence]]:
        """See `Captioner`; confidence decides unless the number of sentences is given."""
        options = options or DescribeOptions()
        return [self.word(facts, options) for facts in self.facts(pairs)]

    def word(self, facts: Sequence[Fact], options: DescribeOptions) -> list[Sentence]:
        """Sentences for facts about one pair, whatever found them, by falling salience."""
        least = self.min_confidence if options.min_confidence is None else options.min_confidence
        if options.sentences is None:
            facts = [fact for fact in facts if fact.confidence >= least]
        facts = sorted(facts, key=lambda fact: -fact.confidence)  # of two equals the second is another
        odds = [fact.confidence / max(1 - fact.confidence, 1e-4) for fact in facts]
        salience = [each / (1 + sum(odds)) for each in odds]
        said = [statement_of(fact, zones=options.zones, depth=options.depth) for fact in facts]
        sure = [n for n, fact in enumerate(facts) if fact.confidence >= self.min_confidence]
        groups = [
            (statement, [sure[k] for k in members])
            for statement, members in merge(
                [said[n] for n in sure],
                [(facts[n].before, facts[n].after) for n in sure],
                [facts[n].others_there(options.zones, depth=options.depth) for n in sure],
            )
        ]
        groups += [(said[n], [n]) for n in range(len(facts)) if n not in sure]
        groups.sort(key=lambda group: group[1][0])
        most = options.max_sentences if options.sentences is None else options.sentences
        return [_sentence(s, [facts[n] for n in own], salience[own[0]]) for s, own in groups[:most]]


def _sentence(statement: Statement, facts: Sequence[Fact], salience: float) -> Sentence:
    """The sentence of facts that are reported as one; as sure as the least sure of them."""
    before = hull(fact.before for fact in facts)
    after = hull(fact.after for fact in facts)
    return Sentence(
        render(statement),
        facts[0].type,
        statement.object,
        hull(fact.after or fact.before for fact in facts),
        salience=salience,
        confidence=min(fact.confidence for fact in facts),
        count=statement.count,
        before=before,
        after=after,
        statement=statement,
        english=in_english(render, statement),
    )


def detector_on(device: str, graph: bytes) -> Detector:
    if device == "cpu":
        return OnnxDetector(graph)
    from models.grounded.detector import TorchDetector, detector_of  # noqa: PLC0415 - loads torch

    return TorchDetector(detector_of(graph), device)
