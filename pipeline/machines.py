"""The machines of a Ray cluster, lent for a while: to replays and to what training shares out."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline.extras import missing_extra

_ANSWER_S = 10.0


class ClusterError(Exception):
    """The cluster cannot be used; the message says what to do."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster; it reports to nobody how it is used.

    Args:
        address: as Ray writes it (``auto``, ``host:6379``, ``ray://host:10001``), or ``local`` for one that
            is started here and ends with the block.

    Raises:
        ClusterError: Ray is not installed, or the cluster does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ClusterError(missing_extra(error) or str(error)) from None
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        _look_for(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ClusterError(
            f"no Ray cluster answers at {address} ({reason}): start one with `ray start --head`, or write "
            "--ray local"
        ) from error
    # Ray prints on stdout when a machine dies, whatever it is told about logs: there, narrations go.
    ray._private.worker._worker_logs_enabled = False  # noqa: SLF001
    try:
        yield ray
    finally:
        ray.shutdown()


def task(ray: Any, work: Callable[..., Any], *, gpus: float = 0) -> Callable[..., Any]:
    """Something to be done on one processor of any machine; one that dies costs that time and nothing else.

    Args:
        ray: of `connected`.
        work: is called there; what it needs of files must be at the same path everywhere.
        gpus: share of a GPU that it asks for.

    Returns:
        Called with the arguments of `work`, or with references to them, it gives a reference to the result.
    """
    # A machine that dies is not the fault of the task: it is run elsewhere, for as long as there is one.
    sent = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=-1)(_done_in)
    return partial(sent.remote, str(Path.cwd()), work)


def answer(ray: Any, reference: Any) -> Any:
    """Wait for what came of a task; it raises what the task has raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


def _done_in(folder: str, work: Callable[..., Any], *given: Any) -> Any:
    """On another machine: paths that are relative mean the same there."""
    with suppress(OSError):
        os.chdir(folder)
    return work(*given)


def _look_for(address: str) -> None:
    """Fail at once where nobody listens: Ray itself waits for minutes.

    Raises:
        OSError: nobody does.
        ValueError: it is no address.
    """
    if address not in {"auto", "local"}:
        server = urlsplit(address if "://" in address else f"ray://{address}")
        socket.create_connection((server.hostname or "", server.port or 0), timeout=_ANSWER_S).close()
