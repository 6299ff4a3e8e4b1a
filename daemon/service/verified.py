"""What `narrated verify --json` has last found, for the metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

FILE = "verified.json"
"""Its name in the state folder, where systemd/narrated-verify.service puts it."""


def verification(state: Path) -> Iterator[Metric]:
    """Whether the record held, and how long ago; nothing where nobody has verified it."""
    path = state / FILE
    try:
        held = json.loads(path.read_bytes())["ok"] is True
        age_s = max(0.0, time.time() - path.stat().st_mtime)
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):  # ended before it could tell: that is no "it holds"
        held, age_s = False, 0.0
    yield GaugeMetricFamily("narrated_verified", "1 where the record held at the last look.", float(held))
    yield GaugeMetricFamily("narrated_verification_age_seconds", "Since that look.", age_s)
