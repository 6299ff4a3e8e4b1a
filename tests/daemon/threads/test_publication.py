"""The publisher's thread, with real journals and a real server."""

import os
import signal

import pytest
import redis
from embedded_redis import EmbeddedServer
from narrations import narration
from waiting import until

from daemon.threads import publication as module
from daemon.threads.publication import Publishing
from pipeline.journal import Journal
from pipeline.journal.verification import verify
from pipeline.publisher import RedisServer, lease_key, stream_key


@pytest.fixture
def server():
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def client(server):
    with redis.Redis.from_url(server.url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def journals(tmp_path):
    opened = {name: Journal(tmp_path / "journal", name, fsync=False, hold=100) for name in ("yard", "lot")}
    yield opened
    for journal in opened.values():
        journal.close()


@pytest.fixture
def publish(journals, server, monkeypatch):
    """Runs a publisher's thread that asks again soon."""
    monkeypatch.setattr(module, "RENEW_S", 0.05)
    monkeypatch.setattr(module, "_SETTLE_S", 0.02)
    running = []

    def start():
        running.append(Publishing(journals, RedisServer(server.url, 1)))
        running[-1].loop.start()
        return running[-1]

    yield start
    for each in running:
        each.finish(5)
        each.loop.raise_error()


def ids(client, camera):
    return [fields["id"] for _, fields in client.xrange(stream_key(camera))]


def tell(journals, publishing, camera, seconds):
    for second in seconds:
        journals[camera].append(narration(second, camera))
        publishing.loop.wake()


@pytest.mark.logs_errors
def test_one_camera_with_another_writer_delays_no_other(publish, journals, client, server, caplog):
    client.set(lease_key("yard"), "f" * 32 + "@another")
    publishing = publish()
    for camera in journals:
        tell(journals, publishing, camera, range(5))
    until(lambda: len(ids(client, "lot")) == 5)
    until(lambda: "yard" in publishing.errors)
    assert "is written by another daemon" in publishing.errors["yard"]
    until(lambda: journals["lot"].published.seq == 5)
    assert publishing.stopped == publishing.errors["yard"]  # all that waits is refused
    assert ids(client, "yard") == []
    client.delete(lease_key("yard"))
    until(lambda: len(ids(client, "yard")) == 5)
    until(lambda: not publishing.errors)
    assert publishing.stopped == ""
    assert caplog.text.count("camera yard is not published: narrated") == 1


def test_a_removed_camera_gives_up_its_lease_and_a_new_one_is_published(publish, journals, client, tmp_path):
    publishing = publish()
    tell(journals, publishing, "yard", range(2))
    until(lambda: journals["yard"].published.seq == 2)
    journals.pop("yard").close()
    publishing.loop.wake()
    until(lambda: not client.exists(lease_key("yard")))
    journals["gate"] = Journal(tmp_path / "journal", "gate", fsync=False)
    tell(journals, publishing, "gate", range(2))
    until(lambda: len(ids(client, "gate")) == 2)


def test_finish_says_whether_all_is_published_and_does_not_wait_for_ever(publish, journals, client, server):
    publishing = publish()
    os.kill(server._process.pid, signal.SIGSTOP)
    try:
        tell(journals, publishing, "yard", range(3))
        assert publishing.finish(0.2) is False
    finally:
        os.kill(server._process.pid, signal.SIGCONT)
    again = publish()
    until(lambda: len(ids(client, "yard")) == 3)
    assert again.finish(10)


@pytest.mark.logs_errors
@pytest.mark.parametrize("when", ["at the start", "at run time"])
def test_one_damaged_journal_is_that_cameras_trouble_only(publish, journals, client, tmp_path, when):
    """It is shown as down with the reason, what it says is held, and it goes on once that is put right."""
    folder = tmp_path / "journal"
    for second in range(3):
        journals["yard"].append(narration(second, "yard"))
    path = journals["yard"].path
    whole = path.read_bytes()
    damaged = whole + b"garbage\n" * 3 if when == "at the start" else whole.replace(b"car", b"cat")
    if when == "at the start":
        journals["yard"].close()
        path.write_bytes(damaged)
        journals["yard"] = Journal(folder, "yard", fsync=False, hold=100)
    else:
        path.write_bytes(damaged)
    publishing = publish()
    tell(journals, publishing, "lot", range(5))
    tell(journals, publishing, "yard", [3, 4])
    until(lambda: len(ids(client, "lot")) == 5)
    until(lambda: "yard" in publishing.failing)
    assert "is damaged" in publishing.failing["yard"]
    assert publishing.failing.keys() == {"yard"}
    assert ids(client, "yard") == []
    assert journals["yard"].held == (2 if when == "at the start" else 0)
    if when == "at the start":  # in one step: an empty file would be a journal that begins
        mended = path.with_suffix(".mended")
        mended.write_bytes(whole)
        mended.replace(path)
    else:  # two more lines stand behind those by now
        path.write_bytes(whole + path.read_bytes()[len(damaged) :])
    until(lambda: len(ids(client, "yard")) == 5)
    until(lambda: not publishing.failing)
    assert ids(client, "yard") == [f"yard-{second}" for second in range(5)]
    assert verify([folder]).ok


@pytest.mark.logs_errors
def test_what_is_held_is_written_although_the_server_is_away(publish, journals, server, tmp_path):
    disk = tmp_path / "journal" / "gate.jsonl"
    disk.mkdir()
    journals["gate"] = gate = Journal(tmp_path / "journal", "gate", fsync=False, hold=9)
    gate.append(narration(0, "gate"))
    server.stop()
    publishing = publish()
    until(lambda: publishing.away)
    disk.rmdir()
    until(lambda: not gate.held)
