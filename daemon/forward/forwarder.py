"""`narrated forward`: one thread a target, in a process of its own beside the daemon."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

from daemon.config.configuration import ConfigurationError
from daemon.config.secrets import absent_secrets, reveal
from daemon.config.settings import Configuration
from daemon.config.units import unit_folder
from daemon.forward.queue import Queue
from daemon.forward.sender import Sender
from daemon.forward.target import target_class
from daemon.service.process import running_as_service
from pipeline.disk import locking
from pipeline.loop import Heartbeats

GRACE_S = 10.0  # from the signal to the end, for the message that is being sent

_TURN_S = 0.1
_OWN = frozenset({"daemon", "pipeline", "models"})

logger = logging.getLogger(__name__)


class ForwardError(Exception):
    """Forwarding cannot start; the message says what to do."""


def silence_libraries() -> None:
    """Keep libraries out of the log: they log addresses, which are secrets here."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: record.name.partition(".")[0] in _OWN)


def check(configuration: Configuration, name: str = "configuration") -> None:
    """Check that the section `forward` can be used: ConfigurationError, without secrets, where it cannot.

    Raises `ModuleNotFoundError`.
    """
    settings, url = configuration.forward, configuration.redis.url or ""
    problems = [*absent_secrets([("redis.url", url), *settings.addresses()])]
    if not list(settings.targets()):
        problems.append("forward: names no target; docs/forward.md shows some")
    if not url:
        problems.append("redis.url: forwarding reads the streams of a server: redis://, rediss:// or unix://")
    for target, each in () if problems else settings.targets():
        if fault := target_class(each).check(each):
            problems.append(f"forward target {target}: {fault}")
    if problems:
        raise ConfigurationError([f"{name}: {problem}" for problem in problems])


def run(configuration: Configuration, *, from_start: bool = False) -> None:
    """Forward until SIGTERM or SIGINT, or until a thread fails; raises `ForwardError` or `PublisherError`."""
    heartbeats = Heartbeats()
    with (
        running_as_service("starting") as (stop, watch),
        forwarding(configuration, heartbeats, from_start=from_start) as senders,
    ):
        logger.info("forwarding to %s", ", ".join(senders))
        while not stop.wait(_TURN_S) and all(sender.loop.alive for sender in senders.values()):
            failing = [f"{n}: {reason}" for n, sender in senders.items() if (reason := sender.backoff.reason)]
            status = "; ".join([", ".join(senders), *failing])
            watch.progress(status, healthy=not heartbeats.overdue())


@contextmanager
def forwarding(
    configuration: Configuration, heartbeats: Heartbeats, *, from_start: bool = False
) -> Iterator[dict[str, Sender]]:
    """Running senders, one thread a target; records that are not sent at the end wait in Redis."""
    folder = unit_folder(configuration.state / "forward")
    url, senders = partial(reveal, configuration.redis.url or ""), dict[str, Sender]()
    with _locked(folder):
        for name, target in configuration.forward.targets():
            queue = Queue(url, name, folder / f"{name}.json", from_start=from_start)
            senders[name] = Sender(target, queue, configuration, heartbeats)
        for sender in senders.values():
            sender.loop.start()
        try:
            yield senders
        finally:
            until = monotonic() + GRACE_S
            for sender in senders.values():
                sender.loop.stop()
            for name, sender in senders.items():
                if not sender.loop.join(until - monotonic()):
                    logger.warning(
                        "target %s is taking too long to stop; its message will be sent again", name
                    )
        for sender in senders.values():
            sender.loop.raise_error()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with ExitStack() as lock:
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            lock.enter_context(locking(folder, wait=False))
        except BlockingIOError:
            raise ForwardError(f"another narrated forward works in {folder}: stop that one first") from None
        except OSError as error:
            raise ForwardError(f"{folder}: {error.strerror or error}; may this user write there?") from None
        yield
