"""Runs side by side: nobody trains on for a comparison that was killed."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

BUSY = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from train.papers.side_by_side import end_with_parent
if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=end_with_parent)
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 3600).result()
"""


def test_who_works_for_a_killed_comparison_ends(tmp_path: Path) -> None:
    script = tmp_path / "busy.py"
    script.write_text(BUSY, encoding="utf-8")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        ended, _, _ = select.select([worker], [], [], 120)
    finally:
        os.close(worker)
    assert ended, "it still works"
