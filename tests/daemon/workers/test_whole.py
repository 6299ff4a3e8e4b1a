"""An edge with workers writes the record that it would write alone; commands, settings, metrics."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from rectangles import COLOURS, GREY, RectangleDetector, see_rectangles
from running_daemon import until
from workers_site import Edge, Site, wait

from daemon.config.configuration import ConfigurationError, load_configuration, parse_configuration
from daemon.config.plan import CameraPlan, camera_plans
from daemon.config.secrets import Secrets
from daemon.config.settings import CaptionerSettings
from daemon.service import daemon as live
from daemon.service.worker_metrics import of_workers
from daemon.threads.narrator import Narrator
from daemon.threads.narrator_thread import NarratorThread
from daemon.threads.pair_queue import PairQueue
from daemon.threads.pulse import Pulses
from daemon.tools import doctor
from daemon.workers.broker import Broker, own_name
from daemon.workers.messages import WorkerCard
from daemon.workers.pair_queue import WorkersQueue
from daemon.workers.worker import Worker
from models import load_captioner, read_label
from models.captioner import Captioner
from models.grounded.grounded import Grounded
from pipeline.journal import Journal
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.sources import Clock, Frame
from pipeline.thresholds import PairThresholds

START = datetime(2024, 3, 1, tzinfo=UTC)


class Drawn:
    def __init__(self, image: np.ndarray) -> None:
        self._image = image

    def rgb(self) -> np.ndarray:
        return self._image


def frame(camera: str, t: float) -> Frame:
    """A parked car; one walks through, and later one comes from the right and stays."""
    image = np.full((240, 320, 3), GREY, np.uint8)
    things = [("car", 200, 40, 60, 40)]
    if 6 <= t < 20:
        things.append(("person", round(-10 + 24 * (t - 6)), 120, 24, 70))
    if t >= 26:
        things.append(("person", max(round(310 - 30 * (t - 26)), 220), 130, 24, 70))
    for name, x, y, w, h in things:
        cv2.rectangle(image, (x, y), (x + w - 1, y + h - 1), COLOURS[name], -1)
    luma = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    return Frame(camera, START + timedelta(seconds=t), Clock.FILE, round(10 * t), luma, Drawn(image))


def pairs(camera: str) -> list[FramePair]:
    found = list(candidate_pairs((frame(camera, t / 2) for t in range(70)), PairThresholds(4.0, 60.0)))
    stills = replace(found[0], between=(), later=())  # as of the long baseline: told from its two frames
    return [*found, replace(stills, before=found[-1].before, after=replace(found[-1].after, pts=10**6))]


@pytest.fixture
def sighted() -> Grounded:
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    return see_rectangles(captioner)


def told(captioner: Grounded, folder: Path, queue: PairQueue) -> list[dict[str, Any]]:
    """The records of two cameras, as far as they do not chain."""
    names = ("yard", "gate")
    journals = {name: Journal(folder, name) for name in names}
    plans = [CameraPlan(name, "", workers=True) for name in names]
    narrator = Narrator(captioner, plans, journals, live=False, accounts=queue.accounts)
    if isinstance(queue, WorkersQueue):
        queue.begin(captioner, narrator.plans)
    total = 0
    for name in names:
        for each in pairs(name):
            queue.put(name, each, wait=True)
            total += 1
    while total:
        batch = queue.take(8, 0.0)
        narrator.tell(batch)
        total -= len(batch)
    narrator.finish()
    assert not narrator.captioning.error
    for journal in journals.values():
        journal.close()
    return [
        json.loads(line) for name in names for line in (folder / f"{name}.jsonl").read_text().splitlines()
    ]


@pytest.fixture
def at_work(site: Site, sighted: Grounded) -> Iterator[None]:
    """A worker in this process: the captioner's detector on the other side of the server."""
    import threading

    stop = threading.Event()
    card = WorkerCard(
        name=own_name(), narrated="0", captioner=sighted.name, checkpoint=sighted.sha256, device="cpu"
    )
    other = load_captioner()
    assert isinstance(other, Grounded)
    other.detector.__class__ = RectangleDetector
    worker = Worker(Broker(lambda: site.server.url), card, other.see, batch=4)
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.usefixtures("at_work")
def test_the_record_is_the_one_without_workers(site: Site, sighted: Grounded, tmp_path: Path) -> None:
    queue = WorkersQueue(["yard", "gate"], 400, lambda: site.server.url)
    away = told(sighted, tmp_path / "away", queue)
    assert queue.sightings is not None
    assert queue.sightings.looked_here == 0
    queue.leave(5.0)
    sighted.eyes = None
    home = told(sighted, tmp_path / "home", PairQueue(["yard", "gate"], 400))
    assert {s["type"] for record in home for s in record["sentences"]} >= {"appeared", "disappeared"}
    assert away == home


class _Told(Collector):
    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Any:
        yield from of_workers(self._edge.asking)


