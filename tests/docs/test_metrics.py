"""docs/metrics.md has every metric that a daemon exports, no other, and every alert of configs/prometheus."""

import re
from pathlib import Path

import yaml
from daemon_here import running
from doc_pages import ROOT, page, sections, table
from prometheus_client import Metric
from running_daemon import unused_port

from daemon.service.health import VERIFIED, Health


def exported(folder: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Kind and labels of every metric of a daemon with one camera, by name."""
    config = folder / "narrated.yaml"
    config.write_text(
        f"version: 1\nstate: {folder}/state\ncaptioner: {{device: cpu}}\n"
        f"cameras:\n  away: {{url: 'rtsp://127.0.0.1:{unused_port()}/s'}}\n"
    )
    with running(config) as daemon:
        (daemon.configuration.state / VERIFIED).write_text('{"ok": true}')
        families = [f for f in daemon.health.registry.collect() if f.name.startswith("narrated_")]
    found = {}
    for family in families:
        name = family.name + "_total" * (family.type == "counter")
        found[name] = family.type, labels(daemon.health, family)
    return found


def labels(health: Health, family: Metric) -> tuple[str, ...]:
    """The label names, which a family has without a sample, too."""
    if family.type == "histogram":
        return tuple(health._latency._labelnames)
    return tuple(family._labelnames)  # type: ignore[attr-defined]


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = table(sections(page("metrics.md"))["The metrics"])
    assert len({row[0] for row in rows}) == len(rows)
    assert all(row[3] for row in rows)
    return {name: (kind, tuple(re.findall(r"`(\w+)`", names))) for name, kind, names, _ in rows}


def test_the_page_has_every_metric(tmp_path):
    found = exported(tmp_path)
    assert len(found) > 20
    assert documented() == found


def test_the_page_has_every_alert():
    rules = yaml.safe_load((ROOT / "configs" / "prometheus" / "narrated.rules.yml").read_text())
    named = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert [row[0] for row in table(sections(page("metrics.md"))["Alert rules"])] == named
