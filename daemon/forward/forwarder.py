"""`narrated forward`: startup, main loop, shutdown; a process of its own beside the daemon."""

from __future__ import annotations

import fcntl
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from daemon.config.checks import absent_secrets
from daemon.config.configuration import ConfigurationError
from daemon.config.secrets import Secrets
from daemon.config.settings import Configuration
from daemon.config.values import unit_folder
from daemon.forward.queue import Queue
from daemon.forward.sender import Sender
from daemon.forward.target import target_class
from daemon.service.process import ServiceWatch, Signals
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


def check(configuration: Configuration, secrets: Secrets, name: str = "configuration") -> None:
    """Check that the section `forward` can be used.

    Raises:
        ConfigurationError: with one line per problem, none of which shows a secret.
        ModuleNotFoundError: a library is not installed.
    """
    settings, url = configuration.forward, configuration.redis.url or ""
    problems = [*absent_secrets([("redis.url", url), *settings.addresses()], secrets)]
    if not list(settings.targets()):
        problems.append("forward: names no target; docs/forward.md shows some")
    if not url:
        problems.append("redis.url: forwarding reads the streams of a server: redis://, rediss:// or unix://")
    for target, each in () if problems else settings.targets():
        if fault := target_class(each).check(each, secrets):
            problems.append(f"forward target {target}: {fault}")
    if problems:
        raise ConfigurationError([f"{name}: {problem}" for problem in problems])


@dataclass(slots=True)
class Forwarding:
    """Everything that runs, from `startup` to `shutdown`."""

    senders: dict[str, Sender]
    heartbeats: Heartbeats
    watch: ServiceWatch
    signals: Signals

    @property
    def status(self) -> str:
        """One line for `systemctl status`."""
        failing = [f"{name}: {sender.failing}" for name, sender in self.senders.items() if sender.failing]
        return "; ".join([", ".join(self.senders), *failing])


def run(configuration: Configuration, secrets: Secrets, *, from_start: bool = False) -> None:
    """Forward until SIGTERM or SIGINT.

    Raises:
        ForwardError, PublisherError: it cannot start or continue.
    """
    with Signals() as signals, ExitStack() as resources:
        forwarding = startup(configuration, secrets, resources, signals, from_start=from_start)
        try:
            main_loop(forwarding)
        finally:
            shutdown(forwarding)
        for sender in forwarding.senders.values():
            sender.loop.raise_error()


def startup(
    configuration: Configuration,
    secrets: Secrets,
    resources: ExitStack,
    signals: Signals,
    *,
    from_start: bool = False,
) -> Forwarding:
    """Start one thread a target."""
    folder = unit_folder(configuration.state / "forward")
    _lock(folder, resources)
    forwarding = Forwarding({}, Heartbeats(), ServiceWatch(), signals)
    resources.callback(forwarding.watch.close)
    url = partial(secrets.reveal, configuration.redis.url or "")
    for name, target in configuration.forward.targets():
        queue = Queue(url, name, folder / f"{name}.json", from_start=from_start)
        forwarding.senders[name] = Sender(target, queue, configuration, secrets, forwarding.heartbeats)
    signals.watching()
    for sender in forwarding.senders.values():
        sender.loop.start()
    return forwarding


def main_loop(forwarding: Forwarding) -> None:
    """Watch the threads, and notify systemd, until a signal or until a thread fails."""
    watch, signals = forwarding.watch, forwarding.signals
    watch.ready(forwarding.status)
    logger.info("forwarding to %s", forwarding.status)
    while not signals.stop.is_set() and all(sender.loop.alive for sender in forwarding.senders.values()):
        watch.progress(forwarding.status, healthy=not forwarding.heartbeats.overdue())
        signals.stop.wait(_TURN_S)


def shutdown(forwarding: Forwarding) -> None:
    """Stop the threads; records that are not sent yet wait in Redis."""
    forwarding.watch.stopping()
    for sender in forwarding.senders.values():
        sender.loop.stop()
    until = monotonic() + GRACE_S
    for name, sender in forwarding.senders.items():
        if not sender.loop.join(until - monotonic()):
            logger.warning(
                "target %s takes too long to end: its message is sent again at the next start", name
            )


def _lock(folder: Path, resources: ExitStack) -> None:
    """Keep other forwarders out of the folder until the resources are closed."""
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        file = resources.enter_context((folder / "lock").open("a"))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ForwardError(f"another narrated forward works in {folder}: stop that one first") from None
    except OSError as error:
        raise ForwardError(f"{folder}: {error.strerror or error}; may this user write there?") from None
