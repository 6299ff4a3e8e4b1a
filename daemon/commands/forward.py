"""The verb that sends narrations elsewhere: forward."""

from __future__ import annotations

import json as json_format
from contextlib import closing
from datetime import datetime
from typing import Annotated

import typer

from daemon.commands.options import ConfigurationFile, Json, Verbose
from daemon.config.configuration import load_configuration
from daemon.config.secrets import Secrets


def forward(
    config: ConfigurationFile,
    *,
    dead: Annotated[bool, typer.Option("--dead", help="Show what could not be delivered, and exit.")] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Put dead letters back into the queues, and exit.")
    ] = False,
    target: Annotated[
        str | None, typer.Option(help="With --dead or --retry: only those of this target.")
    ] = None,
    record: Annotated[str | None, typer.Option(help="With --retry: only the record with this id.")] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Targets that are new begin with what the streams hold.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Send narrations to MQTT, web hooks and notification services, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config)
    if (target or record or json) and not (dead or retry):
        raise typer.BadParameter("--target, --record and --json go with --dead or --retry")
    from daemon.forward.forwarder import check, hush_libraries, run  # noqa: PLC0415 - the client of Redis
    from daemon.health.log import start_logging  # noqa: PLC0415

    secrets = Secrets()
    if dead or retry:
        url = secrets.reveal(configuration.redis.url or "")
        if retry:
            _retry(url, target, record, json=json)
        else:
            _show_dead(url, target, json=json)
        return
    start_logging(secrets, verbose=verbose)
    hush_libraries()
    settings = check(configuration, secrets, str(config))
    raise typer.Exit(run(configuration, secrets, settings, from_start=from_start))


def _retry(url: str, target: str | None, record: str | None, *, json: bool) -> None:
    from daemon.forward.queue import TIMEOUT_S, retry_dead_letters  # noqa: PLC0415
    from pipeline.publisher.connection import RedisServer  # noqa: PLC0415

    with closing(RedisServer(lambda: url, TIMEOUT_S)) as server, server.client() as client:
        count = retry_dead_letters(client, target, record)
    if json:
        typer.echo(json_format.dumps({"queued": count}))
    else:
        typer.echo(f"{_count(count)} queued again; a running `narrated forward` sends them now")


def _show_dead(url: str, target: str | None, *, json: bool) -> None:
    from daemon.forward.queue import TIMEOUT_S, read_dead_letters  # noqa: PLC0415
    from pipeline.publisher.connection import RedisServer  # noqa: PLC0415

    with closing(RedisServer(lambda: url, TIMEOUT_S)) as server, server.client() as client:
        letters = read_dead_letters(client, target)
    for name, entry, fields in letters:
        record, moment = json_format.loads(fields["json"]), int(entry.partition("-")[0]) / 1000
        if json:
            members = {key: record[key] for key in ("id", "camera", "text")}
            members |= {"target": name, "time": record["after"]["time"], "reason": fields["reason"]}
            typer.echo(json_format.dumps(members, ensure_ascii=False))
        else:
            when = f"{datetime.fromtimestamp(moment).astimezone():%Y-%m-%d %H:%M:%S}"
            typer.echo(f"{when}  {name}  {record['id']}  {fields['reason']}\n    {record['text']}")
    if not json:
        typer.echo(_count(len(letters)), err=True)


def _count(letters: int) -> str:
    return "1 dead letter" if letters == 1 else f"{letters or 'no'} dead letters"
