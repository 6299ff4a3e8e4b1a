"""A picture that is decoded already."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.sources import Image


@dataclass(frozen=True, slots=True, eq=False)
class Still:
    image: Image

    def rgb(self) -> Image:
        return self.image

    def release(self) -> None:
        """It is held as it is."""
