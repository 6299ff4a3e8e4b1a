"""What Prometheus is told: the daemon's own counters, read at the moment somebody asks."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Histogram,
    Metric,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from daemon import __version__
from daemon.service.state import Daemon
from daemon.service.verified import verification
from daemon.threads.camera_thread import SCREENING
from pipeline.record import Record
from pipeline.sources import ConnectionState

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_FRAMES = ("decoded", "sampled", "corrupt", "dropped")
_STREAMS = {"main": "", "screening": SCREENING}


class Metrics(Collector):
    """Reads the daemon's counters; nothing is counted twice, and nobody counts for the sake of the metrics.

    Attributes:
        registry: what is told at `/metrics`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._daemon: Daemon | None = None
        self._latency = Histogram(
            "narrated_capture_to_narration_seconds",
            "From the capture of a live frame to its narration in the journal.",
            ["camera"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR, self):
            self.registry.register(collector)

    def watch(self, daemon: Daemon) -> None:
        """Read this daemon's counters from now on."""
        self._daemon = daemon

    def observe(self, record: Record) -> None:
        """A narration was journalled."""
        took_ms = (record.latency_ms or {}).get("capture_to_narration")
        if took_ms is not None:
            self._latency.labels(record.camera).observe(took_ms / 1000)

    def describe(self) -> list[Metric]:
        """None, so that registering asks for nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every family, with the values of this moment."""
        yield _one(GaugeMetricFamily("narrated_build_info", "Version.", labels=["version"]), [__version__], 1)
        if (daemon := self._daemon) is None:
            return
        yield from _of_the_whole(daemon)
        yield from _of_frames(daemon)
        yield from _of_pairs(daemon)
        yield from _of_records(daemon)
        yield from _of_proofs(daemon)
        yield from verification(daemon.configuration.state)


def _of_the_whole(daemon: Daemon) -> Iterator[Metric]:
    model = GaugeMetricFamily("narrated_captioner_info", "Captioner.", labels=["name", "sha256"])
    yield _one(model, [daemon.captioner.name, daemon.captioner.sha256], 1)
    yield GaugeMetricFamily("narrated_ready", "1 while /readyz says so.", float(daemon.health.ready))
    ages = GaugeMetricFamily(
        "narrated_loop_age_seconds", "Seconds since a loop last made progress.", labels=["loop"]
    )
    for loop, age in daemon.health.heartbeats.ages_s().items():
        ages.add_metric([loop], age)
    yield ages
    hanging = GaugeMetricFamily("narrated_loops_hanging", "Loops that hang; the watchdog is not fed then.")
    hanging.add_metric([], len(daemon.health.stuck()))
    yield hanging
    read = CounterMetricFamily("narrated_reloads", "Configuration read again.", labels=["outcome"])
    for outcome, count in daemon.reloads.copy().items():
        read.add_metric([outcome], count)
    yield read


def _of_frames(daemon: Daemon) -> Iterator[Metric]:
    cameras = daemon.cameras.watched.copy()
    labels = ["camera", "stream"]
    state = GaugeMetricFamily(
        "narrated_camera_state", "1 for the state that a camera's stream is in.", labels=[*labels, "state"]
    )
    skew = GaugeMetricFamily(
        "narrated_camera_skew_seconds", "Camera's clock minus this machine's.", labels=labels
    )
    frames = CounterMetricFamily(
        "narrated_frames", "Frames, by what became of each.", labels=[*labels, "fate"]
    )
    again = CounterMetricFamily("narrated_reconnections", "Times a camera was opened again.", labels=labels)
    for name, camera in cameras.items():
        report, counts = camera.thread.report, camera.counts
        states = {"main": camera.thread.state, "screening": camera.thread.screening_state}
        skews = {"main": report.skew_s, "screening": report.screening.skew_s if report.screening else None}
        for stream, prefix in _STREAMS.items():
            if (now := states[stream]) is not None:
                for each in [*ConnectionState, *([] if now in set(ConnectionState) else [now])]:
                    state.add_metric([name, stream, str(each)], float(each == now))
            if (ahead_s := skews[stream]) is not None:
                skew.add_metric([name, stream], ahead_s)
            if prefix + "decoded" in counts:
                for fate in _FRAMES:
                    frames.add_metric([name, stream, fate], counts[prefix + fate])
                again.add_metric([name, stream], counts[prefix + "reconnections"])
    yield from (state, skew, frames, again)


def _of_pairs(daemon: Daemon) -> Iterator[Metric]:
    seconds = CounterMetricFamily("narrated_stage_seconds", "Time spent.", labels=["stage", "camera"])
    for name, camera in daemon.cameras.watched.copy().items():
        seconds.add_metric(["screen", name], camera.counts["screened_s"])
    seconds.add_metric(["narrate", ""], daemon.narrating.seconds)
    batches = CounterMetricFamily("narrated_batches", "Batches of pairs narrated.", daemon.narrating.batches)
    proposed = CounterMetricFamily("narrated_pairs_proposed", "Pairs proposed.", labels=["camera"])
    waiting = GaugeMetricFamily("narrated_pairs_waiting", "Pairs on their way.", labels=["camera"])
    oldest = GaugeMetricFamily(
        "narrated_pair_wait_seconds", "Longest that a live pair has waited.", daemon.queue.waited_s
    )
    pairs = CounterMetricFamily(
        "narrated_pairs",
        "Where proposed pairs went; together with those on their way they add up to all that were proposed.",
        labels=["camera", "fate", "reason"],
    )
    for name, account in daemon.queue.counters.by_camera().items():
        proposed.add_metric([name], account.proposed)
        waiting.add_metric([name], account.waiting)
        pairs.add_metric([name, "published", ""], account.published)
        for fate in ("suppressed", "dropped"):
            for reason, count in getattr(account, fate).items():
                pairs.add_metric([name, fate, reason], count)
    facts = CounterMetricFamily(
        "narrated_told_by_facts", "Pairs told without the captioner.", labels=["camera", "reason"]
    )
    captioning = daemon.narrating.captioning
    for reason, counts in (
        ("late", captioning.late if captioning else {}),
        ("failed", captioning.failed if captioning else {}),
    ):
        for name, count in counts.copy().items():
            facts.add_metric([name, reason], count)
    capped = GaugeMetricFamily(
        "narrated_capped", "1 while the hourly limit holds a camera's messages.", labels=["camera"]
    )
    now_capped = daemon.narrating.at_hourly_limit
    for name in daemon.journals.copy():
        capped.add_metric([name], float(name in now_capped))
    yield from (seconds, batches, proposed, waiting, oldest, pairs, facts, capped)


def _of_records(daemon: Daemon) -> Iterator[Metric]:
    narrations = CounterMetricFamily("narrated_narrations", "Narrations journalled.", labels=["camera"])
    for name, count in daemon.narrations.copy().items():
        narrations.add_metric([name], count)
    waiting = GaugeMetricFamily("narrated_unpublished", "Records not published yet.", labels=["camera"])
    held = GaugeMetricFamily("narrated_held", "Records that wait for the disk.", labels=["camera"])
    failing = GaugeMetricFamily("narrated_publishing_failing", "1 while publishing fails.", labels=["camera"])
    size = GaugeMetricFamily("narrated_journal_bytes", "Size of the journals.", labels=["camera"])
    not_published = daemon.publishing.failing
    for name, journal in daemon.journals.copy().items():
        waiting.add_metric([name], journal.end.seq - journal.published.seq)
        held.add_metric([name], journal.held)
        size.add_metric([name], journal.size)
        failing.add_metric([name], float(name in not_published))
    published = CounterMetricFamily("narrated_published", "Records published.", daemon.publishing.published)
    yield from (narrations, waiting, held, size, failing, published)
    yield from _of_retention(daemon)


def _of_retention(daemon: Daemon) -> Iterator[Metric]:
    retention = daemon.retention
    labels = ["camera", "reason"]
    segments = CounterMetricFamily("narrated_retention_segments", "Segments deleted.", labels=labels)
    for key, count in retention.segments.copy().items():
        segments.add_metric(list(key), count)
    size = CounterMetricFamily("narrated_retention_bytes", "Bytes of journals deleted.", labels=labels)
    for key, count in retention.bytes.copy().items():
        size.add_metric(list(key), count)
    pictures = CounterMetricFamily(
        "narrated_retention_pictures", "Pictures of evidence deleted.", retention.pictures
    )
    runs = CounterMetricFamily("narrated_retention_runs", "Times retention has run.", retention.runs)
    blocked = GaugeMetricFamily(
        "narrated_retention_unpublished",
        "1 while unpublished records keep retention from deleting more.",
        labels=["camera"],
    )
    for name in daemon.journals.copy():
        blocked.add_metric([name], float(name in retention.unpublished))
    yield from (segments, size, pictures, runs, blocked)


def _of_proofs(daemon: Daemon) -> Iterator[Metric]:
    pictures = CounterMetricFamily(
        "narrated_evidence", "Narrations, by what became of their pictures.", labels=["fate"]
    )
    pictures.add_metric(["kept"], daemon.evidence.kept)
    pictures.add_metric(["failed"], daemon.evidence.failed)
    signed = CounterMetricFamily("narrated_signatures", "Journals signed.", labels=["camera"])
    for name, count in daemon.signing.signed.copy().items():
        signed.add_metric([name], count)
    yield from (pictures, signed)


def _one(family: GaugeMetricFamily, labels: list[str], value: float) -> Metric:
    family.add_metric(labels, value)
    return family
