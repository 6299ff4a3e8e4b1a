"""Reading back from the streams: what `narrated tail` and the demo rely on."""

import signal
import threading

import pytest
import redis
from waiting import LIMIT_S, until

from pipeline.journal import Journal
from pipeline.publisher import Delivery, subscribe

KEY = "narrated:{yard}:changes"


class Listening:
    """A thread that collects what `subscribe` yields."""

    def __init__(self, *arguments):
        self.received, self.stop = [], threading.Event()
        self._thread = threading.Thread(target=self._run, args=arguments)
        self._thread.start()

    def _run(self, *arguments):
        for record in subscribe(*arguments, stop=self.stop):
            self.received.append(record)

    def wait_for(self, count):
        until(lambda: len(self.received) >= count)
        return self.received

    def end(self):
        self.stop.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


@pytest.fixture
def listen():
    listeners = []

    def start(*arguments):
        listeners.append(Listening(*arguments))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.stop.set()
    for listener in listeners:
        listener.end()


def test_subscribers_get_every_camera_and_later_ones(
    server, client, journal, tmp_path, narration, publish_to, listen
):
    with Journal(tmp_path, "lot", fsync=False) as lot:
        old = journal.append(narration())
        Delivery(journal, publish_to(server.url)).drain(threading.Event())
        everything = listen(server.url, None, "0")
        from_now = listen(server.url, None, "$")
        only_lot = listen(server.url, ["lot"], "0")
        behind = listen(server.url, ["yard"], old.stream_id)
        assert everything.wait_for(1) == [old]
        until(lambda: [each["cmd"] for each in client.client_list()].count("xread") == 4)  # all four wait
        journal.append(narration(1))
        lot.append(narration(2, "lot"))
        for each in (journal, lot):
            Delivery(each, publish_to(server.url)).drain(threading.Event())
        assert sorted(r.id for r in everything.wait_for(3)) == ["lot-2", "yard-0", "yard-1"]
        assert sorted(r.id for r in from_now.wait_for(2)) == ["lot-2", "yard-1"]
        assert [r.id for r in only_lot.wait_for(1)] == ["lot-2"]
        assert [r.id for r in behind.wait_for(1)] == ["yard-1"]


def test_a_subscriber_outlives_the_server(any_server, journal, narration, publish_to, listen, caplog):
    listener = listen(any_server.url, None, "0")
    journal.append(narration(0))
    Delivery(journal, publish_to(any_server.url)).drain(threading.Event())
    assert len(listener.wait_for(1)) == 1
    any_server.stop(signal.SIGKILL)
    until(lambda: "retrying" in caplog.text)
    any_server.start()
    journal.append(narration(1))
    Delivery(journal, publish_to(any_server.url)).drain(threading.Event())
    assert [r.id for r in listener.wait_for(2)] == ["yard-0", "yard-1"]


def test_a_subscriber_gets_nothing_twice_when_a_flushed_stream_comes_back(
    any_server, journal, narration, publish_to, listen
):
    listener = listen(any_server.url, None, "0")
    for second in range(3):
        journal.append(narration(second))
    Delivery(journal, publish_to(any_server.url)).drain(threading.Event())
    assert len(listener.wait_for(3)) == 3
    with redis.Redis.from_url(any_server.url) as client:
        client.flushall()
    journal.append(narration(3))
    Delivery(journal, publish_to(any_server.url)).drain(threading.Event())
    assert [r.id for r in listener.wait_for(4)] == ["yard-0", "yard-1", "yard-2", "yard-3"]


def test_a_subscriber_leaves_foreign_keys_and_entries_out(any_server, journal, narration, listen, caplog):
    record = journal.append(narration())
    with redis.Redis.from_url(any_server.url) as client:
        client.set("narrated:{nothing}:changes", "no stream")
        client.xadd(KEY, {"hello": "world"}, id="1-1")
        client.xadd(KEY, {"json": "{}"}, id="1-2")
        client.xadd(KEY, {"json": record.line()}, id=record.stream_id)
    assert listen(any_server.url, None, "0").wait_for(1) == [record]
    assert caplog.text.count("is not a narrated record") == 2
