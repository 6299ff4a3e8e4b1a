"""What tests ask of a daemon that runs: its pages, and to get somewhere."""

import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from waiting import LIMIT_S

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
_PORTS = iter(range(10_000 + 1000 * _WORKER, 11_000 + 1000 * _WORKER))


def unused_port() -> int:
    """A port that stays free: below those that systems give out, and of this process of the tests alone."""
    for port in _PORTS:
        with socket.socket() as unused, suppress(OSError):
            unused.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            unused.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is left")


def page(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page; status 0 where nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LIMIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def metrics(port: int) -> dict[tuple[str, ...], float]:
    """``(name without narrated_, *label values in the order of their names)`` to value."""
    return {
        (
            sample.name.removeprefix("narrated_"),
            *(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(page(port, "/metrics")[1])
        for sample in family.samples
    }


def until(process: Any, reached: Callable[[], Any]) -> Any:
    """Wait for what is reached, and give it; what the process said where it ends or takes too long."""
    end = time.monotonic() + LIMIT_S
    while not (value := reached()):
        assert process.poll() is None, process.communicate()[1]
        if time.monotonic() >= end:
            process.kill()
            raise AssertionError(f"not within {LIMIT_S} s: {process.communicate()[1][-4000:]}")
        time.sleep(0.05)
    return value
