"""Copies of journals from real streams, under faults."""

import threading
from contextlib import contextmanager

import pytest
import redis
from embedded_redis import EmbeddedServer
from narrations import narration
from waiting import until

from daemon.collect.collector import Collector
from pipeline.journal import DAILY, Journal, JournalLockedError
from pipeline.journal.verification import verify
from pipeline.publisher import Delivery, RedisServer, stream_key

DAY_S = 86400


@pytest.fixture
def server(request):
    with EmbeddedServer(settings=getattr(request, "param", None)) as running:
        yield running


@pytest.fixture
def edge(tmp_path, server):
    """Journals of daemons elsewhere; called with a camera and seconds, publishes narrations."""
    journals = {}

    def publish(camera, seconds):
        if camera not in journals:
            journals[camera] = Journal(tmp_path / "edge", camera, fsync=False, limits=DAILY)
        for second in seconds:
            journals[camera].append(narration(second, camera))
        publisher = RedisServer(server.url)
        Delivery(journals[camera], publisher).drain(threading.Event())
        publisher.close()

    yield publish
    for journal in journals.values():
        journal.close()


@pytest.fixture
def collect(tmp_path, server):
    """Collects once what is there; returns the collector."""

    def run(**options):
        connection = RedisServer(lambda: server.url, 5.0)
        collector = Collector(tmp_path / "copy", DAILY, connection, lambda _lines: None, **options)
        collector.run(threading.Event(), lambda: None, once=True)
        connection.close()
        return collector

    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


def test_copies_are_the_same_files_byte_for_byte(edge, collect, tmp_path):
    edge("yard", range(5))
    edge("lot", [0, DAY_S, DAY_S + 1])
    collect(cameras=["lot"])
    assert {name[:3] for name in contents(tmp_path / "copy")} == {"lot"}
    collect()
    torn = tmp_path / "copy" / "yard.jsonl"
    torn.write_bytes(torn.read_bytes()[:-40])
    edge("yard", range(DAY_S, DAY_S + 100))
    collect()
    assert contents(tmp_path / "copy") == contents(tmp_path / "edge")
    assert verify([tmp_path / "copy"]).ok
    with Journal(tmp_path / "copy", "yard"), pytest.raises(JournalLockedError):
        collect()  # two never share a folder


def test_a_copy_may_begin_behind_what_the_stream_has_lost(edge, collect, server, tmp_path):
    edge("yard", range(9))
    redis.Redis.from_url(server.url).xtrim(stream_key("yard"), maxlen=4, approximate=False)
    assert collect().records == 4
    assert collect().records == 0
    assert verify([tmp_path / "copy"]).ok


@pytest.mark.logs_errors
def test_a_gap_is_never_copied_over_and_other_cameras_go_on(edge, collect, server, tmp_path):
    edge("yard", range(3))
    collect()
    before = contents(tmp_path / "copy")
    edge("yard", range(3, 9))
    edge("lot", range(2))
    redis.Redis.from_url(server.url).xtrim(stream_key("yard"), maxlen=2, approximate=False)
    collector = collect()
    assert "does not continue the copy that ends with record 3" in collector.troubles["yard"]
    assert contents(tmp_path / "copy")["yard.jsonl"] == before["yard.jsonl"]
    assert collector.records == 2


@pytest.mark.logs_errors
@pytest.mark.parametrize("change", ["another journal", "a changed byte", "no record", "another camera's"])
def test_what_does_not_continue_the_chain_is_refused(edge, collect, server, tmp_path, change):
    edge("yard", range(3))
    collect()
    before = contents(tmp_path / "copy")
    edge("lot", range(20))
    client = redis.Redis.from_url(server.url, decode_responses=True)
    line = client.xrevrange(stream_key("lot"), count=1)[0][1]["json"]
    if change == "another journal":
        line = line.replace('"camera":"lot"', '"camera":"yard"')
    elif change == "a changed byte":
        edge("yard", [5])
        line = client.xrevrange(stream_key("yard"), count=1)[0][1]["json"].replace("car", "cat")
        client.xdel(stream_key("yard"), client.xrevrange(stream_key("yard"), count=1)[0][0])
    client.xadd(stream_key("yard"), {} | {"json": "{}" if change == "no record" else line})
    collector = collect(cameras=["yard"])
    assert list(collector.troubles) == ["yard"]
    assert contents(tmp_path / "copy")["yard.jsonl"] == before["yard.jsonl"]


@contextmanager
def collecting(folder, url, retry_s=30.0):
    """A collector in a thread, until the block ends."""
    connection, stop = RedisServer(lambda: url, 2.0), threading.Event()
    collector = Collector(folder, DAILY, connection, lambda _lines: None, retry_s=retry_s)
    running = threading.Thread(target=collector.run, args=(stop, lambda: None))
    running.start()
    try:
        yield collector
    finally:
        stop.set()
        running.join()
        connection.close()


@pytest.mark.logs_errors
def test_a_camera_in_trouble_is_tried_again(edge, server, tmp_path):
    edge("yard", range(3))
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "yard.jsonl").write_text("no record\n" * 3)
    with collecting(folder, server.url, retry_s=0.0) as collector:
        until(lambda: "is damaged" in collector.troubles.get("yard", ""))
        (folder / "yard.jsonl").rename(folder / "yard.broken")
        until(lambda: collector.records == 3 and not collector.troubles)


@pytest.mark.parametrize("server", [{"appendonly": "yes"}], indirect=True)
def test_a_server_that_goes_away_is_waited_for(edge, server, tmp_path):
    edge("gate", [0])
    with collecting(tmp_path / "copy", server.url) as collector:
        until(lambda: collector.records == 1)
        server.stop()
        server.start()
        edge("gate", [1])
        until(lambda: collector.records == 2)
    assert contents(tmp_path / "copy") == contents(tmp_path / "edge")
