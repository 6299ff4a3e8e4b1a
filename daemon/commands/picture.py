"""Pictures that a verb writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pipeline.sources import Image


def write_picture(image: Image, path: Path) -> None:
    """Write an RGB picture in the format that the name's end asks for, PNG without one.

    Raises:
        typer.BadParameter: the end of the name is that of no picture.
    """
    import cv2  # noqa: PLC0415

    try:
        _, encoded = cv2.imencode(path.suffix.lower() or ".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    except cv2.error:
        raise typer.BadParameter(f"--out {path}: end it in .png, .jpg or .webp") from None
    path.write_bytes(encoded.tobytes())
