"""Three pages for machines: `/metrics`, `/healthz` and `/readyz`, on the loopback interface only."""

from __future__ import annotations

import json
import logging
import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from daemon.config.configuration import ConfigurationError
from daemon.service.health import Health
from pipeline.loop import Loop

LOOP = "http"
"""Its name among the loops that the watchdog goes by."""

_POLL_S = 0.5
_CLIENT_LIMIT_S = 10.0

logger = logging.getLogger(__name__)


class Pages:
    """Serves the pages from threads of its own while the context lasts.

    Args:
        host, port: what is listened on; port 0 takes a free one.
        health: what the two pages tell.
        registry: what `/metrics` tells.

    Attributes:
        address: ``host:port`` that is listened on.
        loop: the thread that accepts.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """

    def __init__(self, host: str, port: int, health: Health, registry: CollectorRegistry) -> None:
        try:
            self._server = _Server((host, port), health, registry)
        except OSError as error:
            reason = f"{host}:{port} cannot be listened on ({error.strerror}): choose another"
            raise ConfigurationError([f"http.listen: {reason}"]) from None
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._server.server_port}"
        # This thread is watched: those that answer must not hide that no more are accepted.
        self.loop = Loop(LOOP, self._server.handle_request, heartbeats=health.heartbeats)

    def __enter__(self) -> Self:
        self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.stop()
        self.loop.join(2 * _POLL_S)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    timeout = _POLL_S

    def __init__(self, address: tuple[str, int], health: Health, registry: CollectorRegistry) -> None:
        self.health, self.registry = health, registry
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Request)

    def server_bind(self) -> None:
        # The standard library's asks the resolver for our full name, which may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def handle_error(self, *_: Any) -> None:
        """A client that goes away during its answer is no error."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            logger.error("a page could not be answered: %s: %s", type(error).__name__, error)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CLIENT_LIMIT_S

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._send(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self.server.registry))
            case "/healthz":
                self._tell(*alive(self.server.health))
            case "/readyz":
                self._tell(*ready(self.server.health))
            case _:
                self._tell(HTTPStatus.NOT_FOUND, {"pages": ["/metrics", "/healthz", "/readyz"]})

    def log_message(self, *_: Any) -> None:
        """Every scrape in the log would be noise."""

    def _tell(self, status: HTTPStatus, values: dict[str, Any]) -> None:
        self._send(status, "application/json; charset=utf-8", json.dumps(values, indent=1).encode() + b"\n")

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)


def alive(health: Health) -> tuple[HTTPStatus, dict[str, Any]]:
    """`/healthz`: fine while every loop gets on, as for the watchdog."""
    stuck = health.stuck()
    ages = {loop: round(age, 1) for loop, age in sorted(health.heartbeats.ages_s().items())}
    status = HTTPStatus.SERVICE_UNAVAILABLE if stuck else HTTPStatus.OK
    return status, {
        "ok": not stuck,
        "hanging": sorted(stuck),
        "unwritten": health.unwritten(),
        "seconds_since_progress": ages,
        **_states(health),
    }


def ready(health: Health) -> tuple[HTTPStatus, dict[str, Any]]:
    """`/readyz`: fine while something is seen, written and published; else why not."""
    reasons = health.unready()
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return status, {"ready": not reasons, "reasons": reasons, "phase": health.phase.value, **_states(health)}


def _states(health: Health) -> dict[str, dict[str, str]]:
    """What each camera does, and each sub-stream that is screened."""
    threads = sorted((health.cameras.threads if health.cameras else {}).items())
    small = {name: thread.screening_state for name, thread in threads}
    return {
        "cameras": {name: thread.state for name, thread in threads},
        "screening": {name: state for name, state in small.items() if state is not None},
    }
