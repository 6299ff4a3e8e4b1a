"""The interface of all captioners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from models.embedding import AppearanceEmbedding
from models.label import CheckpointLabel
from models.sentences import DescribeOptions, Outline, Sentence, Sighted
from models.tracking_weights import TrackingWeights

if TYPE_CHECKING:  # it loads torch
    from models.encoders.encoder import Encoder

__all__ = ["Captioner", "DescribeOptions", "Outline", "PairInput", "Sentence", "Sighted"]


@dataclass(frozen=True, slots=True, eq=False)
class PairInput:
    """A frame pair as captioners take it, with K clusters."""

    # uint8 RGB ``(2, h, w, 3)``, before aligned and after, at the captioner's `image_size` or, where it
    # `sees_views`, at a size of their own (see `models.grounded.inference.canvas`)
    views: NDArray[np.uint8]
    masks: NDArray[np.bool_]  # bool ``(K, mask height, mask width)``, the cluster masks
    boxes: NDArray[np.float32]  # float32 ``(K, 4)``, ``x, y, width, height`` in 0..1
    active: NDArray[np.float32]  # float32 ``(K,)``, active pixels as a share 0..1 of the frame
    gap_s: float = float("nan")  # seconds between before and after, NaN where that is not known
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = None  # RGB ``(h, w, 3)``, before not aligned


class Captioner(ABC):
    """Writes the sentences about frame pairs."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Hyperparameters, plain values with defaults, by the names of the constructor's keywords."""

    name: str  # key in `CAPTIONERS`
    image_size: tuple[int, int]  # ``(height, width)`` of the images it takes
    sha256: str  # hex, of the checkpoint file it was loaded from or saved to; empty before that
    record: Mapping[str, Any]  # how it was trained: plain values, kept in the checkpoint
    sees_views: bool = False  # it takes frames of any size, not frames of `image_size`
    appearance: AppearanceEmbedding | None = None  # None where the checkpoint has none
    tracking: TrackingWeights | None = None  # the same; a tracker then takes the packaged ones

    @classmethod
    @abstractmethod
    def of(
        cls,
        label: CheckpointLabel,
        arrays: Mapping[str, NDArray[Any]],
        device: str,
        encoder: Encoder | None = None,
    ) -> Self:
        """The captioner in a checkpoint, of its label and its weights by name.

        None for `encoder` loads the one that the label names. CheckpointError where the weights do not fit,
        or are of another encoder.
        """

    @abstractmethod
    def label(self) -> dict[str, Any]:
        """Its arguments, encoder and vocabulary, for the label of its checkpoint."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]: ...

    @property
    @abstractmethod
    def device(self) -> str: ...

    @abstractmethod
    def cpu_copy(self) -> Captioner:
        """The same on the CPU, which lives on when the device fails."""

    def release_memory(self) -> None:  # noqa: B027 - most hold none
        """Give back what its device's memory holds for later."""

    def unload_if_idle(self) -> None:  # noqa: B027 - most hold nothing that is quickly made again
        """Let go of what was not used since the last call, and is made again where it is needed."""

    @property
    def min_confidence(self) -> float:
        """Least confidence of a sentence, unless the options say otherwise."""
        return 0.0

    def salience(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Ranks ``(K,)`` of clusters by height, width, area and active pixels ``(K, 4)``, in 0..1."""
        return np.zeros(len(features), np.float32)

    @abstractmethod
    def describe(
        self, pairs: Sequence[PairInput], options: DescribeOptions | None = None
    ) -> list[list[Sentence]]:
        """Per pair its sentences, most salient first; none repeats an earlier one about the same place.

        One that nothing changed is left out unless the options want it.
        """
