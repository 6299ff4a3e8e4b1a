"""The gate: when to look for objects, and when two frames are worth comparing.

While something moves before a camera, and `HOLD_S` longer, every sampled frame is passed on for detection and
tracking. Candidate pairs of `pipeline.pairs` go with them: all of them for a captioner that compares
two frames; for one that tracks objects only those that no track can explain: slow change against the quiet
scene of some minutes ago, what changed while there were no frames, and events of the whole scene.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from pipeline import settings
from pipeline.distance import l2_luma
from pipeline.pairs import FramePair, PairFinder, clock_seconds
from pipeline.sources import Frame, Image, Polygon, seconds_between
from pipeline.sources.frame import without_picture
from pipeline.thresholds import PairThresholds


@dataclass(frozen=True, eq=False)
class MotionFrame:
    """A frame in which to look for objects."""

    frame: Frame
    restart: bool = False  # tracks cannot continue: the scene was cut (another view, the light switched)
    follows_loss: bool = False  # frames right before it were given up, because the machine is too slow
    follows_gap: bool = False  # there was no frame for `GAP_S` before it
    quiet_s: float = 0.0  # for so long before it nothing moved, and the gate was closed

    @cached_property
    def small(self) -> Image:
        """The picture in which to look, RGB uint8 ``(height, width, 3)``, at most `SMALL_WIDTH` wide."""
        return self.frame.picture.small(settings.SMALL_WIDTH)


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """A while without frames of a live camera (camera_down), or between two files (no_footage)."""

    before: Frame
    after: Frame
    reason: str = "camera_down"


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A live camera gives pictures, whether or not anything moves; noted every `SEEN_S`."""

    frame: Frame


Item = MotionFrame | FramePair | Gap | Seen  # messages from a camera's thread to the narrator


class Gate:
    """Says whether something moves before one camera.

    The lower threshold is compared with the largest distance over blocks, the upper with the whole frame's.
    """

    def __init__(self, thresholds: PairThresholds) -> None:
        self.thresholds = thresholds
        self._recent: deque[Frame] = deque()
        self._moved: datetime | None = None
        self.cut = False
        """True where the scene changed entirely with the last frame."""

    def update(self, frame: Frame) -> bool:
        """True where the camera's next frame is to be passed on."""
        self.cut = False
        if self._recent and (
            frame.luma.shape != self._recent[-1].luma.shape or frame.time <= self._recent[-1].time
        ):
            self._recent.clear()
            self._moved, self.cut = None, True
        for earlier in self._references(frame):
            distance, blocks = l2_luma(earlier.luma, frame.luma, settings.SCREENING_BLOCK)
            self.cut = self.cut or (earlier is self._recent[-1] and distance > self.thresholds.upper)
            if blocks.max() > min(self.thresholds.lower, settings.MOTION_LIMIT_LEVELS):
                self._moved = frame.time
                break
        self._recent.append(without_picture(frame))
        while len(self._recent) > 1 and clock_seconds(self._recent[1], frame) >= settings.LOOK_BACK_S[1]:
            self._recent.popleft()
        return self._moved is not None and (frame.time - self._moved).total_seconds() <= settings.HOLD_S

    def _references(self, frame: Frame) -> list[Frame]:
        """Earlier frames to compare with: the last one, and the newest beyond each look-back."""
        references = self._recent and [self._recent[-1]]
        for age_s in settings.LOOK_BACK_S:
            older = [each for each in self._recent if clock_seconds(each, frame) >= age_s]
            references = [*references, *older[-1:]]
        return list(dict.fromkeys(references))


class Slots:
    """Takes the first frame of each slot of so many seconds, counted from the first frame."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._begin: datetime | None = None
        self._slot = -1

    def takes(self, frame: Frame) -> bool:
        """True where a frame is the first of its slot; a clock that goes back restarts the slots."""
        self._begin = self._begin or frame.time
        slot = int(((frame.time - self._begin).total_seconds() + settings.JITTER_S) / self._length_s)
        is_first, self._slot = slot != self._slot, slot
        return is_first


def watch(
    frames: Iterable[Frame],
    thresholds: PairThresholds,
    masks: tuple[Polygon, ...] = (),
    *,
    tracked: bool,
    live: bool = False,
    calibrate: Callable[[Frame], PairThresholds | None] = lambda _: None,
) -> Iterator[Item]:
    """Frames to look at, pairs to compare and gaps, in the order of time.

    The frames are one camera's (else `ValueError`), sampled at the detection rate. With `tracked` frames are
    passed on for tracking, and only the pairs that no track explains. `calibrate` is shown each frame, and
    gives the thresholds from there on, once they are known. `live` yields every `SEEN_S` a `Seen`;
    stills far apart, in footage, have no gaps between them.
    """
    finder = PairFinder(thresholds, masks, changes=not tracked)
    gate = Gate(thresholds)
    preroll: deque[Frame] = deque()
    is_open = has_gap = flows = False
    last: Frame | None = None
    quiet_since: Frame | None = None
    slots = Slots(settings.PAIR_INTERVAL_S)
    notes = Slots(settings.SEEN_S)
    for frame in frames:
        if last and seconds_between(last, frame) >= settings.GAP_S:
            has_gap = True
            if live or flows:
                yield Gap(last, frame, "camera_down" if live else "no_footage")
        flows = last is not None and seconds_between(last, frame) < settings.PAUSE_S
        if live and notes.takes(frame):
            yield Seen(frame)
        if tracked and not (last and 0 < (frame.time - last.time).total_seconds() < settings.PAUSE_S):
            preroll.clear()
            quiet_since = None
        if tracked:
            is_open = gate.update(frame)
            if is_open:
                preroll.append(frame)
                while preroll:
                    quiet_s = clock_seconds(quiet_since, preroll[0]) if quiet_since else 0.0
                    yield MotionFrame(
                        preroll.popleft(),
                        restart=gate.cut and not preroll,
                        follows_gap=has_gap,
                        quiet_s=quiet_s,
                    )
                    has_gap, quiet_since = False, None
            else:
                quiet_since = quiet_since or without_picture(frame)
                _remember(preroll, frame)
        last = frame
        if slots.takes(frame):
            yield from finder.update(frame)
        gate.thresholds = finder.thresholds = calibrate(frame) or gate.thresholds
    yield from finder.finish()


def _remember(preroll: deque[Frame], frame: Frame) -> None:
    """Hold a frame of the quiet scene, two a second: each holds a decoded picture."""
    newest = preroll[-1] if preroll else None
    previous = preroll[-2] if len(preroll) > 1 else None
    if newest and previous and clock_seconds(previous, frame) < settings.PAIR_INTERVAL_S - settings.JITTER_S:
        preroll.pop()
    preroll.append(frame)
    while clock_seconds(preroll[0], frame) > settings.PREROLL_S:
        preroll.popleft()
