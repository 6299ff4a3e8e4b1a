"""The daemon's health: for systemd, the log, and three pages on the loopback interface."""

import json
import logging
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from daemon.config.configuration import ConfigurationError
from daemon.config.values import format_listen
from daemon.threads.cameras import Cameras
from daemon.threads.narrator import Narrator
from daemon.threads.publication import Publishing
from pipeline.journal import Journal
from pipeline.loop import Heartbeats, Loop

_POLL_S = 0.5
_CLIENT_LIMIT_S = 10.0
_UNAVAILABLE = HTTPStatus.SERVICE_UNAVAILABLE

logger = logging.getLogger(__name__)


class Phase(StrEnum):
    OPENING = "opening the cameras"
    WATCHING = "watching"
    ENDING = "ending"


@dataclass(slots=True)
class Health:
    cameras: Cameras
    journals: Mapping[str, Journal]
    publishing: Publishing
    heartbeats: Heartbeats
    narrator: Narrator | None = None
    phase: Phase = Phase.OPENING

    def unready(self) -> list[str]:
        """Reasons for which the daemon does not do its work, one sentence each."""
        if self.phase is not Phase.WATCHING:
            return [f"it is {self.phase.value}"]
        reasons = []
        if why := self.publishing.stopped:
            reasons.append(f"nothing is published: {why}")
        if unseen := self.cameras.unseen:
            states = ", ".join(f"{name} ({state})" for name, state in sorted(unseen.items()))
            reasons.append(f"no camera sends pictures: {states}")
        failing = sorted(self.narrator.failing) if self.narrator else []
        reasons += [f"what {name} shows cannot be analysed: see the log" for name in failing]
        unwritten = sorted(self.unwritten().items())
        return reasons + [f"the journal of {name} cannot be written: {why}" for name, why in unwritten]

    def unwritten(self) -> dict[str, str]:
        """Why journals are not written, by camera; no reason to restart, which would lose what is held."""
        return {
            camera: f"{journal.trouble}; narrations held in memory: {journal.held}"
            for camera, journal in dict(self.journals).items()
            if journal.trouble
        }

    def liveness(self) -> dict[str, Any]:
        """Members of `/healthz`: `ok` while no loop hangs, as for the watchdog."""
        stuck = self.heartbeats.overdue()
        ages = {loop: round(age, 1) for loop, age in sorted(self.heartbeats.ages_s().items())}
        return {
            "ok": not stuck,
            "hanging": sorted(stuck),
            "unwritten": self.unwritten(),
            "seconds_since_progress": ages,
            **self._states(),
        }

    def readiness(self) -> dict[str, Any]:
        reasons = self.unready()
        return {"ready": not reasons, "reasons": reasons, "phase": self.phase.value, **self._states()}

    def _states(self) -> dict[str, dict[str, str]]:
        streams = {name: thread.streams for name, thread in sorted(self.cameras.threads.copy().items())}
        return {
            title: {name: each[stream][0] for name, each in streams.items() if stream in each}
            for title, stream in (("cameras", "main"), ("screening", "screening"))
        }


class Pages(ThreadingTCPServer):
    """Serves the pages from threads of its own, from `start` until the context ends.

    Not an `HTTPServer`, which asks the resolver for this machine's full name: that may take seconds. `loop`,
    the thread that accepts, is watched. Raises `ConfigurationError`.
    """

    health: Health
    registry: CollectorRegistry
    allow_reuse_address = True
    daemon_threads = True
    timeout = _POLL_S

    def __init__(self, host: str, port: int, heartbeats: Heartbeats) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.loop = Loop("http", self.handle_request, heartbeats=heartbeats)
        super().__init__((host, port), _Request, bind_and_activate=False)
        try:
            self.server_bind()
        except OSError as error:
            self.server_close()
            reason = f"cannot listen on {host}:{port} ({error.strerror}): choose another"
            raise ConfigurationError([f"http.listen: {reason}"]) from None
        self.address = format_listen((host, self.server_address[1]))

    def start(self, health: Health, registry: CollectorRegistry) -> None:
        self.health, self.registry = health, registry
        self.server_activate()  # until now who asks is refused at once
        self.loop.start()

    def server_close(self) -> None:
        self.loop.end(2 * _POLL_S)
        super().server_close()

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:  # no file more may be opened: who asks is still there when some are closed
            self.loop.stopped.wait(_POLL_S)
            raise

    def handle_error(self, *_: Any) -> None:
        """A client that goes away during its answer is no error."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            logger.error("a page could not be answered: %s: %s", type(error).__name__, error)


class _Request(BaseHTTPRequestHandler):
    server: Pages
    timeout = _CLIENT_LIMIT_S

    def do_GET(self) -> None:
        health = self.server.health
        match self.path.partition("?")[0]:
            case "/metrics":
                self._send(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self.server.registry))
            case "/healthz":
                values = health.liveness()
                self._send_json(HTTPStatus.OK if values["ok"] else _UNAVAILABLE, values)
            case "/readyz":
                values = health.readiness()
                self._send_json(HTTPStatus.OK if values["ready"] else _UNAVAILABLE, values)
            case _:
                self._send_json(HTTPStatus.NOT_FOUND, {"pages": ["/metrics", "/healthz", "/readyz"]})

    def log_message(self, *_: Any) -> None:
        """Every scrape in the log would be noise."""

    def _send_json(self, status: HTTPStatus, values: dict[str, Any]) -> None:
        self._send(status, "application/json; charset=utf-8", json.dumps(values, indent=1).encode() + b"\n")

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)
