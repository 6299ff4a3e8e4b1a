"""A frame whose picture is decoded already."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeline.sources import Clock, Frame, Image
from pipeline.sources.frame import shrink

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Still:
    image: Image

    def rgb(self) -> Image:
        return self.image

    def small(self, width: int) -> Image:
        return shrink(self.image, width)

    def release(self) -> None:
        """It is held as it is."""


def shown(image: Image, second: float = 0.0, camera: str = "yard", **other: Any) -> Frame:
    """The frame of a picture so many seconds after noon, of which one channel is the plane.

    `other` are further fields, or these in another way.
    """
    made = {"camera": camera, "time": NOON + timedelta(seconds=second), "clock": Clock.FILE}
    made |= {"pts": int(1000 * second), "luma": image[..., 0].copy(), "picture": Still(image)}
    return Frame(**made | other)
