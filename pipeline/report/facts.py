"""What a report says of its footage, beyond the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """For the head of the page.

    Attributes:
        title: what the report is about.
        rows: further facts in plain words as ``(name, value)``, such as the footage.
        starts: time of the first frame by camera, from which offsets and subtitles count; a camera that is
            missing counts from the before frame of its first narration.
        ends: time of the last frame by camera; one that is missing ends with its last narration.
        untold: sentences that were found and not reported, by reason; None where they were not counted.
        gaps: what was not looked at, or not as it should be, one sentence each.
        audit: facts for auditors as ``(name, value)``: settings, models, hashes.
    """

    title: str = "What changed"
    rows: tuple[tuple[str, str], ...] = ()
    starts: Mapping[str, datetime] = field(default_factory=dict)
    ends: Mapping[str, datetime] = field(default_factory=dict)
    untold: Mapping[str, int] | None = None
    gaps: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()
