"""The interface of all captioners, their sentences and options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from models.checkpoint import DEFAULT, FORMAT, SHIPPED, CheckpointLabel, read_checkpoint, write_labelled

if TYPE_CHECKING:  # reading records must not load NumPy, nor what describes frames torch
    import numpy as np
    from numpy.typing import NDArray

    from models.boxes import Box
    from models.detections import Detections
    from models.embedding import AppearanceEmbedding
    from models.encoders import Encoder
    from models.language.places import Door, Line, Zone
    from models.language.templates import Statement

Outline = tuple[tuple[float, float], ...]  # a closed polygon, ``(x, y)`` in 0..1; empty: unknown


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str  # starts with a capital letter, ends with a full stop
    type: str  # appeared, disappeared, moved, more, fewer, replaced, none or unknown
    object: str  # the class of the first object noun (person, car, ...), or "unknown"
    box: Box | None  # ``(x, y, width, height)`` in 0..1 of the frame; None where the captioner has none
    salience: float  # probability 0..1 under the alignment prior that this cluster is worth a sentence
    confidence: float  # that type and object are right; without perception the words' geometric mean
    count: int = 1  # how many objects; 1 of a captioner that does not count
    # before, after: the object's box on each side; None where it is absent, and both of a captioner
    # without boxes of sides
    before: Box | None = None
    after: Box | None = None
    outline_before: Outline = ()  # the object's outline on each side
    outline_after: Outline = ()
    moment_s: float | None = None  # seconds after the before frame at which it happened; None: unknown
    paths: tuple[tuple[tuple[float, float], ...], ...] = ()  # of each object, ``(x, y)`` 0..1
    statement: Statement | None = None
    action: str = ""  # the event of a track (entered, stopped, ...); empty for a change between two stills
    track: str = ""  # id of the track, unique for its camera; empty where there is none
    since_s: float | None = None  # seconds after before: of the track, or the ended state
    until_s: float | None = None
    since_known: bool = True  # False where it began at `since_s` or earlier
    duration_s: float | None = None  # how long it lasted, or has lasted so far
    same_as: tuple[str, float] | None = None  # an earlier track that may be this, and its probability
    other: str = ""  # the track that it met, got into or out of, or by which it was put down or taken
    english: str = ""  # the text in English, by which questions find it; empty where that is its language


@dataclass(frozen=True, slots=True)
class DescribeOptions:
    """Options by which a captioner chooses and words its sentences."""

    # how many sentences per pair, if the number is given (the paper's T); None chooses by
    # `min_salience` and `min_confidence`
    sentences: int | None = None
    max_sentences: int = 20  # at most this many
    # a cluster is described if its prior is at least this share of the largest; a captioner that
    # detects objects ignores it. The default was best on plain DDLA's validation cameras
    min_salience: float = 0.05
    min_confidence: float | None = None  # least confidence of a sentence; None takes the captioner's own
    zones: tuple[Zone, ...] = ()  # the first that holds an object replaces the place in the picture
    colours: bool = True  # name certain colours
    # near and far ("in the foreground on the left") in place of bottom and top, for cameras that look
    # ahead rather than down
    depth: bool = False
    lines: tuple[Line, ...] = ()  # who crosses one is reported
    doors: tuple[Door, ...] = ()  # that one opens or closes is reported
    no_change: bool = False  # keep sentences that say that nothing changed, for scoring


class PlacedSentence(Protocol):
    """Protocol of a captioner's sentence and a record's; the members are those of `Sentence`."""

    @property
    def type(self) -> str: ...
    @property
    def action(self) -> str | None: ...
    @property
    def object(self) -> str: ...
    @property
    def box(self) -> Box | None: ...
    @property
    def before(self) -> Box | None: ...
    @property
    def after(self) -> Box | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class TrackingWeights:
    """The fitted weights of tracking, logistic regressions: ``tracking.NAME`` in a checkpoint.

    How each was fitted is in the checkpoint's record, under "tracking".
    """

    association: NDArray[
        np.float64
    ]  # ``(12,)``, of the terms of `pipeline.tracking.association.association_odds`
    entrance: NDArray[np.float64]  # ``(9,)``, of `pipeline.tracking.ends.EVIDENCE`
    departure: NDArray[np.float64]  # the same
    same_person: NDArray[np.float64]  # ``(2,)``, of the cosine of two people's embeddings, and the constant

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(*(arrays[f"tracking.{each.name}"] for each in fields(cls)))

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        return {f"tracking.{each.name}": getattr(self, each.name) for each in fields(self)}


@cache
def packaged_tracking() -> TrackingWeights:
    """Of the checkpoint that ships: also for captioners that were adapted before checkpoints held them."""
    return TrackingWeights.of(read_checkpoint(SHIPPED[DEFAULT])[1])


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

    def save(self, path: Path) -> str:
        """Write it to a file, atomically; its sha256. Equal weights and record give equal bytes."""
        label = {"format": FORMAT, "captioner": self.name, "record": self.record, **self.label()}
        self.sha256 = write_labelled(label, self.arrays(), path)
        return self.sha256

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

    def see(self, pictures: Sequence[NDArray[np.uint8]], least: float = 0.05) -> list[Detections]:  # noqa: ARG002
        """Detect objects in pictures, see `models.detections.Detector`; TypeError where it detects none."""
        raise TypeError(f"the captioner {self.name} detects no objects")

    def embed(self, found: Detections) -> NDArray[np.float32]:
        """Appearance of detections: unit vectors float32 ``(N, E)``."""
        return found.feature

    @property
    def min_confidence(self) -> float:
        """Least confidence of a sentence, unless the options say otherwise."""
        return 0.0

    def salience(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Ranks ``(K,)`` of clusters by height, width, area and active pixels ``(K, 4)``, in 0..1."""
        return features[:, 0] * 0

    @abstractmethod
    def describe(
        self, pairs: Sequence[PairInput], options: DescribeOptions | None = None
    ) -> list[list[Sentence]]:
        """Per pair its sentences, most salient first; none repeats an earlier one about the same place.

        One that nothing changed is left out unless the options want it.
        """
