"""Reading back from the streams: what `narrated tail` and the demo rely on."""

import signal
import threading
from contextlib import ExitStack, contextmanager

import pytest
from waiting import LIMIT_S, until

from pipeline.journal import Journal
from pipeline.publisher import subscribe

KEY = "narrated:{yard}:changes"


@contextmanager
def listening(*arguments):
    """Waits for so many records of `subscribe`, which a thread collects."""
    received, stop = [], threading.Event()

    def collect():
        for record in subscribe(*arguments, stop=stop):
            received.append(record)  # noqa: PERF402 - one by one, as they come

    thread = threading.Thread(target=collect)
    thread.start()

    def wait_for(count):
        until(lambda: len(received) >= count)
        return received

    try:
        yield wait_for
    finally:
        stop.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive()


@pytest.fixture
def listen():
    with ExitStack() as listeners:
        yield lambda *arguments: listeners.enter_context(listening(*arguments))


def test_subscribers_get_every_camera_and_later_ones(
    server, client, journal, tmp_path, narration, publish, listen
):
    with Journal(tmp_path, "lot", fsync=False) as lot:
        old = journal.append(narration())
        publish(journal, server)
        everything = listen(server.url, None, "0")
        from_now = listen(server.url, None, "$")
        only_lot = listen(server.url, ["lot"], "0")
        behind = listen(server.url, ["yard"], old.stream_id)
        assert everything(1) == [old]
        until(lambda: [each["cmd"] for each in client.client_list()].count("xread") == 4)  # all four wait
        journal.append(narration(1))
        lot.append(narration(2, "lot"))
        for each in (journal, lot):
            publish(each, server)
        assert sorted(r.id for r in everything(3)) == ["lot-2", "yard-0", "yard-1"]
        assert sorted(r.id for r in from_now(2)) == ["lot-2", "yard-1"]
        assert [r.id for r in only_lot(1)] == ["lot-2"]
        assert [r.id for r in behind(1)] == ["yard-1"]


def test_a_subscriber_outlives_the_server_and_gets_nothing_twice(
    any_server, client, journal, narration, publish, listen, caplog
):
    """The second time the stream is flushed, and comes back."""
    received = listen(any_server.url, None, "0")
    for number in range(3):
        journal.append(narration(number))
        publish(journal, any_server)
        assert [record.id for record in received(number + 1)] == [f"yard-{k}" for k in range(number + 1)]
        if number == 0:
            any_server.stop(signal.SIGKILL)
            until(lambda: "retrying" in caplog.text)
            any_server.start()
        else:
            client.flushall()


def test_a_subscriber_leaves_foreign_keys_and_entries_out(
    any_server, client, journal, narration, listen, caplog
):
    record = journal.append(narration())
    client.set("narrated:{nothing}:changes", "no stream")
    client.xadd(KEY, {"hello": "world"}, id="1-1")
    client.xadd(KEY, {"json": "{}"}, id="1-2")
    client.xadd(KEY, {"json": record.line()}, id=record.stream_id)
    assert listen(any_server.url, None, "0")(1) == [record]
    assert caplog.text.count("is not a narrated record") == 2
