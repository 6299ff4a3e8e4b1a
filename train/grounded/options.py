"""Training options of the grounded captioner's parts: the section `learning` of a configuration."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """Training options of the parts; the seed is that of the section `training`.

    Attributes:
        detector_steps: batches of the detector; 0 leaves it as it starts.
        detector_batch: pictures of one, about 230,000 pixels each.
        detector_rate: its largest learning rate.
        memory_mb: decoded pictures are held in so many megabytes.
        feature_steps: batches of the embedding of the detector's features.
        classifier_pairs: pairs of frames from which the change classifier learns.
        classifier_steps: its batches.
        embedding_steps: batches of the appearance embedding's last layer; 0 leaves it the identity.
        members: feature embeddings and classifiers of other seeds, which answer as one.
    """

    detector_steps: int = 1800
    detector_batch: int = 16
    detector_rate: float = 2.5e-4
    memory_mb: int = 2500
    feature_steps: int = 3000
    classifier_pairs: int = 6000
    classifier_steps: int = 3000
    members: int = 1
    embedding_steps: int = 400

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if min(astuple(self)[1:-1]) <= 0 or min(self.detector_steps, self.embedding_steps) < 0:
            raise ValueError(
                f"learning options must be positive, steps of detector and embedding or 0: {self}"
            )


@dataclass(frozen=True, slots=True)
class StageOptions:
    """Training options of one network.

    Attributes:
        steps: batches.
        batch: pictures, or pairs of them, of one.
        rate: largest learning rate.
        warm_up: steps over which the rate rises to it.
        average: of the weights, the share that stays at each step.
        clip: largest norm of the gradients.
        seed: of what is drawn.
    """

    steps: int = 1800
    batch: int = 16
    rate: float = 2.5e-4
    warm_up: int = 150
    average: float = 0.998
    clip: float = 5.0
    seed: int = 1
