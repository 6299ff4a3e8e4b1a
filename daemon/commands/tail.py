import json as json_format
import sys
from itertools import islice
from typing import Annotated

import typer
from typer import Option

from daemon.commands.options import Cameras, Json, OptionalFile, Server, warn
from daemon.config.secrets import reveal
from daemon.service.process import Signals, time_line

DEFAULT_SERVER = "redis://localhost:6379"


def tail(
    *,
    redis: Server = None,
    config: OptionalFile = None,
    camera: Cameras = None,
    from_start: Annotated[bool, Option("--from-start", help="Begin with what the stream holds.")] = False,
    count: Annotated[int | None, Option(min=1, help="Stop after this many narrations.")] = None,
    json: Json = False,
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
            warn(f"no camera is called {name!r} in {config}: {', '.join(configuration.cameras)}")
    from pipeline.publisher import subscribe  # noqa: PLC0415

    url, begin = reveal(redis or DEFAULT_SERVER), "0" if from_start else "$"
    with Signals() as signals:
        records = subscribe(url, camera or None, begin, signals.stop)
        for record in islice((each for each in records if not each.held), count):
            line = time_line(record.after.time, record.text, record.camera)
            sys.stdout.write((record.line().decode() if json else line) + "\n")
            sys.stdout.flush()
