"""`narrated demo` ends in the page, where somebody is at a terminal."""

import os
import pty
import re
import signal

import httpx
import pytest
from waiting import LIMIT_S


@pytest.mark.slow
def test_it_serves_at_a_terminal_until_ctrl_c(forked, clip, tmp_path):
    ours, theirs = pty.openpty()
    process = forked("demo", clip, "--out", tmp_path / "demo", into=theirs, err=theirs)
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
                        assert page.status_code == 200
                        assert "Times are those of this machine" in page.text
                        process.send_signal(signal.SIGINT)
            except OSError:
                pass  # a terminal whose last user has gone
        assert process.wait(LIMIT_S) == 0, told
    finally:
        process.kill()
    assert re.search(r"narrations?\b", told)
    assert "Ctrl-C ends it" in told
