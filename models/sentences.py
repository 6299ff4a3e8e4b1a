"""Sentences and their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from models.boxes import Box
    from models.detections import Detections
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


@runtime_checkable
class Sighted(Protocol):
    """A captioner that detects objects in single pictures."""

    def see(self, pictures: Sequence[NDArray[np.uint8]], least: float = ...) -> list[Detections]:
        """Detect objects in pictures, uint8 RGB ``(h, w, 3)`` with sides that are multiples of 32."""
        ...

    def embed(self, found: Detections) -> NDArray[np.float32]:
        """Appearance of detections: unit vectors float32 ``(N, E)``."""
        ...
