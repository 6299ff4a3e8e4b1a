"""Evidence for an entrance or a departure in numbers, and the confidence that they give."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf

import numpy as np

from models.boxes import Box
from models.captioner import TrackingWeights
from models.detections import overlaps
from pipeline import settings
from pipeline.tracking.memory import Memory
from pipeline.tracking.motion import moved_box, share_outside, sizes, velocity, whole_box
from pipeline.tracking.types import SIDES, Floats, Track

EVIDENCE = (
    "bias", "best score", "share seen", "trend", "outside in 1.5 s", "speed outwards", "double",
    "class share", "flow",
)  # fmt: skip
"""Names of what `end_evidence` gives."""


@dataclass(frozen=True, slots=True)
class End:
    """The beginning or the end of a track."""

    track: Track  # whose
    coming: bool  # its beginning
    time_s: float  # of the outermost observation
    box: Box  # where, as large as before the frame's edge cut it
    outwards: tuple[float, float]  # velocity beyond the end, frame shares a second (back in time at a begin)
    side: str  # edge of the frame that it lies at or goes to, of `SIDES`
    gap: float  # own sizes from that edge
    speed: float  # own sizes a second towards that edge
    aspect: float  # width of the frame over its height

    @property
    def through_edge(self) -> bool:
        """True where the track led through the frame's edge: it lay there, or would a moment later."""
        return self.gap <= max(settings.AT_EDGE_SIZES, settings.AT_EDGE_S * self.speed)

    @property
    def edge_s(self) -> float:
        """Seconds of its own motion between it and that edge; infinite where it did not go that way."""
        size = float(sizes(np.array([self.box]), self.aspect)[0])
        pace = float(np.hypot(self.outwards[0] * self.aspect, self.outwards[1])) / size
        least = max(settings.HEADED_SHARE * pace, settings.HEADED_SIZES_PER_S)
        return self.gap / self.speed if self.speed >= least else inf

    @property
    def leads_out(self) -> bool:
        """True where its own motion led out of the frame, maybe after a moment in which nobody saw it."""
        return self.edge_s <= settings.HIDDEN_S

    @property
    def way(self) -> str:
        """The side to which (from which) its own motion led; empty where it did not go that way."""
        tall = self.track.family == "person" and self.box[3] > settings.TALL_SHARE
        if not self.through_edge or (tall and self.side == SIDES[2]):
            return ""
        return self.side if self.leads_out else ""

    @property
    def hidden_s(self) -> float:
        """Seconds that it was in the frame beyond this end, hidden by others; 0 in mid-picture."""
        return self.edge_s if self.leads_out and not self.through_edge else 0.0

    def ahead(self, seconds: float) -> Box:
        return moved_box(self.box, self.outwards, seconds)


def end_of(track: Track, *, coming: bool, aspect: float) -> End:
    sign = -1.0 if coming else 1.0
    vx, vy = velocity(track.observations, at_start=coming)
    outwards = sign * vx, sign * vy
    outermost = track.first if coming else track.last
    x, y, w, h = outermost.box
    size = float(sizes(np.array([outermost.box]), aspect)[0])
    gaps = (x * aspect, (1 - x - w) * aspect, y, 1 - y - h)
    speeds = (-outwards[0] * aspect, outwards[0] * aspect, -outwards[1], outwards[1])
    side, gap, speed = min(
        zip(SIDES, gaps, speeds, strict=True),
        key=lambda each: each[1] / size - min(max(each[2] / size, 0.0), 1.0),
    )
    box = whole_box(track.observations, at_start=coming)
    return End(track, coming, outermost.time_s, box, outwards, side, gap / size, speed / size, aspect)


def end_evidence(end: End, tracks: Sequence[Track], memory: Memory, pair: tuple[float, float]) -> Floats:
    """`EVIDENCE` of an end, ``(len(EVIDENCE),)``; `pair` has seconds of the event's own before and after."""
    track = end.track
    observations = track.observations[:30] if end.coming else track.observations[:-31:-1]
    scores = np.array([o.score for o in observations])
    first, last = sorted((observations[-1].time_s, end.time_s))
    frames = max(len(memory.between(first, last)), 1)
    seen = sum(memory.frames[0][0] - 1e-3 <= o.time_s for o in observations)
    half = max(len(scores) // 2, 1)
    there = [t.at(end.time_s) for t in tracks if t is not track and t.family == track.family]
    boxes = np.array([box for box in there if box]).reshape(-1, 4)
    place = track.first.box if end.coming else track.last.box
    return np.array([
        1.0, scores.max(), min(seen / frames, 1.0),
        scores[:half].mean() - scores[half:].mean() if len(scores) > 1 else 0.0,
        share_outside(np.array([end.ahead(1.5)]))[0],
        float(np.clip(end.speed, -3, 3)), float(overlaps(np.array([end.box]), boxes).max(initial=0.0)),
        track.vote()[1],
        memory.flow(place, end.time_s, pair[0] if end.coming else pair[1]),
    ], np.float64)  # fmt: skip


def end_confidence(evidence: Floats, weights: TrackingWeights, *, coming: bool) -> float:
    """Probability 0..1 that an entrance (coming) or a departure is so to a strict reader."""
    return 1 / (1 + exp(-float(evidence @ (weights.entrance if coming else weights.departure))))
