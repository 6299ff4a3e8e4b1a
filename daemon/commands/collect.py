from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from daemon.collect.collector import Collector, PictureFetcher, PictureSource
from daemon.commands.options import SOME_FAILED, Cameras, warn
from daemon.config.secrets import reveal
from daemon.service.process import running_as_service, start_logging
from pipeline.evidence import EvidenceStore
from pipeline.journal import DAILY
from pipeline.publisher import RedisServer

ANSWER_S = 5.0  # longest wait for the server's answer
GRACE_S = 15.0  # longest wait for the picture in hand


def collect(
    *,
    redis: Annotated[str, Option(help="Redis URL of the streams; secrets as ${env:NAME}.")],
    out: Annotated[Path, Option("-o", "--out", help="Folder to write journals and pictures to.")],
    camera: Cameras = None,
    pictures: Annotated[list[str] | None, Option(help="Page that serves their pictures; repeatable.")] = None,
    once: Annotated[bool, Option("--once", help="Stop when everything is collected.")] = False,
) -> None:
    """Copy the journals of all daemons from their streams, until SIGTERM or Ctrl-C."""
    reveal(redis)
    try:
        sources = [PictureSource(reveal(url)) for url in pictures or []]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--pictures") from None
    start_logging()
    journals = out / "journal"
    fetcher = PictureFetcher(EvidenceStore(out / "evidence"), sources)
    server = RedisServer(lambda: reveal(redis), ANSWER_S)
    collector = Collector(journals, DAILY, server, fetcher.want, cameras=camera or None)
    with closing(server), running_as_service("collecting") as (stop, watch):

        def progress() -> None:
            fetcher.loop.raise_error()
            watch.progress(f"{collector.status}; {fetcher.wanted} pictures wanted", healthy=True)

        fetcher.want_missing(journals)
        if not once:
            fetcher.loop.start()
        try:
            collector.run(stop, progress, once=once)
            if once:
                fetcher.fetch_wanted()
        finally:
            fetcher.loop.end(GRACE_S)
    missing = fetcher.missing + fetcher.wanted
    typer.echo(f"{collector.status}; {fetcher.fetched} pictures fetched, {missing} missing", err=True)
    for name in collector.absent:
        warn(f"camera {name} has no stream at {server.name}: check --camera")
    if collector.troubles or fetcher.wanted or (once and (missing or collector.absent)):
        raise typer.Exit(SOME_FAILED)
