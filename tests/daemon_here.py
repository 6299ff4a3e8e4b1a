"""A daemon in the test's own process: its parts can be looked at, and its main loop is the test's."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from waiting import LIMIT_S

from daemon.config.configuration import load_configuration
from daemon.service.daemon import Daemon
from daemon.service.process import Signals


@contextmanager
def running(config: Path) -> Iterator[Daemon]:
    """A daemon in this process; its main loop is the caller's."""
    with Signals() as signals, ExitStack() as resources:
        daemon = Daemon(config, load_configuration(config), signals, resources)
        daemon.startup()
        try:
            yield daemon
        finally:
            signals.stop.set()
            assert daemon.shutdown()


def operated(daemon: Daemon, operate: Callable[[], None]) -> None:
    """Runs the main loop while somebody operates the daemon; either's error is this test's."""
    errors: list[Exception] = []

    def work() -> None:
        try:
            operate()
        except Exception as error:  # noqa: BLE001 - it is raised in the test's thread
            errors.append(error)
        finally:
            daemon.signals.stop.set()

    operator = threading.Thread(target=work, daemon=True)
    operator.start()
    try:
        daemon.main_loop()
    finally:
        daemon.signals.stop.set()
        operator.join(LIMIT_S)
    assert not errors, errors


def until(daemon: Daemon, reached: Callable[[], Any]) -> None:
    end = time.monotonic() + LIMIT_S
    while not reached():
        assert time.monotonic() < end, "not within the limit"
        assert not daemon.signals.stop.is_set(), "the daemon has ended"
        time.sleep(0.002)
