import threading

import pytest
from unpublished import unpublished
from waiting import LIMIT_S

from pipeline.journal import Journal
from pipeline.publisher import (
    CHANNEL,
    Delivery,
    PublisherError,
    RedisServer,
    StreamConflictError,
    stream_key,
    subscribe,
)
from pipeline.record import ChainEnd, read_record

KEY = "narrated:{yard}:changes"


def test_a_record_on_the_stream_and_on_the_channel(server, client, journal, narration, publish_to):
    """A held one is on the stream alone."""
    record, held = journal.append(narration()), journal.append(narration(1, held="hourly"))
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(CHANNEL)
        listener.get_message(timeout=LIMIT_S)
        Delivery(journal, publish_to(server.url)).drain(threading.Event())
        received = listener.get_message(timeout=LIMIT_S)
        assert listener.get_message(timeout=0.2) is None
    assert stream_key("yard") == KEY
    (entry_id, fields), (_, other) = client.xrange(KEY)
    assert read_record(other["json"]) == held
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
    assert received["data"] == fields["json"]


def test_what_another_put_on_the_stream_meanwhile_is_not_published_twice(
    server, client, journal, narration, publish_to, on_stream
):
    """As an attempt of ours does that the server carried out after we had given it up."""
    delivery, stop = Delivery(journal, publish_to(server.url)), threading.Event()
    records = [journal.append(narration(second)) for second in (5, 5)]
    assert delivery.drain(stop) == 2
    records += [journal.append(narration(second)) for second in (4, 6)]
    client.xadd(KEY, {"id": records[2].id, "json": records[2].line()}, id=records[2].stream_id)
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(CHANNEL)
        listener.get_message(timeout=LIMIT_S)
        assert delivery.drain(stop) == 2
        received = listener.get_message(timeout=LIMIT_S)
        assert listener.get_message(timeout=0.2) is None
    assert on_stream(server) == records
    assert read_record(received["data"]) == records[3]


def test_drain_publishes_what_is_not_acknowledged(
    any_server, client, journal, narration, publish_to, on_stream
):
    publisher, stop = publish_to(any_server.url), threading.Event()
    records = [journal.append(narration(second)) for second in range(700)]
    assert Delivery(journal, publisher).drain(stop) == 700
    assert Delivery(journal, publisher).drain(stop) == 0
    records.append(journal.append(narration(701)))
    assert Delivery(journal, publisher).drain(stop) == 1
    assert on_stream(any_server) == records
    client.xtrim(KEY, maxlen=0)  # its last id stays
    journal.append(narration(702))
    assert Delivery(journal, publisher).drain(stop) == 1
    assert client.xlen(KEY) == 1


@pytest.mark.parametrize("folder", ["first", "second"])
def test_what_was_published_but_not_acknowledged_is_not_published_twice(
    any_server, tmp_path, narration, publish_to, on_stream, folder
):
    """As after SIGKILL between the two, or where the same footage is narrated again in another folder."""
    publisher, stop = publish_to(any_server.url), threading.Event()
    with Journal(tmp_path / "first", "yard", fsync=False) as journal:
        records = [journal.append(narration(second)) for second in range(4)]
        delivery = Delivery(journal, publisher)
        assert delivery.drain(stop) == 4
        journal.acknowledge(ChainEnd())
        if folder == "first":
            records += [journal.append(narration(second)) for second in (4, 5)]
        else:
            delivery.release()
    with Journal(tmp_path / folder, "yard", fsync=False) as journal:
        if folder != "first":
            again = [journal.append(narration(second)) for second in range(6)]
            assert again[:4] == records
            records = again
        assert Delivery(journal, publisher).drain(stop) == 6  # four of them found there
        assert list(unpublished(journal)) == []
    assert on_stream(any_server) == records


def test_old_entries_are_trimmed(server, client, journal, narration, publish_to):
    for second in range(400):
        journal.append(narration(second))
    Delivery(journal, publish_to(server.url), maxlen=10).drain(threading.Event())
    assert client.xlen(KEY) < 250


def test_another_writer_on_the_stream_is_detected(any_server, client, journal, narration, publish_to):
    client.xadd(KEY, {"id": "theirs"}, id="9999999999999-0")
    journal.append(narration())
    with pytest.raises(StreamConflictError, match=r"another writer uses the camera name 'yard'"):
        Delivery(journal, publish_to(any_server.url)).drain(threading.Event())
    assert len(list(unpublished(journal))) == 1
    assert client.xlen(KEY) == 1
    client.delete(KEY)
    assert Delivery(journal, publish_to(any_server.url)).drain(threading.Event()) == 1


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://host", "malformed"),
        ("redis://user:s3cr3t@127.0.0.1:1/0", "cannot be reached"),
        ("unix:///nonexistent/redis.sock?password=s3cr3t", "cannot be reached"),
        ("redis://user:s3cr3t@127.0.0.1:port", "malformed"),
        ("redis://user:s3cr3t@127.0.0.1/0?socket_timeout=soon", "malformed"),
        ("redis://user:p%2Fs3cr3t@127.0.0.1:1", "cannot be reached"),
        ("redis://user:s3cr3t@127.0.0..1:1", "malformed"),
        ("redis://user:s3cr3t@127.0.0.1:1/0?tls=yes", "malformed"),
    ],
)
def test_a_url_that_cannot_be_used_never_shows_its_password(url, word):
    with pytest.raises(PublisherError, match=word) as caught, RedisServer(url).client() as client:
        client.ping()
    error = caught.value
    while error is not None:
        assert "s3cr3t" not in str(error)
        error = None if error.__suppress_context__ and error.__cause__ is None else error.__cause__
    with pytest.raises(PublisherError) as caught:
        next(subscribe(url))
    assert "s3cr3t" not in str(caught.value)
