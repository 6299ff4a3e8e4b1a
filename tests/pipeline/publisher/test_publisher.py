"""What is published, by whom, and with which rights."""

import re
import threading
import time
from contextlib import suppress
from itertools import islice

import pytest
import redis
from doc_pages import page
from unpublished import recorded, unpublished
from waiting import LIMIT_S, until

from pipeline.journal import Journal
from pipeline.publisher import (
    PublisherError,
    RedisServer,
    StreamConflictError,
    lease_key,
    stream_key,
    subscribe,
)
from pipeline.record import ChainEnd, read_record

KEY, LEASE = "narrated:{yard}:changes", lease_key("yard")
KEYS, CHANNELS = "~narrated:*", "&narrated:*"


def test_a_record_on_the_stream_and_on_the_channel(server, client, journal, narration, publish, hear):
    """A held one is on the stream alone."""
    record, held = journal.append(narration()), journal.append(narration(1, held="hourly"))
    publish(journal, server)
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
    assert hear(1) == [fields["json"]]


def test_what_another_put_on_the_stream_meanwhile_is_not_published_twice(
    server, client, journal, narration, deliver, on_stream, hear
):
    """As an attempt of ours does that the server carried out after we had given it up."""
    delivery, stop = deliver(journal, server.url), threading.Event()
    records = [journal.append(narration(second)) for second in (5, 5)]
    assert delivery.drain(stop) == 2
    records += [journal.append(narration(second)) for second in (4, 6)]
    client.xadd(KEY, {"id": records[2].id, "json": records[2].line()}, id=records[2].stream_id)
    assert delivery.drain(stop) == 2
    assert on_stream(server) == records
    assert [read_record(each) for each in hear(3)] == [*records[:2], records[3]]


def test_drain_publishes_what_is_not_acknowledged(any_server, client, journal, narration, publish, on_stream):
    records = [journal.append(narration(second)) for second in range(700)]
    assert publish(journal, any_server) == 700
    assert publish(journal, any_server) == 0
    records.append(journal.append(narration(701)))
    assert publish(journal, any_server) == 1
    assert on_stream(any_server) == records
    client.xtrim(KEY, maxlen=0)  # its last id stays
    journal.append(narration(702))
    assert publish(journal, any_server) == 1
    assert client.xlen(KEY) == 1


@pytest.mark.parametrize("folder", ["first", "second"])
def test_what_was_published_but_not_acknowledged_is_not_published_twice(
    any_server, tmp_path, narration, deliver, publish, on_stream, folder
):
    """As after SIGKILL between the two, or where the same footage is narrated again in another folder."""
    with Journal(tmp_path / "first", "yard", fsync=False) as journal:
        records = [journal.append(narration(second)) for second in range(4)]
        delivery = deliver(journal, any_server.url)
        assert delivery.drain(threading.Event()) == 4
        journal.acknowledge(ChainEnd())
        if folder == "second":
            delivery.release()
    with Journal(tmp_path / folder, "yard", fsync=False) as journal:
        begin = 4 if folder == "first" else 0
        records[begin:] = [journal.append(narration(second)) for second in range(begin, 6)]
        assert publish(journal, any_server) == 6  # four of them found there
        assert list(unpublished(journal)) == []
    assert on_stream(any_server) == records


def test_old_entries_are_trimmed(server, client, journal, narration, publish):
    for second in range(400):
        journal.append(narration(second))
    publish(journal, server, maxlen=10)
    assert client.xlen(KEY) < 250


def test_another_writer_on_the_stream_is_detected(any_server, client, journal, narration, publish):
    client.xadd(KEY, {"id": "theirs"}, id="9999999999999-0")
    journal.append(narration())
    with pytest.raises(StreamConflictError, match=r"another writer uses the camera name 'yard'"):
        publish(journal, any_server)
    assert len(list(unpublished(journal))) == 1
    assert client.xlen(KEY) == 1
    client.delete(KEY)
    assert publish(journal, any_server) == 1


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


@pytest.fixture
def other(tmp_path):
    """A second journal of the same camera name, as on another machine."""
    with Journal(tmp_path / "other", "yard", fsync=False) as opened:
        yield opened


