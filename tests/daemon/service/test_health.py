"""Health that means it: `/readyz` says why not, metrics move, and a fault is told as what it is."""

import json
import logging
import socket
from collections import Counter
from contextlib import closing, suppress

import pytest
from daemon_here import operated, running, until
from embedded_redis import EmbeddedServer
from running_daemon import metrics, page, unused_port
from unpublished import recorded

from daemon.service.daemon import Daemon
from daemon.service.process import ServiceWatch
from daemon.threads import publication as module
from pipeline.journal import Journal

PAIRS = "pairs: {lower: 20, upper: 250}"
HTTP = "http: {{listen: '127.0.0.1:{}'}}\n"


def ready(port: int) -> tuple[int, list[str]]:
    code, text = page(port, "/readyz")
    told = json.loads(text)
    assert told["ready"] == (code == 200) == (not told["reasons"])
    return code, told["reasons"]


@pytest.mark.logs_errors
def test_it_is_not_ready_while_nothing_is_published_written_or_seen(
    configure, still, rtsp_server, monkeypatch, caplog
):
    monkeypatch.setattr(module, "RENEW_S", 0.1)
    caplog.set_level(logging.INFO)
    port, camera = unused_port(), unused_port()
    streaming = rtsp_server(port=camera)
    ball = f"  ball: {{url: 'rtsp://127.0.0.1:{camera}/stream', {PAIRS}, evidence: {{keep: none}}}}\n"
    with EmbeddedServer() as server:
        config = configure(f"{ball}  lot: {{url: {still}}}\n", server.url, HTTP.format(port))

        def operate(daemon: Daemon) -> None:
            until(daemon, lambda: ready(port) == (200, []))  # one camera that is away is no reason
            until(daemon, lambda: daemon.narrations["ball"])
            record = recorded(daemon.journals["ball"])[0]
            assert record.clock in {"rtcp", "receive"}
            assert record.latency_ms is not None
            server.stop()
            nothing = f"nothing is published: {server.url} cannot be reached"
            until(daemon, lambda: any(reason.startswith(nothing) for reason in ready(port)[1]))
            until(daemon, lambda: all(metrics(port)["publishing_failing", name] for name in ("ball", "away")))
            assert metrics(port)["ready",] == 0
            assert "not published: unix://" in daemon.status
            server.start()
            until(daemon, lambda: ready(port)[0] == 200)
            assert metrics(port)["publishing_failing", "ball"] == 0

            with monkeypatch.context() as full:
                full.setattr(Journal, "flush", lambda _: False)
                daemon.journals["ball"].trouble = "No space left on device"
                reasons = daemon.health.unready()
                alive = json.loads(page(port, "/healthz")[1])
            assert alive["ok"]  # a restart would lose what is held in memory
            assert "No space left" in alive["unwritten"]["ball"]
            unwritten = "the journal of ball cannot be written: No space left on device; narr"
            assert any(reason.startswith(unwritten) for reason in reasons)
            until(daemon, lambda: not daemon.journals["ball"].trouble)

            streaming.kill()
            until(daemon, lambda: ready(port)[0] == 503)
            (reason,) = ready(port)[1]
            assert reason.startswith("no camera sends pictures: away (")
            assert ", ball (" in reason

        with running(config) as daemon:
            operated(daemon, lambda: operate(daemon))
    warned = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    outage = [line for line in warned if server.url in line]
    assert 1 <= len(outage) <= 2  # a server that is stopped may take one more connection
    assert not any("ball" in line or "camera away" in line for line in outage)
    (first, *_) = (r.getMessage() for r in caplog.records if "[ball]" in r.getMessage())
    assert first[:4].isdigit()  # when it happened: the line's own time is that of the narrating


def test_every_metric_tells_what_its_counter_counts(configure, clip):
    port = unused_port()
    config = configure(f"  room: {{url: {clip}}}\n", more=HTTP.format(port))
    with running(config) as daemon:
        loops = {"main", "narrator", "publisher", "http", "retention"}

        def all_went() -> bool:
            journal = daemon.journals["room"]
            return journal.published.seq == 2 and loops <= daemon.health.heartbeats.ages_s().keys()

        operated(daemon, lambda: until(daemon, all_went))
        captioning, retention = daemon.narrating.narrator.captioning, daemon.retention
        captioning.fallbacks["room"] = 4
        retention.segments["room", "age"] = 5
        record = recorded(daemon.journals["room"])[0]
        daemon.health.observe(record.model_copy(update={"latency_ms": {"capture_to_narration": 1500.0}}))
        daemon.cameras.threads["away"]._source._report.skew_s = -3.5
        now = metrics(port)
        pairs = Counter({key: value for key, value in now.items() if key[0] == "pairs_total"})
        assert pairs.total() == now["pairs_proposed_total", "room"] > 0
        journal = daemon.journals["room"]
    expected = {
        ("camera_skew_seconds", "away", "main"): -3.5,
        ("camera_state", "room", "ended", "main"): 1,
        ("hourly_limit_reached", "room"): 0,
        ("capture_to_narration_seconds_sum", "room"): 1.5,
        ("evidence_total", "kept"): 2,
        ("frames_total", "room", "sampled", "main"): 48,
        ("held", "room"): 0,
        ("journal_bytes", "room"): journal.size,
        ("loops_hanging",): 0,
        ("narrations_total", "room"): 2,
        ("pair_wait_seconds",): 0,
        ("pairs_waiting", "room"): 0,
        ("publishing_failing", "room"): 0,
        ("ready",): 0,  # the only camera left is away
        ("reconnections_total", "away", "main"): 0,
        ("reloads_total", "taken"): 0,
        ("retention_segments_total", "room", "age"): 5,
        ("fallback_narrations_total", "room"): 4,
        ("unpublished", "room"): 0,
    }
    assert {key: now.get(key) for key in expected} == expected
    assert {key[1] for key in now if key[0] == "loop_age_seconds"} >= loops
    assert now["stage_seconds_total", "", "narrate"] > 0
    assert sum(value for key, value in now.items() if key[0] == "build_info") == 1


def test_a_manager_that_reads_no_more_holds_nothing_up_and_hears_it_later(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
        silent.bind(str(tmp_path / "notify"))
        silent.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with closing(ServiceWatch()) as watch:
            for _ in range(2000):  # far more than a socket holds
                watch.ready("watching")
            with suppress(BlockingIOError):
                while silent.recv(4096):
                    pass
            watch.progress("watching", healthy=True)
        assert silent.recv(4096).startswith(b"READY=1\n")
