"""The command `narrated-train attend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import Device, say


def attend(
    *,
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint of an idc-pcl captioner.")],
    before: Annotated[Path, typer.Option(help="Image file of the before frame.")],
    after: Annotated[Path, typer.Option(help="Image file of the after frame.")],
    out: Annotated[Path, typer.Option(help="Picture to write (.png).")],
    sentence: Annotated[
        str | None, typer.Option(help="What is said; by default what it says itself.")
    ] = None,
    device: Device = "cpu",
) -> None:
    """Draw where a captioner looks in both frames while it says each word."""
    from models import load_captioner  # noqa: PLC0415
    from train.papers.attention_pictures import attention_picture  # noqa: PLC0415
    from train.samples import write_image  # noqa: PLC0415

    said, picture = attention_picture(load_captioner(checkpoint, device), before, after, sentence)
    write_image(out, picture)
    say(f"{out}: {said}")
