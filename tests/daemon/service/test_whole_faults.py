"""The running daemon while its narrator hangs, and at its end."""

import json
import signal
import time

from running_daemon import page, until, unused_port

from pipeline.journal import read_journal
from pipeline.journal.verification import verify

OFTEN = "pairs: {sample: 4/s, lower: 20, upper: 250}, narrate: {cooldown: 0s, max_per_hour: null}"

HANGING = """
import time
from pathlib import Path
from daemon.threads import narrator
from daemon.threads.narrator import Narrator

narrator.BATCH_LIMIT_S = 1.0  # of a batch that hangs; a minute in earnest
process = Narrator.process

def hang(self, *batch):
    while Path("HANG").exists():
        Path("HANGing").touch()
        time.sleep(0.05)
    return process(self, *batch)

Narrator.process = hang
"""


def test_a_narrator_that_hangs_feeds_no_watchdog_and_delays_no_end(
    start, still, tmp_path, notify, rtsp_server, free_port
):
    rtsp_server(port=free_port)
    port = unused_port()
    process = start(
        f"  lot: {{url: {still}}}\n  ball: {{url: 'rtsp://127.0.0.1:{free_port}/stream', {OFTEN}}}\n",
        None,
        notify,
        more=f"http: {{listen: '127.0.0.1:{port}'}}\n",
        first=HANGING.replace("HANG", str(tmp_path / "hang")),
    )
    journal = tmp_path / "state" / "journal" / "ball.jsonl"
    notify.wait_for("READY=1")
    notify.wait_for("WATCHDOG=1")
    until(process, lambda: page(port, "/healthz")[0] == 200)
    (tmp_path / "hang").touch()
    _, text = until(process, lambda: (found := page(port, "/healthz"))[0] == 503 and found)
    assert json.loads(text)["hanging"] == ["narrator"]
    while notify.heard:  # what was said before
        notify.heard.clear()
        notify.listen()
    end = time.monotonic() + 2.5  # it would be fed every second
    while time.monotonic() < end:
        notify.listen()
    assert not any("WATCHDOG" in message for message in notify.heard)
    told = len(journal.read_bytes().splitlines())
    (tmp_path / "hang").unlink()
    notify.wait_for("WATCHDOG=1")
    until(process, lambda: len(journal.read_bytes().splitlines()) > told)

    # At its end the narrator takes longer over its batch than that waits: what is in hand is not seen.
    (tmp_path / "hanging").unlink()
    (tmp_path / "hang").touch()
    until(process, (tmp_path / "hanging").exists)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert verify([journal]).ok
    *_, last = read_journal(journal)
    assert (last.event, last.reason) == ("gap", "overload")
    assert last.since is not None
    assert last.since < last.after.time
    assert "not analysed before shutdown" in err
    assert "neither written nor held" not in err
    state = tmp_path / "state"
    written = [state, *state.rglob("*")]  # of a live camera
    assert [path for path in written if path.stat().st_mode & 0o027] == []