def test_a_second_writer_waits_and_says_who_writes(
    server, client, journal, other, narration, deliver, on_stream
):
    stop = threading.Event()
    first, second = deliver(journal, server.url), deliver(other, server.url)
    record = journal.append(narration(0))
    first.drain(stop)
    other.append(narration(1))
    with pytest.raises(StreamConflictError, match=r"is written by another daemon \(.+\); stop that one"):
        second.drain(stop)
    assert on_stream(server) == [record]
    assert client.get(LEASE).partition("@")[0] == journal.token != other.token
    second.release()
    assert client.exists(LEASE)
    first.release()
    assert client.get(LEASE) is None
    assert second.drain(stop) == 1
    assert [each.id for each in on_stream(server)] == ["yard-0", "yard-1"]


def test_a_lease_runs_out(any_server, client, journal, other, narration, deliver):
    stop = threading.Event()
    first, second = (deliver(each, any_server.url, lease_s=60) for each in (journal, other))
    journal.append(narration(0))
    first.drain(stop)
    client.expire(LEASE, 30)
    first.drain(stop)  # with nothing to publish
    assert 30 < client.ttl(LEASE) <= 60
    client.pexpire(LEASE, 1)
    other.append(narration(1))

    def takes_over():
        with suppress(StreamConflictError):
            return second.drain(stop)

    assert until(takes_over) == 1
    with pytest.raises(StreamConflictError):
        first.drain(stop)


def test_two_writers_at_once_never_mix(any_server, journal, other, narration, deliver, on_stream):
    """Both publish as fast as they can while leases run out within milliseconds."""
    stop, failures = threading.Event(), []

    def write(each, offset):
        delivery = deliver(each, any_server.url, lease_s=0.005, batch=5)
        for second in range(60):
            each.append(narration(offset + second))
            try:
                delivery.drain(stop)
            except Exception as error:  # noqa: BLE001 - what it may be is asserted below
                failures.append(type(error).__name__)
            time.sleep(0.002)

    threads = [threading.Thread(target=write, args=a) for a in ((journal, 0), (other, 0.5))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(failures) <= {"StreamConflictError"}
    for each in (journal, other):  # of each journal the stream holds a part, whole and in order
        mine = [record.seq for record in recorded(each)]
        on_it = [r.seq for r in on_stream(any_server) if r in recorded(each)]
        assert on_it == [seq for seq in mine if seq in on_it]
        assert len(on_it) == len(set(on_it))


@pytest.fixture
def stop():
    """Ends what waits for ever; then no error is raised, and the test fails."""
    stopped = threading.Event()
    timer = threading.Timer(LIMIT_S, stopped.set)
    timer.daemon = True
    timer.start()
    return stopped


@pytest.fixture
def admin(server):
    with redis.Redis(unix_socket_path=server.url.removeprefix("unix://").partition("?")[0]) as client:
        yield client


def test_publishing_says_what_to_grant_and_goes_on_with_it(server, admin, stop, journal, narration, deliver):
    refusing = {
        "+xadd": f"{KEYS} {CHANNELS} +@all -xadd",
        "~narrated:*": f"{CHANNELS} +@all",
        "&narrated:*": f"{KEYS} +@all",
    }

    def limit(rules):
        user = ("ACL", "SETUSER", "limited", "on", ">x", "resetkeys", "resetchannels", "-@all")
        admin.execute_command(*user, *rules.split())

    for number, (granted, rules) in enumerate(refusing.items()):
        journal.append(narration(number))
        limit(rules)
        delivery = deliver(journal, server.url.replace("unix://", "unix://limited:x@"))
        with pytest.raises(PublisherError, match=re.escape(f"ACL SETUSER limited {granted}")) as refused:
            delivery.drain(stop)
        assert ":x@" not in str(refused.value)
        assert journal.published.seq == number
        limit(f"{KEYS} {CHANNELS} +@all")
        assert delivery.drain(stop) == 1


def test_the_users_of_the_page_may_do_what_they_must(server, admin, stop, journal, narration, deliver):
    made = re.findall(r"^    ACL SETUSER (\w+) (on >(\w+) .*)$", page("operations.md"), re.MULTILINE)
    for user, rules, _ in made:
        admin.execute_command("ACL", "SETUSER", user, *rules.split())
    admin.execute_command("ACL", "SETUSER", "default", "off")
    urls = {user: server.url.replace("unix://", f"unix://{user}:{secret}@") for user, _, secret in made}
    assert set(urls) == {"narrated", "reader"}
    told = [journal.append(narration(second)) for second in range(3)]
    assert deliver(journal, urls["narrated"]).drain(stop) == 3
    assert [*islice(subscribe(urls["reader"], last_id="0", stop=stop), 3)] == told
