"""What an export shows of pictures: the box of one track, and nothing in privacy areas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from pipeline.record import Record, RecordSentence
from pipeline.report.card import SIDES
from pipeline.report.picture import decode, encode
from pipeline.sources import Image, Polygon
from pipeline.sources.areas import polygon_mask
from pipeline.sources.picture import PRIVACY_MARGIN

MARGIN = 0.2  # of the box's width and height, on each side
_QUALITY = 90


@dataclass(frozen=True, slots=True)
class Mask:
    track: str = ""  # outside of its box everything is black; empty leaves all
    areas: Mapping[str, Sequence[Polygon]] = field(default_factory=dict)  # privacy areas by camera
    records: Sequence[Record] = ()  # those that say where the track was

    def changes(self, camera: str) -> bool:
        return bool(self.track or self.areas.get(camera))

    def blacken(self, image: Image, camera: str, box: Box | None) -> Image:
        """An RGB image ``(height, width, 3)`` with only the box and its margin left; without a track, all."""
        shape = image.shape[:2]
        if self.track:
            shown = np.zeros_like(image)
            if box:
                _part(shown, box)[:] = _part(image, box)
            image = shown
        if areas := tuple(self.areas.get(camera, ())):
            image = np.where(polygon_mask(areas, shape, PRIVACY_MARGIN)[..., None], np.uint8(0), image)
        return image

    def picture(self, record: Record, side: str, content: bytes) -> bytes | None:
        """A picture of a record as JPEG; None of both sides in one, and of what is no picture."""
        image = decode(content)
        if image is None or side not in SIDES:
            return None
        box = next((getattr(s, side) for s in record.sentences if s.track == self.track), None)
        return encode(self.blacken(image, record.camera, box), _QUALITY)

    def box_at(self, camera: str, moment: datetime) -> Box | None:
        """Where the track was; None where no record says so."""
        for record in self.records:
            for sentence in record.sentences:
                if (
                    record.camera == camera
                    and sentence.track == self.track
                    and (box := _box_at(record, sentence, moment))
                ):
                    return box
        return None


def _part(image: NDArray[Any], box: Box) -> NDArray[Any]:
    (rows, columns), (x, y, width, height) = image.shape[:2], box
    left, right = (min(max(edge, 0.0), 1.0) for edge in (x - MARGIN * width, x + (1 + MARGIN) * width))
    top, bottom = (min(max(edge, 0.0), 1.0) for edge in (y - MARGIN * height, y + (1 + MARGIN) * height))
    return image[round(top * rows) : round(bottom * rows), round(left * columns) : round(right * columns)]


def _box_at(record: Record, sentence: RecordSentence, moment: datetime) -> Box | None:
    """Where a sentence has its track at a moment; its path has a point for each frame that was looked at."""
    first, last = sentence.before or sentence.after, sentence.after or sentence.before
    if first is None or last is None:
        return None
    feet = sentence.paths[0] if sentence.paths else [(b[0] + b[2] / 2, b[1] + b[3]) for b in (first, last)]
    begin, end = record.before.moment, record.after.moment
    seen = timedelta(seconds=(len(feet) - 1) / record.rate_hz if record.rate_hz else 0.0)
    if sentence.before is None:
        begin = max(begin, end - seen)
    elif sentence.after is None:
        end = min(end, begin + seen)
    if not begin <= moment <= end:
        return None
    share = (moment - begin) / (end - begin) if end > begin else 0.0
    width, height = (first[k] + share * (last[k] - first[k]) for k in (2, 3))
    at = np.linspace(0.0, 1.0, len(feet))
    x, y = (float(np.interp(share, at, [point[k] for point in feet])) for k in (0, 1))
    return x - width / 2, y - height, width, height
