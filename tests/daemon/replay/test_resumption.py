"""An interrupted replay goes on, and writes what one writes that nobody interrupted."""

import json
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
from running_daemon import until

from daemon import cli
from daemon.questions.question import LocalTime
from daemon.replay import files
from daemon.search.search import Search
from pipeline.camera_state import CameraMemory
from pipeline.journal.verification import verify
from pipeline.narration.narration import FrameStamp
from pipeline.publisher import stream_key

WRITTEN = ("narrations.jsonl", "east.vtt", "north.vtt", "west.vtt", "report.html")


@pytest.fixture(scope="module")
def undisturbed(footage, checkpoint, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert cli.main(["replay", str(footage), "--out", str(out), "--captioner-file", str(checkpoint)]) == 0
    return out


def interrupted_after(monkeypatch: pytest.MonkeyPatch, cameras: int) -> None:
    """SIGTERM just after so many cameras have been finished; a closed terminal ends a replay at once."""
    real, finished, hangup = files.OutputFolder.finish_camera, [], signal.getsignal(signal.SIGHUP)

    def finish(self: files.OutputFolder, camera: str, outcome: object) -> None:
        real(self, camera, outcome)  # type: ignore[arg-type]
        finished.append(camera)
        if len(finished) == cameras:
            assert signal.getsignal(signal.SIGHUP) == hangup
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(files.OutputFolder, "finish_camera", finish)


@pytest.mark.parametrize("cameras", [2, 3])
def test_a_resumed_replay_equals_one_that_nobody_interrupted(
    narrated, footage, undisturbed, checkpoint, tmp_path, server, monkeypatch, cameras
):
    import redis

    out = tmp_path / "out"
    client = redis.Redis.from_url(server.url)
    client.flushall()
    arguments = ["replay", footage, "--out", out, "--redis", server.url, "--captioner-file", checkpoint]
    with monkeypatch.context() as patch:
        interrupted_after(patch, cameras)
        broken = narrated(*arguments)
    assert broken.code == 130
    assert "--resume continues" in broken.err
    assert verify([out / "narrations.jsonl", out / "journal"]).ok
    if lost := cameras == 2:  # as a power failure may leave it; its camera is narrated again
        min(path for path in (out / "evidence").rglob("*") if path.is_file()).unlink()
    done = narrated(*arguments, "--resume")
    assert done.code == 0, done.err
    shown = len(done.out.splitlines())
    assert shown == 4 if lost else shown <= 6 - 2 * cameras  # finished cameras are not reported again
    pictures = [{p.name for p in (f / "evidence").rglob("*") if p.is_file()} for f in (out, undisturbed)]
    assert pictures[0] == pictures[1]
    for name in WRITTEN:
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes(), name
    assert not list(out.glob(".*"))
    assert not (out / "unfinished.json").exists()
    published = {
        name: [fields[b"json"] for _, fields in client.xrange(stream_key(name))]
        for name in ("east", "north", "west")
    }
    client.close()
    lines = (out / "narrations.jsonl").read_bytes().splitlines()
    assert sum(map(len, published.values())) == len(lines)
    assert {line for each in published.values() for line in each} == set(lines)


def test_what_is_there_now_is_not_known_after_a_replay(tmp_path):
    ended = datetime(2026, 11, 28, 10, tzinfo=UTC)
    outcome = files.Outcome(first=ended, last=ended, read_s=0, problems=(), repeated=0)
    files.OutputFolder(tmp_path, "of").finish_camera("yard", outcome)
    (tmp_path / "journal").mkdir()
    with Search(tmp_path / "journal", LocalTime.named("UTC")) as search:
        assert search.selection.last_seen() == {"yard": ended}


def finished_cameras(out: Path) -> list[str]:
    """The cameras that a resumed replay need not look at."""
    try:
        return list(json.loads((out / "unfinished.json").read_text())["finished"])
    except FileNotFoundError:
        return []


HELD_UP = """
import time
from daemon.replay.files import OutputFolder
finish = OutputFolder.finish_camera
first = lambda self, camera, outcome: finish(self, camera, outcome) if camera == "east" else time.sleep(600)
OutputFolder.finish_camera = first
"""
"""However quick the machine is, it is killed after its first camera and before its second has ended."""


def test_a_killed_replay_goes_on(narrated, forked, footage, undisturbed, checkpoint, tmp_path):
    """SIGKILL lets nobody tidy up."""
    out = tmp_path / "out"
    arguments = ["replay", footage, "--out", out, "--captioner-file", checkpoint]
    process = forked(*arguments, first=HELD_UP)
    until(process, lambda: "east" in finished_cameras(out))
    second = narrated(*arguments, "--force")
    assert (second.code, "another replay" in second.err) == (1, True)
    process.kill()
    process.wait(300)
    refused = narrated(*arguments)
    assert (refused.code, "--resume" in refused.err) == (1, True)
    done = narrated(*arguments, "--resume")
    assert done.code == 0, done.err
    for name in WRITTEN:
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes(), name


def test_what_cannot_go_on(narrated, footage, checkpoint, tmp_path, monkeypatch):
    out = tmp_path / "out"
    arguments = ["replay", footage, "--out", out, "--captioner-file", checkpoint]
    with monkeypatch.context() as patch:
        interrupted_after(patch, 1)
        narrated(*arguments)
    kept = json.loads((out / "unfinished.json").read_text())
    assert list(kept["finished"]) == ["east"]
    CameraMemory(tmp_path / "west.json").save(FrameStamp(datetime(2026, 11, 28, tzinfo=UTC), 0, ""), None)
    for changed in (["--to", "20s"], ["--fast"], ["--state", tmp_path]):
        other = narrated(*arguments, "--resume", *changed)
        assert (other.code, len(other.err.splitlines())) == (1, 1)
        assert "same arguments" in other.err
    assert json.loads((out / "unfinished.json").read_text()) == kept
    (out / "unfinished.json").write_text("{")
    assert "--force" in narrated(*arguments, "--resume").err
    assert narrated(*arguments, "--force").code == 0
    complete = narrated(*arguments, "--resume")
    assert (complete.code, "no interrupted replay" in complete.err) == (1, True)
    for wrong in (["--resume", "--force", "--out", out], ["--resume"]):
        assert narrated("replay", footage, *wrong, "--captioner-file", checkpoint).code == 2
