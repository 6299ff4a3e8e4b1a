"""`narrated run` as systemd runs it: a process of its own, signals, a notify socket, a real server."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from running_daemon import until, unused_port

from pipeline.journal import read_journal
from pipeline.journal.verification import verify
from pipeline.publisher import subscribe

UNIT = Path(__file__).parents[3] / "systemd" / "narrated.service"


def ended(process: Any) -> str:
    """Waits for the end of the process; what it wrote to stderr."""
    return process.communicate(timeout=300)[1]


def test_one_that_is_away_delays_nobody_a_second_daemon_is_refused_and_sigterm_ends_within_five_seconds(
    start, clip, tmp_path, notify, server
):
    away = f"  away: {{url: 'rtsp://me:hunter2@127.0.0.1:{unused_port()}/s'}}\n"
    process = start(f"{away}  porch: {{url: {clip}}}\n", server.url, notify)
    notify.wait_for("READY=1")
    notify.wait_for("WATCHDOG=1")
    published = subscribe(server.url, ["porch"], "0")
    assert next(published).text == "A box has appeared."
    published.close()
    second = start(f"  porch: {{url: {clip}}}\n")
    refusal = ended(second)
    assert second.returncode == 1
    assert "written by another process" in refusal
    assert "Traceback" not in refusal
    notify.heard.clear()
    notify.wait_for("WATCHDOG=1")  # a camera that is away is no daemon that hangs
    crowding = max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))  # the promise is of a calm machine
    began = time.monotonic()
    for _ in range(2):  # GNU timeout, and others, signal the process and then its group
        process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
    err = ended(process)
    assert time.monotonic() - began < 5 * crowding
    assert process.returncode == 0, err
    notify.wait_for("STOPPING=1")
    assert "ended: " in err
    assert "refused" in err
    assert "hunter2" not in err
    assert verify([tmp_path / "state" / "journal" / "porch.jsonl"]).ok


def damaged(clip: Path, path: Path) -> Path:
    """The clip with noise in the midst of its pictures."""
    content = bytearray(clip.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(range(1, 201)) * 2
    path.write_bytes(content)
    return path


def test_damaged_footage_exits_with_three_and_a_restart_writes_no_record_twice(
    start, clip, visited_clip, tmp_path
):
    """What the unit does: it starts the daemon again, after crashes too, but for some exit codes."""
    prevented = re.search(r"^RestartPreventExitStatus=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert prevented
    cameras = (
        f"  broken: {{url: {damaged(clip, tmp_path / 'broken.mp4')}}}\n  fine: {{url: {visited_clip}}}\n"
    )
    journals = tmp_path / "state" / "journal"
    codes = []
    while len(codes) < 5 and not (codes and str(codes[-1]) in prevented[1].split()):
        process = start(cameras)
        if not codes:  # a crash while footage is narrated
            until(process, lambda: any(path.stat().st_size for path in journals.glob("*.jsonl")))
            process.kill()
        ended(process)
        codes.append(process.returncode)
    assert codes == [-9, 3]
    ids = [record.id for path in sorted(journals.glob("*.jsonl")) for record in read_journal(path)]
    assert len(ids) == len(set(ids)) > 2
    process = start(cameras)  # an administrator starts it once more
    ended(process)
    again = [record.id for path in sorted(journals.glob("*.jsonl")) for record in read_journal(path)]
    assert (process.returncode, again) == (3, ids)
    assert verify([journals]).ok


def test_narrations_that_no_journal_takes_end_it_with_an_error(start, clip, tmp_path):
    journal = tmp_path / "state" / "journal" / "porch.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("no record\n" * 3)
    process = start(f"  porch: {{url: {clip}}}\n")
    assert "narrations lost: 2" in ended(process)
    assert process.returncode == 1
    assert journal.read_text() == "no record\n" * 3
