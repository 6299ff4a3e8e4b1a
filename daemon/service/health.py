"""The daemon's health and metrics: for systemd, the log, and three pages on the loopback interface."""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Histogram,
    Metric,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from daemon import __version__
from daemon.config.configuration import ConfigurationError
from daemon.config.settings import format_listen
from daemon.threads.work_queue import PROPOSED
from pipeline.loop import Heartbeats, Loop
from pipeline.record import Record
from pipeline.sources import ConnectionState

if TYPE_CHECKING:
    from daemon.service.daemon import Daemon

_POLL_S = 0.5
_CLIENT_LIMIT_S = 10.0
_UNAVAILABLE = HTTPStatus.SERVICE_UNAVAILABLE

VERIFIED = "verified.json"
"""Output of `narrated verify --json` in the state folder, written by systemd/narrated-verify.service."""

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_CAMERA = ("camera",)
_OUTCOMES = ("decoded", "sampled", "corrupt", "dropped")

logger = logging.getLogger(__name__)


class Phase(StrEnum):
    OPENING = "opening the cameras"
    WATCHING = "watching"
    ENDING = "ending"


class Health(Collector):
    """What a daemon says of itself: pages, and metrics, which are read when they are asked for."""

    def __init__(self, daemon: Daemon, heartbeats: Heartbeats) -> None:
        self.phase, self.heartbeats, self.registry = Phase.OPENING, heartbeats, CollectorRegistry()
        self._daemon = daemon
        self._latency = Histogram(
            "narrated_capture_to_narration_seconds",
            "From the capture of a live frame to its narration in the journal.",
            ["camera"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR, self):
            self.registry.register(collector)

    def unready(self) -> list[str]:
        """Reasons for which the daemon does not do its work, one sentence each."""
        if self.phase is not Phase.WATCHING:
            return [f"it is {self.phase.value}"]
        reasons = []
        if why := self._daemon.publishing.stopped:
            reasons.append(f"nothing is published: {why}")
        if unseen := self._daemon.cameras.unseen:
            states = ", ".join(f"{name} ({state})" for name, state in sorted(unseen.items()))
            reasons.append(f"no camera sends pictures: {states}")
        failing = sorted(self._daemon.narrating.narrator.failing)
        reasons += [f"what {name} shows cannot be analysed: see the log" for name in failing]
        unwritten = sorted(self.unwritten().items())
        return reasons + [f"the journal of {name} cannot be written: {why}" for name, why in unwritten]

    def unwritten(self) -> dict[str, str]:
        """Why journals are not written, by camera; no reason to restart, which would lose what is held."""
        return {
            camera: f"{journal.trouble}; narrations held in memory: {journal.held}"
            for camera, journal in dict(self._daemon.journals).items()
            if journal.trouble
        }

    def liveness(self) -> tuple[HTTPStatus, dict[str, Any]]:
        """The answer of `/healthz`: `ok` while no loop hangs, as for the watchdog."""
        stuck = self.heartbeats.overdue()
        ages = {loop: round(age, 1) for loop, age in sorted(self.heartbeats.ages_s().items())}
        return _UNAVAILABLE if stuck else HTTPStatus.OK, {
            "ok": not stuck,
            "hanging": sorted(stuck),
            "unwritten": self.unwritten(),
            "seconds_since_progress": ages,
            **self._states(),
        }

    def readiness(self) -> tuple[HTTPStatus, dict[str, Any]]:
        reasons = self.unready()
        values = {"ready": not reasons, "reasons": reasons, "phase": self.phase.value, **self._states()}
        return _UNAVAILABLE if reasons else HTTPStatus.OK, values

    def _states(self) -> dict[str, dict[str, str]]:
        threads = sorted(self._daemon.cameras.threads.copy().items())
        streams = {name: thread.streams for name, thread in threads}
        return {
            title: {name: each[stream][0] for name, each in streams.items() if stream in each}
            for title, stream in (("cameras", "main"), ("screening", "screening"))
        }

    def observe(self, record: Record) -> None:
        took_ms = (record.latency_ms or {}).get("capture_to_narration")
        if took_ms is not None:
            self._latency.labels(record.camera).observe(took_ms / 1000)

    def describe(self) -> list[Metric]:
        """None, so that registering asks for nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        daemon = self._daemon
        yield _gauge("build_info", "Version.", {__version__: 1}, ["version"])
        yield from _process(daemon)
        yield from _frames(daemon)
        yield from _pairs(daemon)
        yield from _records(daemon)
        yield from verification(daemon.configuration.state)


class Pages(ThreadingTCPServer):
    """Serves the pages from threads of its own, from `start` until the context ends.

    Not an `HTTPServer`, which asks the resolver for this machine's full name: that may take seconds. `loop`,
    the thread that accepts, is watched. Raises `ConfigurationError`.
    """

    health: Health
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

    def start(self, health: Health) -> None:
        self.health = health
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
                self._send(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(health.registry))
            case "/healthz":
                self._send_json(*health.liveness())
            case "/readyz":
                self._send_json(*health.readiness())
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


def _family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    text: str,
    values: Mapping[Any, float] | float,
    labels: Sequence[str] = (),
) -> Metric:
    """A family; `values` are by that of the only label, or by a tuple with that of each."""
    family = kind(f"narrated_{name}", text, labels=labels)
    for key, value in values.items() if isinstance(values, Mapping) else [((), values)]:
        family.add_metric([key] if isinstance(key, str) else list(key), value)
    return family


_gauge, _counter = partial(_family, GaugeMetricFamily), partial(_family, CounterMetricFamily)


def _process(daemon: Daemon) -> Iterator[Metric]:
    yield _gauge("ready", "1 while /readyz says so.", float(not daemon.health.unready()))
    ages = daemon.health.heartbeats.ages_s()
    yield _gauge("loop_age_seconds", "Seconds since a loop last made progress.", ages, ["loop"])
    hanging = len(daemon.health.heartbeats.overdue())
    yield _gauge("loops_hanging", "Loops that hang; the watchdog is not fed then.", hanging)
    yield _counter("reloads", "Configuration read again.", daemon.reloads.copy(), ["outcome"])


def _frames(daemon: Daemon) -> Iterator[Metric]:
    threads = daemon.cameras.threads.copy().items()
    streams = [((n, s), *each) for n, thread in threads for s, each in thread.streams.items()]
    state = {(*of, str(each)): each == now for of, now, _ in streams for each in (*ConnectionState, now)}
    skew = {of: report.skew_s for of, _, report in streams if report.skew_s is not None}
    frames = {(*of, name): getattr(report, name) for of, _, report in streams for name in _OUTCOMES}
    reconnections = {of: report.reconnections for of, _, report in streams}
    labels = ["camera", "stream"]
    yield _gauge("camera_state", "1 for the state that a stream is in.", state, [*labels, "state"])
    yield _gauge("camera_skew_seconds", "Camera's clock minus this machine's.", skew, labels)
    yield _counter("frames", "Frames, by what became of each.", frames, [*labels, "outcome"])
    yield _counter("reconnections", "Times a camera was opened again.", reconnections, labels)


def _pairs(daemon: Daemon) -> Iterator[Metric]:
    narrating, counters = daemon.narrating, daemon.queue.counters
    outcomes = counters.copy()
    threads = daemon.cameras.threads.copy()
    seconds = {("screen", name): thread.screened_s for name, thread in threads.items()}
    seconds["narrate", ""] = narrating.seconds
    yield _counter("stage_seconds", "Time spent.", seconds, ["stage", "camera"])
    proposed = {name: n for (name, outcome, _), n in outcomes.items() if outcome == PROPOSED}
    yield _counter("pairs_proposed", "Pairs proposed.", proposed, _CAMERA)
    yield _gauge("pairs_waiting", "Pairs on their way.", counters.waiting(), _CAMERA)
    yield _gauge("pair_wait_seconds", "Longest that a live pair has waited.", daemon.queue.waited_s)
    yield _counter(
        "pairs",
        "Where proposed pairs went; together with those on their way they add up to all that were proposed.",
        {key: n for key, n in outcomes.items() if key[1] != PROPOSED},
        ["camera", "outcome", "reason"],
    )
    narrator = narrating.narrator
    text = "Pairs reported without the captioner."
    yield _counter("fallback_narrations", text, narrator.captioning.fallbacks.copy(), _CAMERA)
    limited = _marks(daemon, narrator.at_hourly_limit)
    text = "1 while the hourly limit holds a camera's messages."
    yield _gauge("hourly_limit_reached", text, limited, _CAMERA)


def _records(daemon: Daemon) -> Iterator[Metric]:
    journals = daemon.journals.copy().items()
    unpublished = {name: journal.end.seq - journal.published.seq for name, journal in journals}
    yield _counter("narrations", "Narrations journalled.", daemon.narrations.copy(), _CAMERA)
    yield _gauge("unpublished", "Records not published yet.", unpublished, _CAMERA)
    yield _gauge("held", "Records that wait for the disk.", {n: j.held for n, j in journals}, _CAMERA)
    yield _gauge("journal_bytes", "Size of the journals.", {n: j.size for n, j in journals}, _CAMERA)
    failing = _marks(daemon, daemon.publishing.failing)
    yield _gauge("publishing_failing", "1 while publishing fails.", failing, _CAMERA)
    pictures = {"kept": daemon.evidence.kept, "failed": daemon.evidence.failed}
    yield _counter("evidence", "Narrations, by what became of their pictures.", pictures, ["outcome"])
    deleted = daemon.retention.segments.copy()
    yield _counter("retention_segments", "Segments deleted.", deleted, ["camera", "reason"])


def verification(state: Path) -> Iterator[Metric]:
    """Result and age of the last verification; nothing before the first."""
    path = state / VERIFIED
    try:
        found = json.loads(path.read_bytes())
        held = found["ok"] is True and not found.get("unchecked")  # a daemon's pictures lie beside its record
        age_s = max(0.0, time.time() - path.stat().st_mtime)
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):  # it ended before it could say: that is not "it holds"
        held, age_s = False, 0.0
    yield _gauge("verified", "1 where the record held at the last look.", float(held))
    yield _gauge("verification_age_seconds", "Since that look.", age_s)


def _marks(daemon: Daemon, cameras: Collection[str]) -> dict[str, float]:
    return {name: float(name in cameras) for name in daemon.journals.copy()}
