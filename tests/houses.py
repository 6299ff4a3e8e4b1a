"""A state folder with narrations and pictures, filled journal by journal."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from narrations import narration

from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal, SegmentLimits
from pipeline.record import Evidence, Record

MIDNIGHT = datetime(2024, 5, 1, tzinfo=UTC)
BOX = (0.4, 0.2, 0.2, 0.5)


def identity(camera: str, second: float) -> str:
    """As `pipeline.narration` makes them."""
    moment = MIDNIGHT + timedelta(seconds=second)
    digest = f"{abs(hash((camera, second))):012x}"[:12]
    return f"{camera}-{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z-{digest}"


def said(text: str, kind: str = "appeared", thing: str = "person", **more: Any) -> Sentence:
    sides = {"appeared": {"after": BOX}, "disappeared": {"before": BOX}}.get(kind, {})
    return Sentence(text, kind, thing, BOX, 0.7, more.pop("confidence", 0.9), **{**sides, **more})


@dataclass
class House:
    """Records and journals by camera; `folder` is that of the journals."""

    state: Path
    limits: SegmentLimits | None = None
    records: dict[str, list[Record]] = field(default_factory=dict)
    journals: dict[str, Journal] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.state / "journal"

    def tell(self, second: float, *sentences: Sentence, camera: str = "yard", **changed: Any) -> Record:
        if camera not in self.journals:
            limits = {"limits": self.limits} if self.limits else {}
            self.journals[camera] = Journal(self.folder, camera, fsync=False, **limits)
        evidence = changed.pop("evidence", None)
        told = {"sentences": sentences} if sentences else {}
        made = narration(second, camera, **{"id": identity(camera, second), **told, **changed})
        record = self.journals[camera].append(made, evidence=evidence)
        self.records.setdefault(camera, []).append(record)
        return record

    def pictures(self, shade: int = 0) -> Evidence:
        """A pair that differs by a bright thing."""
        before = np.full((120, 160, 3), 70 + shade, np.uint8)
        after = before.copy()
        after[24:84, 64:96] = (200, 120, 60)
        store = EvidenceStore(self.state / "evidence", fsync=False)
        jpegs = (bytes(cv2.imencode(".jpg", image)[1]) for image in (before, after))
        return Evidence(**dict(zip(("before", "after"), (store.put(j, "jpg") for j in jpegs), strict=True)))

    def close(self) -> None:
        for journal in self.journals.values():
            journal.close()
