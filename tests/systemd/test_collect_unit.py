"""The collector's unit is sound and hardened, and it allows no memory that is both written and run."""

import subprocess
import sys
from pathlib import Path

from confined_units import assert_sound, exposure, needs_systemd, runnable

UNIT = Path(__file__).parents[2] / "systemd" / "narrated-collect.service"


@needs_systemd
def test_systemd_finds_nothing_and_exposure_is_low(tmp_path):
    unit = runnable(UNIT, tmp_path)
    assert_sound(unit)
    assert exposure(unit) <= 1.3


def test_nothing_that_compiles_at_run_time_is_loaded():
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, daemon.collect.collector, daemon.collect.pictures; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"numba", "llvmlite", "onnxruntime", "torch", "cv2"} & set(shown.stdout.split())
