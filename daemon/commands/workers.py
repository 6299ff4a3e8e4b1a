"""The verb that shows who works: workers."""

from __future__ import annotations

import json as json_format
from typing import TYPE_CHECKING, Any

import typer

from daemon.commands.options import Json, OptionalFile, Server
from daemon.commands.tail import DEFAULT_SERVER

if TYPE_CHECKING:
    from daemon.workers.messages import EdgeCard, WorkerCard


def workers(
    *,
    redis: Server = None,
    config: OptionalFile = None,
    json: Json = False,
) -> None:
    """Show the workers, their hardware and speed, and the edges that wait for them."""
    from daemon.config.configuration import load_configuration  # noqa: PLC0415
    from daemon.config.secrets import Secrets  # noqa: PLC0415
    from daemon.workers import broker as server  # noqa: PLC0415 - loads the client of Redis

    url = redis or (load_configuration(config).redis.url if config else None) or DEFAULT_SERVER
    secrets = Secrets()
    broker = server.Broker(lambda: secrets.reveal(url))
    working, asking = server.workers(broker), server.edges(broker)
    wanted = sorted({each.checkpoint for each in working} | {each.checkpoint for each in asking})
    waiting = {checkpoint: server.waiting(broker, checkpoint) for checkpoint in wanted}
    broker.close()
    if json:
        typer.echo(json_format.dumps(_members(working, asking, waiting), indent=2))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    console = Console(soft_wrap=True)
    table = Table(
        "worker", "checkpoint", "device", "pairs", "pairs/s", "busy", "taken over", "refused", "now", box=None
    )
    for each in working:
        table.add_row(
            each.name, _named(each), each.device, str(each.asks), f"{each.per_s:.2f}", f"{each.busy_s:.0f} s",
            str(each.claims), str(each.refused), ", ".join(each.cameras),
        )  # fmt: skip
    console.print(table)
    table = Table("edge", "wants", "cameras", "asked", "answered", "waiting", "workers", box=None)
    for edge in asking:
        ours = sum(each.checkpoint == edge.checkpoint for each in working)
        table.add_row(
            edge.name, _named(edge), str(edge.cameras), str(edge.asked), str(edge.answered),
            str(edge.in_flight), str(ours) if ours else "none has this checkpoint",
        )  # fmt: skip
    console.print(table)
    for checkpoint, (held, pending) in waiting.items():
        typer.echo(f"{checkpoint[:12]}: {held} pairs wait, {pending} of them with a worker")


def _named(card: WorkerCard | EdgeCard) -> str:
    return f"{card.captioner} {card.checkpoint[:12]}"


def _members(
    working: list[WorkerCard], asking: list[EdgeCard], waiting: dict[str, tuple[int, int]]
) -> dict[str, Any]:
    return {
        "workers": [each.model_dump(mode="json") for each in working],
        "edges": [each.model_dump(mode="json") for each in asking],
        "waiting": {
            checkpoint: {"asks": held, "in_hand": pending} for checkpoint, (held, pending) in waiting.items()
        },
    }
