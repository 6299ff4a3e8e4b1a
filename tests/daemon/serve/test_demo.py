"""`narrated demo` ends in the page, where somebody is at a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest


@pytest.mark.slow
def test_it_serves_at_a_terminal_until_ctrl_c(
    forked: Callable[..., Any], clip: Path, checkpoint: Path, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    demo = ["demo", clip, "--out", tmp_path / "demo", "--captioner-file", checkpoint]
    process = forked(*demo, into=theirs, err=theirs)
    os.close(theirs)
    told = ""
    try:
        with open(ours, encoding="utf-8", errors="replace") as terminal:  # noqa: PTH123 - a descriptor
            try:
                for line in terminal:
                    told += line
                    if address := re.search(r"(http://127\.0\.0\.1:\d+)/  \(Ctrl-C ends it\)", line):
                        with httpx.Client(base_url=address[1], trust_env=False, timeout=60) as client:
                            page = client.get("/review")
                        assert "A box has appeared." in page.text
                        assert page.text.count('<img src="/picture/') == 2
                        process.send_signal(signal.SIGINT)
            except OSError:
                pass  # a terminal whose last user has gone
        assert process.wait(60) == 0, told
    finally:
        process.kill()
    assert "2 narrations" in told
    assert "Ctrl-C ends it" in told
