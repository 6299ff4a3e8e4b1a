"""The dashboard and the alerts: tried by Prometheus' own tool, and about metrics that the daemon exports."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import page, sections, table
from narrations import narration

from daemon.service.health import VERIFIED, verification
from pipeline.journal import Journal

ROOT = Path(__file__).parents[3]
RULES = ROOT / "configs" / "prometheus" / "narrated.rules.yml"
TRIED = Path(__file__).with_name("narrated.rules.test.yml")
DASHBOARD = ROOT / "configs" / "grafana" / "narrated.json"
METRIC = re.compile(r"\b((?:narrated|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (apt install prometheus)"
)


def promtool(*arguments: object) -> None:
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def drawn() -> list[str]:
    """What the panels ask for, with Grafana's variables as Prometheus gets them."""
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]
    whole = "\n".join(target["expr"] for panel in panels for target in panel["targets"])
    whole = whole.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$camera", ".*")
    return whole.splitlines()


@needs_promtool
def test_the_alerts_ring_when_they_must_and_not_else():
    promtool("check", "rules", RULES)
    promtool("test", "rules", TRIED)


def test_every_alert_is_tried_both_ways():
    tries = [one for test in yaml.safe_load(TRIED.read_text())["tests"] for one in test["alert_rule_test"]]
    for rings in (True, False):
        tried = {one["alertname"] for one in tries if bool(one["exp_alerts"]) == rings}
        assert tried == {rule["alert"] for rule in rules()}


@needs_promtool
def test_prometheus_understands_every_panel(tmp_path):
    records = [{"record": f"panel:{n}", "expr": expression} for n, expression in enumerate(drawn())]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    promtool("check", "rules", file)


def test_every_metric_is_documented_with_its_labels():
    """`tests/docs/test_metrics.py` holds that the page has what the daemon exports."""
    documented = {}
    for name, kind, labels, _ in table(sections(page("metrics.md"))["The metrics"]):
        suffixes = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
        own = {"le"} if kind == "histogram" else set()
        documented |= {name + suffix: {*re.findall(r"`(\w+)`", labels), *own} for suffix in suffixes}
    asked = [*drawn(), *(rule["expr"] for rule in rules())]
    named = [each for expression in asked for each in METRIC.findall(expression) if "process_" not in each[0]]
    assert len({name for name, _ in named}) > 20
    for name, matchers in named:
        assert set(re.findall(r"(\w+)\s*=", matchers)) - {"job", "instance"} <= documented[name], name


def told(state: Path) -> dict[str, float]:
    return {family.name: family.samples[0].value for family in verification(state)}


def test_the_last_verification_is_told(tmp_path):
    assert told(tmp_path) == {}
    path = tmp_path / VERIFIED
    texts = {'{"ok": true}': 1, '{"ok": true, "unchecked": 0}': 1, '{"ok": true, "unchecked": 4}': 0}
    for text, held in (texts | {'{"ok": false}': 0, "": 0, "[]": 0, '{"ok": 1}': 0}).items():
        path.write_text(text)
        assert told(tmp_path)["narrated_verified"] == held, text
    os.utime(path, (time.time() - 500, time.time() - 500))
    assert 499 < told(tmp_path)["narrated_verification_age_seconds"] < 600


def test_the_unit_leaves_what_the_metrics_read(tmp_path):
    """Its own command line, with this tree's program: of a record that holds, and of one that was changed."""
    unit = (ROOT / "systemd" / "narrated-verify.service").read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program = tmp_path / "narrated"
    program.write_text(f"""#!/bin/sh\nexec "{sys.executable}" -m daemon.cli "$@"\n""")
    program.chmod(0o755)
    (script,) = re.findall(r"^/bin/sh -c '(.*)'$", line)
    script = script.replace("$$", "$").replace("/opt/narrated/bin/narrated", str(program))

    def run() -> int:
        environment = {**os.environ, "STATE_DIRECTORY": str(tmp_path)}
        command = ["sh", "-c", script]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode

    with Journal(tmp_path / "journal", "room", fsync=False) as journal:
        journal.append(narration(camera="room"))
    assert run() == 0
    assert told(tmp_path)["narrated_verified"] == 1
    (file,) = (tmp_path / "journal").glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b"A car", b"A cat"))
    assert run() == 1
    assert told(tmp_path)["narrated_verified"] == 0
    assert not (tmp_path / "verified.part").exists()
