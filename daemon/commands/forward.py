"""The verb that sends narrations elsewhere: forward."""

from __future__ import annotations

import json as json_format
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.commands.options import ConfigurationFile, Json, Verbose
from daemon.config.configuration import load_configuration
from daemon.config.secrets import Secrets

if TYPE_CHECKING:
    from daemon.forward.ledger import Letter


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
        bool, typer.Option("--from-start", help="Begin with what the streams still hold.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Send narrations to MQTT, web hooks, commands and notification services, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config)
    if (target or record or json) and not (dead or retry):
        raise typer.BadParameter("--target, --record and --json go with --dead or --retry")
    from daemon.forward.forwarder import (  # noqa: PLC0415 - loads the client of Redis
        checked,
        hush_libraries,
        ledger_folder,
        run,
    )

    if dead or retry:
        from daemon.forward.ledger import Ledger  # noqa: PLC0415

        with Ledger(ledger_folder(configuration)) as ledger:
            if retry:
                _tell_retried(ledger.retry(target, record), json=json)
            else:
                _tell_dead(ledger.dead(target), sum(ledger.forgotten(target).values()), json=json)
        return
    from daemon.health.log import start_logging  # noqa: PLC0415

    secrets = Secrets()
    start_logging(secrets, verbose=verbose)
    hush_libraries()
    settings = checked(configuration, secrets, str(config))
    raise typer.Exit(run(configuration, secrets, settings, from_start=from_start))


def _tell_retried(count: int, *, json: bool) -> None:
    if json:
        typer.echo(json_format.dumps({"queued": count}))
    else:
        typer.echo(f"{_letters(count)} queued again; a running `narrated forward` sends them now")


def _tell_dead(letters: list[Letter], forgotten: int, *, json: bool) -> None:
    if forgotten:
        typer.echo(
            f"{_letters(forgotten)} more, older than these, are gone from the ledger; "
            "their records are in the journals",
            err=True,
        )
    if json:
        for letter in letters:
            typer.echo(json_format.dumps(_members(letter), ensure_ascii=False))
        return
    for letter in letters:
        queued = datetime.fromtimestamp(letter.taken).astimezone()
        typer.echo(
            f"{queued:%Y-%m-%d %H:%M:%S}  {letter.target}  {letter.record.id}  {letter.reason}\n"
            f"    {letter.record.text}"
        )
    typer.echo(_letters(len(letters)), err=True)


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count or 'no'} dead letters"


def _members(letter: Letter) -> dict[str, Any]:
    return {
        "target": letter.target,
        "id": letter.record.id,
        "camera": letter.record.camera,
        "time": letter.record.after.time,
        "text": letter.record.text,
        "attempts": letter.attempts,
        "reason": letter.reason,
    }
