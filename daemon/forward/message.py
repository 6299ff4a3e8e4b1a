"""One narration as one target is sent it."""

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
_INSTEAD = {
    "overlay": ("overlay", "after", "before"),
    "after": ("after", "overlay", "before"),
    "before": ("before", "overlay", "after"),
    "none": (),
}


@dataclass(frozen=True)
class Message:
    """What a target sends.

    Attributes:
        record: what was narrated; its id is the same at every attempt.
        sentences: those that passed the target's filter.
        picture: file of the picture; None where there is none, or none any more.
        zone: in which local times are told; None is the machine's.
        newest: False where the target has been sent something later of the same camera: what is shown as the
            last must stay.
    """

    record: Record
    sentences: tuple[RecordSentence, ...]
    picture: Path | None = None
    zone: tzinfo | None = None
    newest: bool = True

    @property
    def text(self) -> str:
        """The sentences in one line; what the record says where it has none."""
        return " ".join(s.text for s in self.sentences) or self.record.text or self.record.event

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """What templates may name; see `template.NAMES`."""
        record = self.record
        return {
            "text": self.text,
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
        """The picture; None where there is none, it went with its record, or nobody would take it."""
        try:
            if self.picture is None or self.picture.stat().st_size > _MOST_BYTES:
                return None
            return self.picture.read_bytes()
        except OSError:
            return None


def picture_of(record: Record, store: EvidenceStore, choice: PictureChoice) -> Path | None:
    """The file of the picture that is wanted, of another one of the same pair, or None."""
    for name in _INSTEAD[choice] if record.evidence else ():
        reference = getattr(record.evidence, name)
        if reference and (path := store.find(reference)):
            return path
    return None
