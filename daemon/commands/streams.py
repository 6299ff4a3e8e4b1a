"""The verbs that speak to a Redis server; each loads its own work when it is called."""

import json as json_format
import logging
import sys
from contextlib import closing
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from daemon.commands import options
from daemon.config.secrets import reveal
from daemon.service.process import Signals, running_as_service, start_logging, time_line
from pipeline.report.words import many

DEFAULT_SERVER = "redis://localhost:6379"
ANSWER_S = 5.0  # longest wait of a collector for the server's answer
GRACE_S = 15.0  # longest wait for the picture in hand
BATCH = {"cpu": 1, "cuda": 16}  # requests detected in together; a processor gains nothing from more

logger = logging.getLogger(__name__)


def tail(
    *,
    redis: options.Server = None,
    config: options.OptionalFile = None,
    camera: options.Cameras = None,
    from_start: Annotated[bool, Option("--from-start", help="Begin with what the stream holds.")] = False,
    count: Annotated[int | None, Option(min=1, help="Stop after this many narrations.")] = None,
    json: options.Json = False,
    schema: Annotated[bool, Option("--schema", help="Print the JSON Schema of a record and exit.")] = False,
) -> None:
    """Print narrations as they arrive on the stream, except those beyond a limit, until Ctrl-C."""
    if schema:
        from pipeline.record import json_schema  # noqa: PLC0415

        typer.echo(json_format.dumps(json_schema(), indent=2))
        return
    if config and not redis:
        from daemon.config.configuration import load_configuration  # noqa: PLC0415 - half of the time to start

        configuration = load_configuration(config)
        redis = configuration.redis.url
        for name in {*(camera or ())} - {*configuration.cameras}:
            options.warn(f"no camera is called {name!r} in {config}: {', '.join(configuration.cameras)}")
    from pipeline.publisher import subscribe  # noqa: PLC0415

    url, begin = reveal(redis or DEFAULT_SERVER), "0" if from_start else "$"
    with Signals() as signals:
        records = subscribe(url, camera or None, begin, signals.stop)
        for record in islice((each for each in records if not each.held), count):
            line = time_line(record.after.time, record.text, record.camera)
            sys.stdout.write((record.line().decode() if json else line) + "\n")
            sys.stdout.flush()


def forward(
    config: options.ConfigurationFile,
    *,
    dead: Annotated[bool, Option("--dead", help="Show what could not be delivered, and exit.")] = False,
    retry: Annotated[bool, Option("--retry", help="Queue dead letters again, and exit.")] = False,
    from_start: Annotated[bool, Option("--from-start", help="Send new targets what streams hold.")] = False,
    json: options.Json = False,
) -> None:
    """Send narrations to MQTT, web hooks and notification services, until SIGTERM or Ctrl-C."""
    from daemon.config.configuration import load_configuration  # noqa: PLC0415
    from daemon.forward import forwarder  # noqa: PLC0415 - the extra

    configuration = load_configuration(config)
    if json and not (dead or retry):
        raise typer.BadParameter("--json goes with --dead or --retry")
    if dead or retry:
        _handle_dead_letters(reveal(configuration.redis.url or ""), retry, json=json)
        return
    start_logging()
    forwarder.silence_libraries()
    forwarder.check(configuration, str(config))
    forwarder.run(configuration, from_start=from_start)


def collect(
    *,
    redis: Annotated[str, Option(help="Redis URL of the streams; secrets as ${env:NAME}.")],
    out: Annotated[Path, Option("-o", "--out", help="Folder to write journals and pictures to.")],
    camera: options.Cameras = None,
    pictures: Annotated[list[str] | None, Option(help="Page that serves their pictures; repeatable.")] = None,
    once: Annotated[bool, Option("--once", help="Stop when everything is collected.")] = False,
) -> None:
    """Copy the journals of all daemons from their streams, until SIGTERM or Ctrl-C."""
    from daemon.collect.collector import Collector, PictureFetcher, PictureSource  # noqa: PLC0415
    from pipeline.evidence import EvidenceStore  # noqa: PLC0415
    from pipeline.publisher import RedisServer  # noqa: PLC0415

    reveal(redis)
    try:
        sources = [PictureSource(reveal(url)) for url in pictures or []]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--pictures") from None
    start_logging()
    journals = out / "journal"
    fetcher = PictureFetcher(EvidenceStore(out / "evidence"), sources)
    server = RedisServer(lambda: reveal(redis), ANSWER_S)
    collector = Collector(journals, server, fetcher.want, camera or None)
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
        options.warn(f"camera {name} has no stream at {server.name}: check --camera")
    if collector.troubles or fetcher.wanted or (once and (missing or collector.absent)):
        raise typer.Exit(options.SOME_FAILED)


def worker(
    *,
    redis: Annotated[str | None, Option(help="The clients' Redis URL; secrets as ${env:NAME}.")] = None,
    config: options.OptionalFile = None,
    device: options.Device = None,
) -> None:
    """Detect objects for daemons with `narrate: {workers: redis}`, until SIGTERM or Ctrl-C."""
    from daemon.config.configuration import ConfigurationError, load_configuration  # noqa: PLC0415

    configuration = load_configuration(config) if config else None
    url = redis or (configuration.redis.url if configuration else None)
    if url is None:
        raise typer.BadParameter("name the clients' server: --redis URL, or -c with redis.url")
    reveal(url)  # one that is absent ends it before anything is loaded
    import numpy as np  # noqa: PLC0415

    from daemon.workers import Worker  # noqa: PLC0415
    from models.grounded.grounded import Grounded  # noqa: PLC0415

    start_logging()
    loaded = options.load_chosen_captioner(None, device, configuration)
    if not isinstance(loaded, Grounded):
        raise ConfigurationError([f"captioner {loaded.name}: it has no workers; take grounded"])
    loaded.detect([np.zeros((352, 640, 3), np.uint8)])  # what cannot work fails here
    batch = BATCH.get(loaded.device.partition(":")[0], 1)
    server = Worker(lambda: reveal(url), loaded.sha256, loaded, batch=batch)
    with running_as_service("detecting") as (stop, watch):
        which = loaded.name, loaded.sha256[:12], loaded.device
        logger.info("worker %s detects with %s %s on %s", server.name, *which)
        server.run(stop, lambda: watch.progress(server.away or f"requests: {server.requests}", healthy=True))


def _handle_dead_letters(url: str, retry: bool, *, json: bool) -> None:
    from daemon.forward.forwarder import read_dead_letters, retry_dead_letters  # noqa: PLC0415
    from pipeline.publisher import RedisServer  # noqa: PLC0415

    with closing(RedisServer(url)) as server, server.client() as client:
        queued = retry_dead_letters(client) if retry else 0
        letters = [] if retry else read_dead_letters(client)
    for name, entry, fields in letters:
        members = json_format.loads(fields["json"])
        if json:
            shown = {key: members[key] for key in ("id", "camera", "text")}
            shown |= {"target": name, "time": members["after"]["time"], "reason": fields["reason"]}
            typer.echo(json_format.dumps(shown, ensure_ascii=False))
        else:
            moment = datetime.fromtimestamp(int(entry.partition("-")[0]) / 1000).astimezone()
            typer.echo(f"{moment:%Y-%m-%d %H:%M:%S}  {name}  {members['id']}  {fields['reason']}")
            typer.echo(f"    {members['text']}")
    if retry and json:
        typer.echo(json_format.dumps({"queued": queued}))
    elif retry:
        typer.echo(f"{many(queued, 'dead letter')} queued again; a running `narrated forward` sends them now")
    elif not json:
        typer.echo(many(len(letters), "dead letter"), err=True)
