"""`narrated worker` as a service: signals, what systemd is told, the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from daemon import __version__
from daemon.service.signals import Signals
from daemon.service.systemd import ServiceWatch
from daemon.workers.broker import Broker, own_name
from daemon.workers.messages import WorkerCard
from daemon.workers.worker import Worker
from models.detections import Detections
from models.grounded.grounded import Grounded

WATCHDOG_S = 150
"""Of the unit: longer than any batch may take."""

logger = logging.getLogger(__name__)


def work(captioner: Grounded, url: Callable[[], str], batch: int) -> int:
    """Look at pictures for edges until SIGTERM or SIGINT.

    Returns:
        Exit code 0.

    Raises:
        PublisherError: the server's URL is malformed, or it refuses for good.
    """

    def look(pictures: Sequence[Tensor]) -> list[Detections]:
        with torch.inference_mode():
            return captioner.see(pictures)

    card = WorkerCard(
        name=own_name(),
        narrated=__version__,
        captioner=captioner.name,
        checkpoint=captioner.sha256,
        device=str(captioner.device),
    )
    watch = ServiceWatch()
    with Signals() as signals:
        look([torch.zeros(3, 352, 640, dtype=torch.uint8)])
        worker = Worker(Broker(url), card, look, batch=batch)
        watch.ready("looking")
        signals.watching()
        logger.info(
            "worker %s looks with %s %s on %s", card.name, card.captioner, card.checkpoint[:12], card.device
        )

        def progress() -> None:
            status = worker.away or f"{worker.card.asks} pairs looked at, {worker.card.claims} taken over"
            watch.progress(status, healthy=not worker.stuck)

        try:
            worker.run(signals.stop, progress)
        finally:
            watch.stopping()
            watch.close()
    return 0
