"""The bar of `narrated verify`: on stderr, and only where that is a terminal (for replay see test_replay)."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


def on_a_terminal(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output, and what the terminal on standard error was given."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        try:
            while piece := os.read(ours, 4096):
                shown.extend(piece)
        except OSError:  # nobody holds the other end any more
            return

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run(
        [sys.executable, "-m", "daemon.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return done.returncode, done.stdout.decode(), shown.decode()


def test_verify_shows_how_far_it_is(
    clip: Path, checkpoint: Path, tmp_path: Path, narrated: Callable[..., Any]
) -> None:
    assert narrated("replay", clip, "--out", tmp_path / "out", "--captioner-file", checkpoint).code == 0
    code, out, shown = on_a_terminal("verify", tmp_path / "out" / "narrations.jsonl")
    assert code == 0, shown
    assert "checking" in shown
    assert "━" in shown
    assert "2 records" in out
    assert "checking" not in out
    piped = narrated("verify", tmp_path / "out" / "narrations.jsonl")
    assert (piped.code, piped.out, piped.err) == (0, out, "")
