"""Every benchmark of speed and memory, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run each `bench_*.py` beside this file; a failure of one is told and does not stop the others."""
    failed = []
    for script in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"\n## {script.name}\n", flush=True)
        if subprocess.run([sys.executable, script], check=False).returncode:
            failed.append(script.name)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
