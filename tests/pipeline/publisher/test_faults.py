"""Faults of real servers: afterwards, the stream holds the journal."""

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest
from unpublished import recorded
from waiting import LIMIT_S, until

from pipeline.journal import Journal
from pipeline.publisher import RedisServer, ServerAwayError, stream_key
from pipeline.record import read_record

KEY = stream_key("yard")


@contextmanager
def in_background(delivery):
    """Deliver a journal in a thread, as the daemon does."""
    stop = threading.Event()

    def run():
        while not stop.is_set():
            delivery.drain(stop)
            stop.wait(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def settled(journal):
    return lambda: journal.published.seq == journal.end.seq


def test_memory_that_runs_out_within_a_transaction(server, client):
    def execute():
        with RedisServer(server.url).client() as ours, ours.client() as connection:
            connection.execute_command("MULTI")
            connection.execute_command("XADD", KEY, "*", "a", "b")
            client.config_set("maxmemory", "1")
            connection.execute_command("EXEC")

    with pytest.raises(ServerAwayError, match="is refusing writes: OOM"):
        execute()
    assert client.xlen(KEY) == 0


def test_read_only(server, client, journal, narration, deliver, on_stream, caplog):
    """A replica takes no writes: so it is after a failover that the daemon does not know of."""
    with in_background(deliver(journal, server.url)):
        journal.append(narration(0))
        until(settled(journal))
        client.replicaof("127.0.0.1", "1")
        for second in range(1, 30):
            journal.append(narration(second))
        until(lambda: "is refusing writes" in caplog.text)
        client.replicaof("NO", "ONE")
        until(settled(journal))
    assert on_stream(server) == recorded(journal)


def test_flushed(any_server, client, journal, narration, deliver, on_stream, hear):
    with in_background(deliver(journal, any_server.url)):
        for second in range(200):
            journal.append(narration(second))
            if second in (50, 120):
                client.flushall()
            time.sleep(0.001)
        until(settled(journal))
        client.flushall()
        until(lambda: len(on_stream(any_server)) == 200)
    assert hear(200) == [record.line().decode() for record in recorded(journal)]
    assert on_stream(any_server) == recorded(journal)


@pytest.mark.logs_errors
def test_journal_removed(server, journal, narration, deliver, hear):
    delivery, stop = deliver(journal, server.url), threading.Event()
    for second in (0, 1, 2):
        journal.append(narration(second))
    delivery.drain(stop)
    journal.path.unlink()
    record = journal.append(narration(3))
    delivery.drain(stop)
    assert [read_record(each).id for each in hear(4)][2:] == ["yard-2", record.id]


def test_flushed_with_a_long_journal(any_server, client, journal, narration, deliver, on_stream):
    """Only what the stream would keep is published again."""
    delivery, stop = deliver(journal, any_server.url, maxlen=100), threading.Event()
    for second in range(400):
        journal.append(narration(second))
    assert delivery.drain(stop) == 400
    client.flushall()
    journal.append(narration(400))
    delivery.drain(stop)
    assert [record.seq for record in on_stream(any_server)] == list(range(301, 402))


def test_password_changed(server, client, journal, narration, deliver, on_stream, tmp_path, caplog):
    """The new one is found where the old one was, without a restart."""
    client.config_set("requirepass", "0ld")
    client.auth("0ld")
    secret = tmp_path / "secret"
    secret.write_text("0ld")
    with in_background(deliver(journal, lambda: f"{server.url}?password={secret.read_text()}", timeout_s=2)):
        journal.append(narration(0))
        until(settled(journal))
        client.config_set("requirepass", "n3w")
        client.client_kill_filter(_type="normal", skipme=True)
        for second in range(1, 20):
            journal.append(narration(second))
        until(lambda: "check redis.url" in caplog.text)
        assert journal.published.seq < journal.end.seq
        secret.write_text("n3w")
        until(settled(journal))
    client.config_set("requirepass", "")
    assert on_stream(server) == recorded(journal)
    assert not {"0ld", "n3w"} & set(caplog.text.replace("=", " ").split())


def test_everything_at_once(any_server, client, tmp_path, narration, deliver, publish, on_stream):
    """Faults in an order drawn by chance, over several runs of the writer on one journal."""
    chance, faults, total = random.Random(11), Counter(), 0
    for _ in range(4):
        with ExitStack() as stack:
            journal = stack.enter_context(Journal(tmp_path, "yard", fsync=False))
            delivery = deliver(journal, any_server.url, timeout_s=0.2, longest_wait_s=0.05, batch=128)
            stack.enter_context(in_background(delivery))
            for _ in range(100):
                journal.append(narration(total))
                total += 1
                fault = chance.choice(["none"] * 30 + ["kill", "freeze", "flush", "full", "drop"])
                faults[fault] += 1
                if fault == "kill":
                    any_server.stop(signal.SIGKILL)
                    any_server.start()
                elif fault == "freeze":
                    os.kill(any_server._process.pid, signal.SIGSTOP)
                    time.sleep(0.3)
                    os.kill(any_server._process.pid, signal.SIGCONT)
                elif fault == "flush":
                    client.flushall()
                elif fault == "full":
                    client.config_set("maxmemory", "1")
                    time.sleep(0.05)
                    client.config_set("maxmemory", "0")
                elif fault == "drop":
                    client.client_kill_filter(_type="normal", skipme=True)
                time.sleep(0.002)
    with Journal(tmp_path, "yard", fsync=False) as journal:
        while journal.published.seq < total or len(on_stream(any_server)) < total:
            publish(journal, any_server)
        assert on_stream(any_server) == recorded(journal)
        assert [record.seq for record in recorded(journal)] == list(range(1, total + 1))
    assert len(faults) == 6
