import threading

import pytest
from unpublished import unpublished
from waiting import LIMIT_S

from pipeline.journal import Journal
from pipeline.publisher import Delivery, Publisher, PublisherError, subscribe
from pipeline.publisher.publisher import CHANNEL, NO_ENTRY, StreamConflictError, StreamMovedError, stream_key
from pipeline.record import ChainEnd, read_record

KEY = "narrated:{yard}:changes"
YARD = "yard", "0" * 32


def test_a_record_on_the_stream_and_on_the_channel(server, client, journal, narration, publish_to):
    """A held one is on the stream alone."""
    record, held = journal.append(narration()), journal.append(narration(1, held="hourly"))
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(CHANNEL)
        listener.get_message(timeout=LIMIT_S)
        publish_to(server.url).publish(*YARD, [record.line(), held.line()], NO_ENTRY)
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


def test_nothing_is_added_but_behind_the_entry_that_is_expected(
    server, client, journal, narration, publish_to, on_stream
):
    records = [journal.append(narration(second)) for second in (5, 5, 4, 6)]
    lines = [record.line() for record in records]
    publisher = publish_to(server.url)
    publisher.publish(*YARD, lines[:2], NO_ENTRY)
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(CHANNEL)
        listener.get_message(timeout=LIMIT_S)
        for behind in (NO_ENTRY, records[0].stream_id, records[2].stream_id):
            with pytest.raises(StreamMovedError) as moved:
                publisher.publish(*YARD, lines[1:], behind)
            assert moved.value.last_id == records[1].stream_id
        publisher.publish(*YARD, lines[2:], records[1].stream_id, quiet=1)
        received = listener.get_message(timeout=LIMIT_S)
        assert listener.get_message(timeout=0.2) is None
    assert on_stream(server) == records
    assert read_record(received["data"]) == records[3]
    assert publisher.entry("yard", records[1].stream_id) == records[1]
    assert publisher.entry("yard", "5-5") is None
    assert publisher.entry("lot", records[1].stream_id) is None


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
        records = [journal.append(narration(second)) for second in range(6)]
        writer = "yard", journal.writer
        publisher.publish(*writer, [record.line() for record in records[:4]], NO_ENTRY)
        if folder != "first":
            publisher.release(*writer)
    with Journal(tmp_path / folder, "yard", fsync=False) as journal:
        if folder != "first":
            assert [journal.append(narration(second)) for second in range(6)] == records
        assert Delivery(journal, publisher).drain(stop) == 6  # four of them found there
        assert list(unpublished(journal)) == []
    assert on_stream(any_server) == records


def test_old_entries_are_trimmed_and_a_lost_acknowledgement_is_found_again(
    server, client, journal, narration, publish_to
):
    publisher, stop = publish_to(server.url, maxlen=10), threading.Event()
    for second in range(400):
        journal.append(narration(second))
    Delivery(journal, publisher).drain(stop)
    assert client.xlen(KEY) < 250
    newest = client.xrevrange(KEY, count=1)
    journal.acknowledge(ChainEnd())
    assert Delivery(journal, publisher).drain(stop) == 400  # found there, not published twice
    assert list(unpublished(journal)) == []
    assert client.xrevrange(KEY, count=1) == newest


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
def test_a_url_that_cannot_be_used_never_shows_its_password(url, word, journal, narration):
    with pytest.raises(PublisherError, match=word) as caught:
        Publisher(url).publish(*YARD, [journal.append(narration()).line()], NO_ENTRY)
    error = caught.value
    while error is not None:
        assert "s3cr3t" not in str(error)
        error = None if error.__suppress_context__ and error.__cause__ is None else error.__cause__
    with pytest.raises(PublisherError) as caught:
        next(subscribe(url))
    assert "s3cr3t" not in str(caught.value)
