"""The worker's unit is sound and hardened, as far as systemd's own tools tell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from confined_units import assert_sound, exposure, needs_systemd, runnable

from daemon.threads.narrator_thread import BATCH_LIMIT_S

UNIT = Path(__file__).parents[2] / "systemd" / "narrated-worker.service"


@needs_systemd
def test_systemd_finds_nothing_and_exposure_is_low(tmp_path: Path) -> None:
    unit = runnable(UNIT, tmp_path)
    assert_sound(unit)
    assert exposure(unit) <= 1.5


def test_the_watchdog_waits_for_the_longest_batch() -> None:
    (seconds,) = re.findall(r"^WatchdogSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert int(seconds) >= 2 * BATCH_LIMIT_S


def test_without_its_credential_it_ends_and_is_not_tried_again() -> None:
    """As systemd runs it: `$$` is a dollar sign."""
    text = UNIT.read_text()
    (line,) = re.findall(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)
    (final,) = re.findall(r"^RestartPreventExitStatus=(.*)$", text, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "daemon.cli", *line.replace("$$", "$").split()],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "CREDENTIALS_DIRECTORY"},
        timeout=300,
        check=False,
    )
    assert str(done.returncode) in final.split(), done.stderr
    assert "LoadCredential=redis:" in done.stderr