@pytest.mark.usefixtures("at_work")
def test_an_edge_wakes_for_the_first_pair(site: Site, sighted: Grounded, tmp_path: Path) -> None:
    """Until then it has neither a narrator nor anything to do with workers."""
    queue, pulses, heard = WorkersQueue(["yard"], 400, lambda: site.server.url), Pulses(), list[str]()
    with Journal(tmp_path, "yard") as journal:

        def made() -> Narrator:
            plans = [CameraPlan("yard", "", workers=True)]
            narrator = Narrator(sighted, plans, {"yard": journal}, live=True, accounts=queue.accounts)
            queue.begin(sighted, narrator.plans)
            return narrator

        thread = NarratorThread(
            made, queue, CaptionerSettings(), pulses, lambda one: heard.append(one.record.text)
        )
        thread.loop.start()
        assert thread.captioning is None
        assert queue.asking is None
        for each in pairs("yard"):
            queue.put("yard", each, wait=True)
        wait(lambda: heard)
        assert queue.sightings is not None
        assert queue.sightings.looked_here == 0
        queue.close()
        assert thread.finish(time.monotonic() + 20)
        queue.leave(5.0)


def test_the_doctor_looks_for_workers(site: Site, configure: Callable[..., Path], tmp_path: Path) -> None:
    config = configure(redis=site.server.url)
    plain = load_configuration(config)
    config.write_text(
        config.read_text().replace("cameras:", "defaults: {narrate: {workers: redis}}\ncameras:")
    )
    workers, ours = load_configuration(config), read_label(plain.captioner.checkpoint).sha256
    assert doctor._workers(plain) is None
    with pytest.raises(RuntimeError, match=r"0 of 0 have the checkpoint .*: start `narrated worker`"):
        doctor._workers(workers)
    for checkpoint in ("a" * 64, ours):
        site.worker(shut=True, checkpoint=checkpoint)
    wait(lambda: len(site.keys("worker")) == 2)
    assert doctor._workers(workers) == f"1 of 2 have the checkpoint {ours[:12]}"


def test_every_metric_tells_what_its_counter_counts(site: Site) -> None:
    edge = site.edge()
    site.worker()
    edge.put(*range(3))
    edge.take(3)
    wait(lambda: edge.asking.alive == (1, 0))
    counts = edge.asking.counts
    counts.stray.update(late=4, twice=5, unreadable=6)
    counts.fates.update({"given up": 7, "refused": 8, "lost": 9})
    edge.queue.leave(5.0)
    counts.claims, edge.asking.away, edge.asking.alive, edge.asking.waiting = 11, "because", (1, 2), 10
    registry = CollectorRegistry()
    registry.register(_Told(edge))
    now = {
        (sample.name.removeprefix("narrated_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }
    assert now == {
        ("workers", "ours"): 1,
        ("workers", "other"): 2,
        ("workers_away",): 1,
        ("worker_asks_total",): 3,
        ("worker_asks_ended_total", "answered"): 3,
        ("worker_asks_ended_total", "refused"): 8,
        ("worker_asks_ended_total", "given up"): 7,
        ("worker_asks_ended_total", "lost"): 9,
        ("worker_stray_answers_total", "late"): 4,
        ("worker_stray_answers_total", "twice"): 5,
        ("worker_stray_answers_total", "unreadable"): 6,
        ("worker_asks_in_flight",): 0,
        ("worker_lag",): 10,
        ("worker_claims_total",): 11,
        ("worker_bytes_total", "pictures"): counts.sent_bytes,
        ("worker_bytes_total", "answers"): counts.received_bytes,
        ("worker_pictures_total",): 4,
        ("worker_wait_seconds_total",): counts.waited_s,
    }
    assert min(counts.sent_bytes, counts.received_bytes, counts.waited_s) > 0


@pytest.mark.slow
def test_the_command_works_and_ends_at_sigterm(site: Site, notify: Any) -> None:
    import os

    captioner = load_captioner()
    process = subprocess.Popen(
        [sys.executable, "-m", "daemon.cli", "worker", "--redis", "${env:MEETING}", "--device", "cpu"],
        env={
            **os.environ,
            "MEETING": site.server.url,
            "NOTIFY_SOCKET": str(notify.path),
            "WATCHDOG_USEC": "3000000",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        notify.wait_for("READY=1")
        notify.wait_for("WATCHDOG=1")
        edge = site.edge(checkpoint=captioner.sha256)
        edge.put(0)
        (one,) = until(process, lambda: edge.queue.take(1, 0.0))
        assert not one.late
        assert edge.asking.counts.fates["answered"] == 1
        process.terminate()
        assert process.wait(60) == 0
        notify.wait_for("STOPPING=1")
    finally:
        process.kill()
        process.communicate()


def test_workers_need_a_server_and_a_captioner_that_sees(captioner: Captioner) -> None:
    text = "version: 1\ndefaults: {narrate: {workers: redis}}\ncameras: {yard: {url: yard.mp4}}\n"
    with pytest.raises(ConfigurationError, match=r"narrate\.workers: redis needs redis\.url"):
        parse_configuration(text)
    configuration = parse_configuration(text + "redis: {url: 'redis://localhost'}\n")
    plans = camera_plans(configuration, Secrets())
    with pytest.raises(ConfigurationError, match="ddla has no workers: take grounded"):
        live._workers(plans, captioner.name, lambda: "", Pulses())
    home = replace(plans[0], workers=False)
    assert live._workers([home], captioner.name, lambda: "", Pulses()) is None
    assert home.settings_sha256(captioner, limits=True) == plans[0].settings_sha256(captioner, limits=True)


@pytest.mark.parametrize("given", [(), ("--redis", "embedded")])
def test_a_worker_needs_a_server(narrated: Callable[..., Any], given: tuple[str, ...]) -> None:
    outcome = narrated("worker", *given)
    assert outcome.code == 2
    assert "name the edges' server" in outcome.err
