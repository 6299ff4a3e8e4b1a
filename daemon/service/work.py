"""`narrated worker` as a service: signals, sd_notify, the end."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from daemon.service.signals import Signals
from daemon.service.systemd import ServiceWatch
from daemon.workers.worker import Worker
from models.grounded.grounded import Grounded

WATCHDOG_S = 150
"""Of the unit: longer than any batch may take."""

logger = logging.getLogger(__name__)


def work(captioner: Grounded, url: Callable[[], str], batch: int) -> int:
    """Detect for clients until SIGTERM or SIGINT; the exit code, 0.

    Raises:
        PublisherError: the server's URL is malformed, or it refuses for good.
    """
    watch = ServiceWatch()
    with Signals() as signals:
        captioner.detect([np.zeros((352, 640, 3), np.uint8)])  # what cannot work fails here
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
    return 0
