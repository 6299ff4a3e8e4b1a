"""`narrated run` in a process of its own: its operator's signals, pages and metrics, and systemd's socket."""

import itertools
import json
import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

from running_daemon import metrics, page, until, unused_port

from pipeline.journal import read_journal
from pipeline.journal.verification import verify
from pipeline.publisher import subscribe

UNIT = Path(__file__).parents[3] / "systemd" / "narrated.service"
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


def test_pages_metrics_and_reload(start, clip, other_clip, tmp_path, server):
    port, config, journals = unused_port(), tmp_path / "narrated.yaml", tmp_path / "state" / "journal"
    away = f"rtsp://127.0.0.1:{unused_port()}/s"
    http = f"http: {{listen: '127.0.0.1:{port}'}}\n"
    umask = os.umask(0o022)
    try:
        process = start(
            f"  hall: {{url: {clip}}}\n  gate: {{url: '{away}'}}\n  shed: {{url: '{away}'}}\n",
            server.url,
            more=http,
        )
    finally:
        os.umask(umask)
    until(process, lambda: '"watching"' in page(port, "/readyz")[1])
    code, text = page(port, "/healthz")
    assert (code, json.loads(text)["ok"]) == (200, True)
    assert {"main", "narrator", "publisher", "http"} <= set(json.loads(text)["seconds_since_progress"])
    until(process, lambda: metrics(port).get(("narrations_total", "hall")) == 2)
    until(process, lambda: metrics(port)["unpublished", "hall"] == 0)
    told = metrics(port)
    assert not any("screening" in key for key in told)
    assert told["stage_seconds_total", "hall", "screen"] > 0
    assert told["journal_bytes", "hall"] == (journals / "hall.jsonl").stat().st_size
    assert page(port, "/")[0] == 404

    # A broken file changes nothing, and says where it is broken.
    whole = config.read_text()
    config.write_text(whole.replace("url: 'rtsp", "urk: 'rtsp"))
    process.send_signal(signal.SIGHUP)
    until(process, lambda: metrics(port)["reloads_total", "refused"] == 1)
    assert set(json.loads(page(port, "/readyz")[1])["cameras"]) == {"hall", "gate", "shed"}

    # One comes, one goes, one changes; the untouched file is not read a second time.
    config.write_text(
        whole.replace(f"  shed: {{url: '{away}'}}\n", f"  yard: {{url: {other_clip}}}\n").replace(
            f"gate: {{url: '{away}'}}", f"gate: {{url: {other_clip}}}"
        )
        + "rules: [{name: r, when: a van comes}]\n"
    )
    process.send_signal(signal.SIGHUP)
    until(process, lambda: metrics(port)["reloads_total", "taken"] == 1)
    _, err = process.communicate(timeout=300)  # all footage has ended, so the daemon ends
    assert process.returncode == 0
    assert "1 rule changed" in err
    line = next(line for line in err.splitlines() if "urk" in line)
    assert "narrated.yaml:" in line  # which line of the file
    assert "url" in line
    assert verify([journals]).ok
    told_by = {path.stem: list(read_journal(path)) for path in journals.glob("*.jsonl")}
    assert {name: len(records) for name, records in told_by.items()} == {
        "hall": 2,
        "gate": 2,
        "yard": 2,
        "shed": 0,
    }
    for camera in ("hall", "gate"):
        published = subscribe(server.url, [camera], "0")
        assert [next(published), next(published)] == told_by[camera]
        published.close()
    written = list((tmp_path / "state").rglob("*"))
    assert [path for path in written if path.stat().st_mode & 0o027] == []  # for its group at most


def test_it_has_started_when_the_model_is_loaded_and_every_camera_was_tried(start, notify):
    port = unused_port()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/s"
        camera = f"  yard: {{url: '{url}', pairs: {{lower: 20, upper: 250}}}}\n"
        process = start(camera, None, notify, more=f"http: {{listen: '127.0.0.1:{port}'}}\n")
        phases = []

        def ready() -> bool:
            notify.listen()
            told = any("READY" in message for message in notify.heard)
            code, text = page(port, "/readyz")
            if code:
                phases.append(json.loads(text)["phase"])
            assert not told or phases[-1:] == ["watching"]
            return phases[-1:] == ["watching"]

        until(process, ready)
        notify.wait_for("READY=1")
        seen = [phase for phase, _ in itertools.groupby(phases)]
        assert seen == ["opening the cameras", "watching"]
        code, text = page(port, "/readyz")  # systemd need not wait for a camera, but nothing is seen
        assert (code, json.loads(text)["ready"]) == (503, False)
        assert json.loads(text)["reasons"][0].startswith("no camera sends pictures: yard (")
        status = next(message for message in notify.heard if "STATUS=" in message)
        assert "cameras running: 1 of 1, narrations: 0" in status
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def test_a_sub_stream_is_seen_as_the_main_stream_is(start, still, tmp_path, rtsp_server):
    port, large, small = unused_port(), unused_port(), unused_port()
    rtsp_server(port=large)
    server = rtsp_server(port=small)
    urls = f"url: 'rtsp://127.0.0.1:{large}/still', screening: 'rtsp://127.0.0.1:{small}/small'"
    process = start(
        f"  lot: {{url: {still}}}\n  yard: {{{urls}, pairs: {{lower: 20, upper: 250}}}}\n",
        more=f"http: {{listen: '127.0.0.1:{port}'}}\n",
    )

    def told(name: str, *labels: str) -> float:
        return metrics(port).get((name, "yard", *labels, "screening"), 0)

    until(process, lambda: told("frames_total", "sampled") > 2)
    assert told("camera_state", "streaming") == 1
    assert told("frames_total", "decoded") > told("frames_total", "sampled")
    assert told("reconnections_total") == 0
    for path in ("/readyz", "/healthz"):
        assert json.loads(page(port, path)[1])["screening"] == {"yard": "streaming"}
    server.kill()
    until(process, lambda: told("camera_state", "streaming") == 0)
    assert json.loads(page(port, "/healthz")[1])["screening"]["yard"] in {"backing off", "connecting"}
    assert json.loads(page(port, "/readyz")[1])["cameras"]["yard"] == "streaming"
    frames = told("frames_total", "sampled")
    server.start()
    until(process, lambda: told("frames_total", "sampled") > frames)
    assert told("reconnections_total") == 1
    assert metrics(port)["reconnections_total", "yard", "main"] == 0
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 0


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
