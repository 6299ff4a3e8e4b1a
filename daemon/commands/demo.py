"""The verb `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daemon.commands.captioner import CaptionerChoice, CaptionerFile, Device, loaded_captioner
from daemon.commands.outcome import finish


def demo(
    video: Annotated[
        Path | None, typer.Argument(help="A clip; without it OpenCV's vtest.avi is fetched.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report; its narrations are replaced.")] = Path(
        "demo"
    ),
    captioner: CaptionerChoice = None,
    captioner_file: CaptionerFile = None,
    device: Device = "auto",
) -> None:
    """Narrate a clip through an embedded server, printing each narration as it arrives from the stream."""
    from daemon.replay.demo import run_demo  # noqa: PLC0415
    from daemon.replay.footage import demo_clip  # noqa: PLC0415

    if video is not None and not video.is_file():
        raise typer.BadParameter(f"there is no file {video}")
    clip = video or demo_clip()
    typer.echo(f"narrating {clip}", err=True)
    finish(run_demo(clip, loaded_captioner(captioner, captioner_file, device), out), out)
