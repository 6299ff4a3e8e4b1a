"""The verb that detects for daemons elsewhere: worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.commands.options import CaptionerChoice, Device, OptionalFile, Verbose, load_chosen_captioner
from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.secrets import Secrets

if TYPE_CHECKING:
    from models.grounded.grounded import Grounded

BATCH = {"cpu": 1, "cuda": 16}
"""Requests that are detected in together; a processor gains nothing from more than one."""

WATCHDOG_S = 150
"""WatchdogSec of the unit: longer than any batch may take."""

logger = logging.getLogger(__name__)


def worker(
    *,
    redis: Annotated[
        str | None, typer.Option(help="The clients' server; secrets as ${env:..}, ${file:..}, ${cred:..}")
    ] = None,
    config: OptionalFile = None,
    captioner: CaptionerChoice = None,
    device: Device = None,
    verbose: Verbose = False,
) -> None:
    """Detect objects for daemons with `narrate: {workers: redis}`, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config) if config else None
    url = redis or (configuration.redis.url if configuration else None)
    if url is None or url.startswith("embedded"):
        raise typer.BadParameter(
            "name the clients' server: --redis URL, or -c with redis.url", param_hint="--redis"
        )
    secrets = Secrets()
    secrets.reveal(url)  # one that is absent ends it before anything is loaded
    from daemon.service.log import start_logging  # noqa: PLC0415
    from models.grounded.grounded import Grounded  # noqa: PLC0415

    start_logging(verbose=verbose)
    loaded = load_chosen_captioner(captioner, device, configuration)
    if not isinstance(loaded, Grounded):
        raise ConfigurationError([f"captioner {loaded.name}: it has no workers; take grounded"])
    _serve(loaded, lambda: secrets.reveal(url))


def _serve(captioner: Grounded, url: Callable[[], str]) -> None:
    """Detect for clients until SIGTERM or SIGINT.

    Raises:
        PublisherError: the server's URL is malformed, or it refuses for good.
    """
    import numpy as np  # noqa: PLC0415

    from daemon.service.signals import Signals  # noqa: PLC0415
    from daemon.service.systemd import ServiceWatch  # noqa: PLC0415
    from daemon.workers.worker import Worker  # noqa: PLC0415

    watch = ServiceWatch()
    with Signals() as signals:
        captioner.detect([np.zeros((352, 640, 3), np.uint8)])  # what cannot work fails here
        batch = BATCH.get(captioner.device.partition(":")[0], 1)
        worker = Worker(url, captioner.sha256, captioner, batch=batch)
        watch.ready("detecting")
        signals.watching()
        logger.info(
            "worker %s detects with %s %s on %s",
            *(worker.name, captioner.name, captioner.sha256[:12], captioner.device),
        )

        def progress() -> None:
            watch.progress(worker.away or f"{worker.requests} requests done", healthy=True)

        try:
            worker.run(signals.stop, progress)
        finally:
            watch.stopping()
            watch.close()
