"""docs/metrics.md has every metric that there is and no other, and its alerts fire when they should."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import ROOT, code_blocks, page, sections, table

KINDS = {"GaugeMetricFamily": "gauge", "CounterMetricFamily": "counter", "Histogram": "histogram"}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)
# What is to be seen of a fault, minute by minute, beside which alert it must raise.
FAULTS = {
    "NarratedDown": 'up{job="narrated"}: 0x90',
    "NarratedNotReady": "narrated_ready: 0x90",
    "NarratedHangs": "narrated_loops_hanging: 1x90",
    "NarratedCameraAway": 'narrated_camera_state{stream="main",state="backing off"}: 1x90',
    "NarratedNotPublished": "narrated_publishing_failing: 1x90",
    "NarratedDiskTakesNothing": "narrated_held: 3x90",
    "NarratedTooSlow": "narrated_pair_wait_seconds: 25x90",
    "NarratedDropsPairs": 'narrated_pairs_total{fate="dropped",reason="newer came"}: _x85 1x5',
    "NarratedCaptionerFails": 'narrated_told_by_facts_total{reason="failed"}: 7x85 8x5',
    "NarratedEvidenceFails": 'narrated_evidence_total{fate="failed"}: 0x85 1x5',
    "NarratedCapped": "narrated_capped: 1x90",
    "NarratedClockWrong": "narrated_camera_skew_seconds: -5x90",
    "NarratedReloadRefused": 'narrated_reloads_total{outcome="refused"}: 0x85 1x5',
    "NarratedRetentionBlocked": "narrated_retention_unpublished: 1x90",
    "NarratedLate": 'narrated_capture_to_narration_seconds_bucket{le="10"}: 0x90, '
    'narrated_capture_to_narration_seconds_bucket{le="30"}: 0+1x90, '
    'narrated_capture_to_narration_seconds_bucket{le="+Inf"}: 0+1x90',
    "NarratedMemory": 'process_resident_memory_bytes{job="narrated"}: 4000000000x90',
}
CALM = {
    "up": 'up{job="narrated"}: 1x90',
    "ready": "narrated_ready: 1x90",
    "away for a moment": 'narrated_camera_state{stream="main",state="stalled"}: 0x80 1x5 0x5',
    "footage ended": 'narrated_camera_state{stream="main",state="ended"}: 1x90',
    "suppressed": 'narrated_pairs_total{fate="suppressed",reason="cooldown"}: 0+1x90',
    "dropped long ago": 'narrated_pairs_total{fate="dropped",reason="failed"}: 5x90',
    "late": 'narrated_told_by_facts_total{reason="late"}: 0+1x90',
    "in time": 'narrated_capture_to_narration_seconds_bucket{le="1"}: 0+1x90, '
    'narrated_capture_to_narration_seconds_bucket{le="+Inf"}: 0+1x90',
}


def exported() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, kind and labels of every metric that a module of the daemon makes."""
    for path in sorted((ROOT / "daemon").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                yield from _made(function)


def _made(function: ast.FunctionDef) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    lists = {
        node.targets[0].id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and (kind := KINDS.get(getattr(call.func, "id", ""))):
            name = ast.literal_eval(call.args[0])
            third = call.args[2] if len(call.args) > 2 and kind == "histogram" else ast.List([])
            labels = next((word.value for word in call.keywords if word.arg == "labels"), third)
            yield name + "_total" * (kind == "counter"), kind, tuple(_labels(labels, lists))


def _labels(labels: ast.expr, lists: dict[str, ast.expr]) -> Iterator[str]:
    match labels:
        case ast.List(elts):
            for each in elts:
                yield from _labels(each, lists)
        case ast.Starred(value):
            yield from _labels(value, lists)
        case ast.Name(name):
            yield from _labels(lists[name], lists)
        case ast.Constant(str(text)):
            yield text


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = table(sections(page("metrics.md"))["The metrics"])
    assert len({row[0] for row in rows}) == len(rows)
    assert all(row[3] for row in rows)
    return {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _ in rows}


def rules() -> dict[str, Any]:
    (groups,) = (
        yaml.safe_load(block) for block in code_blocks(page("metrics.md"), "yaml") if "alert:" in block
    )
    return groups


def test_the_page_has_every_metric() -> None:
    found = list(exported())
    assert len(found) > 30
    assert documented() == {name: (kind, labels) for name, kind, labels in found}


def test_alerts_go_by_metrics_and_labels_that_there_are() -> None:
    metrics = documented()
    for rule in rules()["groups"][0]["rules"]:
        used = re.findall(r"\b(narrated_\w+?)(?:_bucket)?(?:\{(.*?)\}|\b)", rule["expr"])
        assert used or "process_" in rule["expr"] or "up{" in rule["expr"]
        labels = set().union(*(metrics[name][1] for name, _ in used))
        for name, chosen in used:
            assert set(re.findall(r"(\w+)=", chosen)) <= set(metrics[name][1]), rule["alert"]
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= labels, rule["alert"]


def test_every_alert_is_tried() -> None:
    assert [rule["alert"] for rule in rules()["groups"][0]["rules"]] == list(FAULTS)


@needs_promtool
def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules()))
    tests = [_tried(FAULTS.values(), fires=FAULTS), _tried(CALM.values(), fires=())]
    trial = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(trial))
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "tests.yml"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _tried(seen: Iterable[str], fires: Iterable[str]) -> dict[str, Any]:
    """All at once: each alert has a metric of its own, and a trial of one costs a database."""
    series = [part.rsplit(": ", 1) for each in seen for part in each.split(", ")]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "90m",
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in fires],
            }
        ],
    }
