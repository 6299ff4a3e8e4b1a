import logging
from typing import Annotated

import typer
from typer import Option

from daemon.commands.options import Device, OptionalFile, load_chosen_captioner
from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.secrets import reveal

BATCH = {"cpu": 1, "cuda": 16}  # requests detected in together; a processor gains nothing from more
logger = logging.getLogger(__name__)


def worker(
    *,
    redis: Annotated[str | None, Option(help="The clients' Redis URL; secrets as ${env:NAME}.")] = None,
    config: OptionalFile = None,
    device: Device = None,
) -> None:
    """Detect objects for daemons with `narrate: {workers: redis}`, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config) if config else None
    url = redis or (configuration.redis.url if configuration else None)
    if url is None:
        raise typer.BadParameter("name the clients' server: --redis URL, or -c with redis.url")
    reveal(url)  # one that is absent ends it before anything is loaded
    import numpy as np  # noqa: PLC0415

    from daemon.service.process import running_as_service, start_logging  # noqa: PLC0415
    from daemon.workers import Worker  # noqa: PLC0415
    from models.grounded.grounded import Grounded  # noqa: PLC0415

    start_logging()
    loaded = load_chosen_captioner(None, device, configuration)
    if not isinstance(loaded, Grounded):
        raise ConfigurationError([f"captioner {loaded.name}: it has no workers; take grounded"])
    loaded.detect([np.zeros((352, 640, 3), np.uint8)])  # what cannot work fails here
    batch = BATCH.get(loaded.device.partition(":")[0], 1)
    server = Worker(lambda: reveal(url), loaded.sha256, loaded, batch=batch)
    with running_as_service("detecting") as (stop, watch):
        which = loaded.name, loaded.sha256[:12], loaded.device
        logger.info("worker %s detects with %s %s on %s", server.name, *which)
        server.run(stop, lambda: watch.progress(server.away or f"requests: {server.requests}", healthy=True))
