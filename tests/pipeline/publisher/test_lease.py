"""One writer per stream: the second waits, says so, and takes over where the first is gone."""

import threading
import time
from contextlib import suppress

import pytest
from unpublished import recorded
from waiting import until

from pipeline.journal import Journal
from pipeline.publisher import StreamConflictError, lease_key

LEASE = lease_key("yard")


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
    assert client.get(LEASE).partition("@")[0] == journal.writer != other.writer
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
