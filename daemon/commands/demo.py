import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from daemon.commands.options import load_chosen_captioner
from daemon.commands.replay import finish
from daemon.commands.serve import serve_page
from daemon.config.settings import ServeSettings
from daemon.replay.demo import demo_clip, run_demo


def demo(
    video: Annotated[Path | None, Argument(help="A clip; by default, download OpenCV's vtest.avi.")] = None,
    *,
    out: Annotated[Path, Option(help="Folder for the report; replaces the narrations in it.")] = Path("demo"),
    serve: Annotated[bool | None, Option(help="Show the page; by default only on a terminal.")] = None,
) -> None:
    """Narrate a clip through an embedded server, print narrations as they arrive, then show the page."""
    shown = sys.stdin.isatty() and sys.stderr.isatty() if serve is None else serve
    if video is not None and not video.is_file():
        raise typer.BadParameter(f"there is no file {video}")
    clip = video or demo_clip()
    typer.echo(f"narrating {clip}", err=True)
    loaded = load_chosen_captioner(None)
    finish(run_demo(clip, loaded, out), out)
    if shown:
        page = ServeSettings.model_validate({"listen": "127.0.0.1:0"})  # a free port
        serve_page(page, None, out)
