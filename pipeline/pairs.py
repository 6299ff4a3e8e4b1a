"""Candidate pairs: which two frames of a camera are worth comparing."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.sources import Frame


@dataclass(frozen=True, slots=True, eq=False)
class FramePair:
    """Two frames of one camera.

    Attributes:
        before, after: the frames, in time order.
        l2: L2 distance under RGB, root mean square over pixels and channels, 0..255 grey levels.
        beyond_upper: True where the screening distance lay beyond the upper threshold, so that the
            pair may be a scene event (light, view, obstructed) rather than a change of objects.
    """

    before: Frame
    after: Frame
    l2: float
    beyond_upper: bool = False
