"""Training length of each part of the grounded captioner; the section `learning` of a configuration."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """Settings of each part's training; the seed is that of the section `training`."""

    detector_steps: int = 1800  # batches of the detector; 0 leaves it as it starts
    detector_batch: int = 16  # pictures of one, about 230,000 pixels each
    detector_rate: float = 2.5e-4  # its largest learning rate
    memory_mb: int = 2500  # decoded pictures are held in so many megabytes
    feature_steps: int = 3000  # batches of the embedding of the detector's features
    classifier_pairs: int = 6000  # pairs of frames from which the change classifier learns
    classifier_steps: int = 3000  # its batches
    members: int = 1  # feature embeddings and classifiers of other seeds, which answer as one
    embedding_steps: int = 400  # batches of the appearance embedding's last layer; 0 leaves it the identity

    def __post_init__(self) -> None:
        if min(astuple(self)[1:-1]) <= 0 or min(self.detector_steps, self.embedding_steps) < 0:
            raise ValueError(
                f"learning options must be positive, steps of detector and embedding or 0: {self}"
            )


@dataclass(frozen=True, slots=True)
class StageOptions:
    steps: int = 1800  # batches
    batch: int = 16  # pictures, or pairs of them, of one
    rate: float = 2.5e-4  # largest learning rate
    warm_up: int = 150  # steps over which the rate rises to it
    average: float = 0.998  # of the weights, the share that stays at each step
    clip: float = 5.0  # largest norm of the gradients
    seed: int = 1  # of what is drawn
