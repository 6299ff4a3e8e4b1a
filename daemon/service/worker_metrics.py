"""What Prometheus is told of workers: an edge's counters of what it asked and was answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:  # it loads torch
    from daemon.workers.asks import Asking

FATES = ("answered", "refused", "given up", "lost")
STRAY = ("late", "twice", "unreadable")


def of_workers(asking: Asking) -> Iterator[Metric]:
    """The families of an edge whose pictures workers look at."""
    counts, (ours, others) = asking.counts, asking.alive
    living = GaugeMetricFamily("narrated_workers", "Workers that live.", labels=["checkpoint"])
    living.add_metric(["ours"], ours)
    living.add_metric(["other"], others)
    yield living
    away = float(bool(asking.away))
    yield GaugeMetricFamily("narrated_workers_away", "1 while the server does not answer.", away)
    yield CounterMetricFamily("narrated_worker_asks", "Asks sent.", counts.fates["asked"])
    done = CounterMetricFamily("narrated_worker_asks_ended", "Asks, by how they ended.", labels=["fate"])
    for fate in FATES:
        done.add_metric([fate], counts.fates[fate])
    yield done
    stray = CounterMetricFamily(
        "narrated_worker_stray_answers", "Answers that nobody waited for.", labels=["reason"]
    )
    for reason in STRAY:
        stray.add_metric([reason], counts.stray[reason])
    yield stray
    yield GaugeMetricFamily("narrated_worker_asks_in_flight", "This edge's open asks.", asking.in_flight)
    yield GaugeMetricFamily("narrated_worker_lag", "Open asks of all edges.", asking.waiting)
    yield CounterMetricFamily("narrated_worker_claims", "Asks taken over, of all edges.", counts.claims)
    sent = CounterMetricFamily("narrated_worker_bytes", "Bytes to and from the server.", labels=["direction"])
    sent.add_metric(["pictures"], counts.sent_bytes)
    sent.add_metric(["answers"], counts.received_bytes)
    yield sent
    yield CounterMetricFamily("narrated_worker_pictures", "Pictures sent.", counts.pictures)
    yield CounterMetricFamily("narrated_worker_wait_seconds", "From asks to answers.", counts.waited_s)
