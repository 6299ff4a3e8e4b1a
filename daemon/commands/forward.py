import json as json_format
from contextlib import closing
from datetime import datetime
from typing import Annotated

import typer
from typer import Option

from daemon.commands.options import ConfigurationFile, Json
from daemon.config.configuration import load_configuration
from daemon.config.secrets import reveal
from daemon.forward.forwarder import check, read_dead_letters, retry_dead_letters, run, silence_libraries
from daemon.service.process import start_logging
from pipeline.publisher import RedisServer
from pipeline.report.words import many


def forward(
    config: ConfigurationFile,
    *,
    dead: Annotated[bool, Option("--dead", help="Show what could not be delivered, and exit.")] = False,
    retry: Annotated[bool, Option("--retry", help="Queue dead letters again, and exit.")] = False,
    from_start: Annotated[bool, Option("--from-start", help="Send new targets what streams hold.")] = False,
    json: Json = False,
) -> None:
    """Send narrations to MQTT, web hooks and notification services, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config)
    if json and not (dead or retry):
        raise typer.BadParameter("--json goes with --dead or --retry")
    if dead or retry:
        _handle_dead_letters(reveal(configuration.redis.url or ""), retry, json=json)
        return
    start_logging()
    silence_libraries()
    check(configuration, str(config))
    run(configuration, from_start=from_start)


def _handle_dead_letters(url: str, retry: bool, *, json: bool) -> None:
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
