"""One record as one target is sent it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from pathlib import Path
from typing import Any

from daemon.config.forward import PictureChoice
from pipeline.evidence import EvidenceStore
from pipeline.record import Record, RecordSentence

_MOST_BYTES = 10_000_000


@dataclass(frozen=True)
class Message:
    """A record, its sentences and its picture for one target.

    Attributes:
        record: its id is the same at every attempt.
        sentences: those that passed the target's filter.
        picture: its file; None where there is none, or none any more.
        zone: of the times in messages; None is the machine's.
        newest: False where the target was sent something later of the same camera.
    """

    record: Record
    sentences: tuple[RecordSentence, ...]
    picture: Path | None = None
    zone: tzinfo | None = None
    newest: bool = True

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """Values by the names that templates may use; see `template.NAMES`."""
        record = self.record
        return {
            "text": " ".join(s.text for s in self.sentences) or record.text or record.event,
            "camera": record.camera,
            "time": record.after.moment.astimezone(self.zone),
            "event": record.event,
            "sentences": [s.model_dump(mode="json", exclude_none=True) for s in self.sentences],
            "objects": list(dict.fromkeys(s.object for s in self.sentences)),
            "id": record.id,
            "record": record.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    @property
    def picture_type(self) -> str:
        """MIME type of the picture."""
        return "image/webp" if self.picture and self.picture.suffix == ".webp" else "image/jpeg"

    def picture_bytes(self) -> bytes | None:
        """The picture; None where there is none, retention took it, or it is too large to send."""
        try:
            if self.picture is None or self.picture.stat().st_size > _MOST_BYTES:
                return None
            return self.picture.read_bytes()
        except OSError:
            return None


def find_picture(record: Record, store: EvidenceStore, choice: PictureChoice) -> Path | None:
    """The file of the chosen picture, of another one of the same pair, or None."""
    if record.evidence is None or choice == "none":
        return None
    names = (choice, "overlay", "after", "before")
    references = [getattr(record.evidence, name) for name in names]
    return next((path for each in references if each and (path := store.find(each))), None)
