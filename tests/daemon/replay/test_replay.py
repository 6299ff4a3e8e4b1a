"""Replay: the same footage gives the same narrations, and what cannot be read is reported."""

import contextlib
import json
import os
import signal
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from models.grounded.inference import OnnxDetector
from pipeline.camera_state import CameraMemory
from pipeline.journal import read_journal
from pipeline.journal.verification import verify
from pipeline.narration.narration import FrameStamp
from pipeline.publisher import stream_key
from pipeline.record import read_record


def test_an_arrival_and_a_departure_are_narrated_into_records_subtitles_and_a_page(replay, clip, tmp_path):
    out = tmp_path / "out"
    arguments = [clip, "--out", out]
    done = replay(*arguments, "--start", "2026-05-01T12:00:00Z")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert [line.split("  ")[1:] for line in lines] == [
        ["A box has appeared.", "[room]"],
        ["The box is gone.", "[room]"],
    ]
    assert "00:00:08" <= lines[0][:8] <= "00:00:11"
    assert "00:00:16" <= lines[1][:8] <= "00:00:19"
    assert "2 narrations" in done.err
    assert verify([out / "narrations.jsonl", out / "journal"]).ok
    records = [read_record(line) for line in (out / "narrations.jsonl").read_bytes().splitlines()]
    assert records[0].after.time.startswith("2026-05-01T12:00:0")
    subtitles = (out / "narrations.vtt").read_text()
    assert subtitles.startswith("WEBVTT")
    assert "00:00:0" in subtitles
    assert "A box has appeared." in subtitles
    assert "A box has appeared." in (out / "report.html").read_text()
    assert not list(out.glob(".*"))

    refused = replay(*arguments)
    assert refused.code == 1
    assert "--force" in refused.err
    assert replay(*arguments, "--force").code == 0
    assert len((out / "narrations.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.parametrize("name", ["evidence/film.mp4", "journal/yard.jsonl", "film.vtt"])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_no_replay_wrote_is_never_removed(replay, clip, tmp_path, name, force):
    """Footage in a folder called evidence, the record of a daemon, the subtitles of a film."""
    kept = tmp_path / "case" / name
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(clip.read_bytes())
    refused = replay(kept, "--out", tmp_path / "case", *force)
    assert (refused.code, f"holds {name.split('/')[0]} of no replay" in refused.err) == (1, True), refused.err
    assert kept.read_bytes() == clip.read_bytes()


def test_from_and_to(replay, clip):
    late = replay(clip, "--from", "12s")
    assert [line.split("  ")[1] for line in late.out.splitlines()] == ["The box is gone."]
    early = replay(clip, "--to", "00:00:14")
    assert [line.split("  ")[1] for line in early.out.splitlines()] == ["A box has appeared."]
    nothing = replay(clip, "--to", "2s", "--json")
    assert json.loads(nothing.out) == {"narrations": 0, "complete": True}
    behind = replay(clip, "--from", "90s")
    assert (behind.code, "all footage ends before --from" in behind.err) == (3, True)
    for span in (("5s", "2s"), ("5s", "5s"), ("2026-05-01T12:00:00Z", "2026-05-01T11:00:00Z")):
        backwards = replay(clip, "--from", span[0], "--to", span[1])
        assert backwards.code == 2
        assert "--to must be later" in backwards.err
    wrong = replay(clip, "--from", "soon")
    assert wrong.code == 2
    assert "90s" in wrong.err


def test_footage_of_a_configured_camera_has_its_settings(replay, clip, tmp_path):
    config = tmp_path / "n.yaml"
    deaf = "{lower: 254, upper: 255}"
    config.write_text(
        f"version: 1\nredis: {{url: 'redis://127.0.0.1:9'}}\n"  # asked for by --redis alone
        f"cameras: {{deaf: {{url: x, pairs: {deaf}}}, room: {{url: y}}}}\n"
    )
    arguments = [clip, "-c", config, "--camera"]
    room = replay(*arguments, "room")
    assert (room.code, room.out.count("box")) == (0, 2)
    assert replay(*arguments, "other").out.count("box") == 2
    assert replay(*arguments, "deaf").out == ""


def test_published_narrations_equal_the_journal(narrated, replay, clip, tmp_path, server):
    import redis

    arguments = [clip, "--camera", "lobby", "--redis", server.url]
    for turn in ("first", "again"):  # the second finds everything there and adds nothing
        assert replay(*arguments, "--out", tmp_path / turn).code == 0
    client = redis.Redis.from_url(server.url)
    entries = client.xrange(stream_key("lobby"))
    client.close()
    lines = (tmp_path / "again" / "narrations.jsonl").read_bytes().splitlines()
    assert [fields[b"json"] for _, fields in entries] == lines
    tail = ["tail", "--redis", server.url, "--from-start", "--camera", "lobby", "--count", 2]
    tailed = narrated(*tail, "--json")
    assert tailed.out.encode().splitlines() == lines
    assert "A box has appeared.  [lobby]" in narrated(*tail).out


@pytest.mark.logs_errors
def test_a_stream_of_other_settings_is_not_mixed_with_this_one(replay, clip, server, tmp_path):
    arguments = [clip, "--camera", "twice", "--redis", server.url]
    assert replay(*arguments).code == 0
    done = replay(*arguments, "--sample", "1/s")
    assert done.code == 3
    assert len(done.out.splitlines()) == 2
    assert "not everything is published" in done.err
    assert "Traceback" not in done.err


def test_interruption_leaves_valid_files(forked, clip, checkpoint, tmp_path):
    out = tmp_path / "out"
    many = tmp_path / "many"
    many.mkdir()
    for i in range(300):  # seconds of work are left after the first line, however slow this process is
        (many / f"clip{i:03}.mp4").symlink_to(clip)
    replay = ["replay", many, "--camera", "yard", "--out", out, "--captioner-file", checkpoint]
    ours, theirs = os.pipe()
    process = forked(*replay, out=theirs)
    os.close(theirs)
    with open(ours) as out_of_it:  # noqa: PTH123 - a descriptor
        assert out_of_it.readline()
        process.send_signal(signal.SIGINT)
        assert out_of_it.read() is not None
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "narrated: interrupted, so incomplete: yard after 00:" in err
    assert "interrupted, so incomplete: yard after 00:" in (out / "report.html").read_text()
    assert verify([out / "narrations.jsonl", out / "journal"]).ok
    assert 1 <= len((out / "narrations.jsonl").read_bytes().splitlines()) < 600


def test_the_bar_is_on_the_terminal_and_narrations_where_they_are_piped_to(forked, clip, checkpoint):
    import pty

    ours, theirs = pty.openpty()
    process = forked("replay", clip, "--captioner-file", checkpoint, err=theirs, TERM="xterm", COLUMNS="100")
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's other end has been closed
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    out, _ = process.communicate(timeout=300)
    assert len(out.splitlines()) == 2
    assert "\x1b" not in out
    assert b"A box has appeared" not in shown
    assert b"of 1 camera " in shown


def test_replay_sends_everything_unless_limits_are_asked_for(replay, busy_clip, tmp_path):
    config = tmp_path / "n.yaml"
    quiet = "narrate: {cooldown: 1m}, evidence: {keep: none}"
    config.write_text(f"version: 1\ncameras: {{room: {{url: x, {quiet}}}}}\n")
    arguments = [busy_clip, "-c", config, "--camera", "room"]
    arguments += ["--json"]
    every = [read_record(line) for line in replay(*arguments).out.splitlines()]
    assert [record.suppressed for record in every] == [0] * 6
    done = replay(*arguments, "--limits", "--out", tmp_path / "out")
    limited = [read_record(line) for line in done.out.splitlines()]
    assert [record.id for record in limited] == [every[k].id for k in (0, 1, 4, 5)]
    assert [record.suppressed for record in limited] == [0, 0, 2, 0]
    assert limited[0].config_sha256 != every[0].config_sha256
    assert not (tmp_path / "out" / "evidence").exists()
    recorded = list(read_journal(tmp_path / "out" / "journal" / "room.jsonl"))
    assert [record.id for record in recorded] == [record.id for record in every]
    assert [record.held for record in recorded] == [None, None, "cooldown", "cooldown", None, None]


def test_replay_summarizes_busy_minutes_unless_asked_not_to_and_names_what_was_learnt(
    narrated, clips, tmp_path
):
    config = tmp_path / "n.yaml"
    road = "road: {url: x, narrate: {max_per_minute: 2}}"
    config.write_text(f"version: 1\ntimezone: Asia/Tokyo\ncameras: {{{road}}}\n")
    arguments = ["replay", clips / "intel_car-detection.mp4", "-c", config, "--camera", "road"]
    arguments += ["--from", "3s", "--to", "11s", "--json"]
    short = [read_record(line) for line in narrated(*arguments).out.splitlines()]
    assert [record.event for record in short].count("summary") == 1
    arguments += ["--no-summaries", "--state", tmp_path, "--start", "2026-05-01T12:00:00Z"]
    assert narrated(*arguments).code == 2
    learnt = tmp_path / "road.json"
    learnt.write_text("{")
    assert "cannot be read" in narrated(*arguments).err
    CameraMemory(learnt).save(FrameStamp(datetime(2026, 11, 28, tzinfo=UTC), 0, ""), None)
    each = [read_record(line) for line in narrated(*arguments).out.splitlines()]
    assert {record.event for record in each} == {"change"}
    assert {record.state_sha256 for record in each} == {sha256(learnt.read_bytes()).hexdigest()}
    assert len(each) > 1
    assert "came in from the foreground at 21:00 has" in each[-1].text


@pytest.mark.logs_errors
def test_pictures_that_cannot_be_stored_are_a_problem(replay, clip, tmp_path):
    (tmp_path / "evidence").symlink_to(tmp_path / "nowhere")
    done = replay(clip, "--out", tmp_path)
    assert (done.code, len(done.out.splitlines())) == (3, 2)
    assert "2 narrations without pictures" in done.err


@pytest.mark.logs_errors
def test_frames_in_which_nothing_can_be_detected_are_a_problem(narrated, clip, monkeypatch):
    monkeypatch.setattr(OnnxDetector, "detect", lambda *_: 1 / 0)
    done = narrated("replay", clip)
    assert (done.code, "frames not analysed, because the captioner failed" in done.err) == (3, True)
    assert "narrated could not analyse it" in done.out


def test_damaged_input_is_reported_and_the_rest_narrated(replay, clip, tmp_path):
    empty, missing, out = tmp_path / os.fsdecode(b"empty\xe9.mp4"), tmp_path / "missing.mp4", tmp_path / "out"
    empty.touch()
    arguments = ["--out", out]
    for files, code in (([tmp_path / "nothing" / "*.mp4"], 1), ([missing], 3)):
        assert replay(*files, *arguments).code == code
        assert not out.exists()
    done = replay(empty, missing, clip, *arguments)
    assert done.code == 3
    assert len(done.out.splitlines()) == 2
    assert sum("empty" in line for line in done.err.splitlines()) == 1
    assert sum("missing.mp4" in line for line in done.err.splitlines()) == 1
    assert "Traceback" not in done.err
