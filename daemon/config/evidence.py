"""Which pictures of a camera are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.report.picture import PictureKind

Keep = Literal["all", "frames", "overlay", "none"]
"""Before, after and overlay; the first two; the last; nothing."""


@dataclass(frozen=True, slots=True)
class EvidenceOptions:
    """Which pictures of a camera are kept.

    Attributes:
        keep: which.
        kind: how they are compressed.
        quality: 1..100.
    """

    keep: Keep = "none"
    kind: PictureKind = "jpg"
    quality: int = 85
