"""The running daemon as its operator meets it: pages, metrics, SIGHUP, no secret anywhere."""

import itertools
import json
import os
import signal
import socket

from running_daemon import metrics, page, until, unused_port

from pipeline.journal import read_journal
from pipeline.journal.verification import verify
from pipeline.publisher import subscribe


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
