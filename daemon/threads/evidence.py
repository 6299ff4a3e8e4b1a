"""The pictures that show what is reported, stored before it is journalled."""

from daemon.config.settings import EvidenceSettings
from pipeline.evidence import EvidenceStore
from pipeline.loop import Faults
from pipeline.narration.narration import Narration
from pipeline.pairs import FramePair
from pipeline.record import Evidence
from pipeline.report.picture import encode, side_by_side
from pipeline.sources import Image

_QUALITY = 85  # of JPEG


class EvidenceKeeper:
    """Stores before, after and the overlay of what is reported; for one thread, but its counts for all.

    A disk that is full or fails costs the pictures, never the narration.
    """

    def __init__(self, store: EvidenceStore) -> None:
        self.store = store
        self.kept = self.failed = 0
        self.errors = Faults()

    def keep(self, narration: Narration, pair: FramePair, settings: EvidenceSettings) -> Evidence | None:
        if settings.keep == "none":
            return None
        before, after = pair.before.image, pair.after.image
        pictures = dict[str, Image]()
        if settings.keep in {"all", "frames"}:
            pictures |= {"before": before, "after": after}
        if settings.keep in {"all", "overlay"}:
            pictures["overlay"] = side_by_side(before, after, narration.sentences)
        stored = dict[str, str]()
        with self.errors.noted("", "pictures cannot be stored; narrations continue without them", OSError):
            for side, image in pictures.items():
                stored[side] = self.store.put(encode(image, _QUALITY), "jpg")
        if len(stored) < len(pictures):
            self.failed += 1
            return None
        self.kept += 1
        return Evidence(**stored)
