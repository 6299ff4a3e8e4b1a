"""Copies of journals from real streams, and of pictures from real pages, under faults."""

import logging
import threading
from contextlib import contextmanager

import pytest
import redis
from embedded_redis import EmbeddedServer
from forked_commands import forker
from houses import House
from narrations import narration
from raw_server import raw_server
from running_daemon import unused_port
from serving_here import Served
from waiting import LIMIT_S, until

from daemon.collect import collector
from daemon.collect.collector import Collector, PictureFetcher, PictureSource, PictureSourceError
from daemon.serve.access import password_line
from pipeline.evidence import EvidenceStore
from pipeline.journal import DAILY, Journal, JournalLockedError
from pipeline.journal.verification import verify
from pipeline.publisher import Delivery, RedisServer, stream_key

DAY_S = 86400
PASSWORD = "correct horse: b@ttery"
QUOTED = "correct%20horse%3A%20b%40ttery"


def publish_journal(journal, server):
    publisher = RedisServer(server.url)
    Delivery(journal, publisher).drain(threading.Event())
    publisher.close()


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
        publish_journal(journals[camera], server)

    yield publish
    for journal in journals.values():
        journal.close()


@pytest.fixture
def collect(tmp_path, server):
    """Collects once what is there; returns the collector."""

    def run(cameras=None):
        connection = RedisServer(lambda: server.url, 5.0)
        collected = Collector(tmp_path / "copy", connection, lambda _lines: None, cameras)
        collected.run(threading.Event(), lambda: None, once=True)
        connection.close()
        return collected

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
@pytest.mark.parametrize(
    "change", ["a gap", "another journal", "a changed byte", "no record", "another camera's"]
)
def test_what_does_not_continue_the_chain_is_refused_and_other_cameras_go_on(
    edge, collect, server, tmp_path, change
):
    edge("yard", range(3))
    collect()
    before = contents(tmp_path / "copy")
    edge("lot", range(20))
    client = redis.Redis.from_url(server.url, decode_responses=True)
    line = client.xrevrange(stream_key("lot"), count=1)[0][1]["json"]
    if change == "a gap":
        edge("yard", range(3, 9))
        client.xtrim(stream_key("yard"), maxlen=2, approximate=False)
    elif change == "another journal":
        line = line.replace('"camera":"lot"', '"camera":"yard"')
    elif change == "a changed byte":
        edge("yard", [5])
        line = client.xrevrange(stream_key("yard"), count=1)[0][1]["json"].replace("car", "cat")
        client.xdel(stream_key("yard"), client.xrevrange(stream_key("yard"), count=1)[0][0])
    if change != "a gap":
        client.xadd(stream_key("yard"), {"json": "{}" if change == "no record" else line})
    collected = collect()
    assert list(collected.troubles) == ["yard"]
    assert "does not continue the copy that ends with record 3" in collected.troubles["yard"]
    assert collected.records == 20
    assert contents(tmp_path / "copy")["yard.jsonl"] == before["yard.jsonl"]


@contextmanager
def collecting(folder, url):
    """A collector in a thread, until the block ends."""
    connection, stop = RedisServer(lambda: url, 2.0), threading.Event()
    collected = Collector(folder, connection, lambda _lines: None, None)
    running = threading.Thread(target=collected.run, args=(stop, lambda: None))
    running.start()
    try:
        yield collected
    finally:
        stop.set()
        running.join()
        connection.close()


@pytest.mark.logs_errors
def test_a_camera_in_trouble_is_tried_again(edge, server, tmp_path, monkeypatch):
    monkeypatch.setattr(collector, "RETRY_S", 0.0)
    edge("yard", range(3))
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "yard.jsonl").write_text("no record\n" * 3)
    with collecting(folder, server.url) as collected:
        until(lambda: "is damaged" in collected.troubles.get("yard", ""))
        (folder / "yard.jsonl").rename(folder / "yard.broken")
        until(lambda: collected.records == 3 and not collected.troubles)


@pytest.mark.parametrize("server", [{"appendonly": "yes"}], indirect=True)
def test_a_server_that_goes_away_is_waited_for(edge, server, tmp_path):
    edge("gate", [0])
    with collecting(tmp_path / "copy", server.url) as collected:
        until(lambda: collected.records == 1)
        server.stop()
        server.start()
        edge("gate", [1])
        until(lambda: collected.records == 2)
    assert contents(tmp_path / "copy") == contents(tmp_path / "edge")


def test_a_record_of_another_machine_is_searched_and_checked_here(server, narrated, tmp_path):
    there, other = House(tmp_path / "edge"), House(tmp_path / "other")
    for second in range(3):
        there.tell(second, camera="edge-cam", evidence=there.pictures(second))
    publish_journal(there.journals["edge-cam"], server)
    other.tell(0)
    for house in (there, other):
        house.close()
    out = tmp_path / "copy"
    command = ("collect", "--redis", server.url, "--out", out, "--camera", "edge-cam", "--once")
    nowhere = narrated(*command, "--camera", "edge-cma", "--pictures", "http://127.0.0.1:9")
    assert (nowhere.code, "cannot be reached" in nowhere.err) == (3, True)
    assert "6 missing" in nowhere.err
    assert "camera edge-cma has no stream" in nowhere.err
    assert "camera edge-cam has" not in nowhere.err
    alone = narrated("verify", out)
    assert (alone.code, "6 pictures not checked" in alone.err) == (0, True)
    with Served(other) as page:
        lacking = narrated(*command, "--pictures", page.url)
    assert (lacking.code, "6 missing" in lacking.err) == (3, True)
    with Served(there) as page:
        ended = narrated(*command, "--pictures", page.url)
    assert ended.code == 0, ended.err
    assert "6 pictures fetched" in ended.err
    assert narrated("verify", out).code == 0
    assert narrated("verify", out / "journal", "--against", there.folder).code == 0
    assert len(narrated("query", "--journal", out, "--json").out.splitlines()) == 3
    assert narrated("export", "--journal", out, "--out", tmp_path / "package").code == 0
    assert len(list((tmp_path / "package").rglob("*.jpg"))) == 6


def test_killed_again_and_again_it_loses_and_doubles_nothing(edge, server, tmp_path):
    copy, original = (tmp_path / name / "killed.jsonl" for name in ("copy/journal", "edge"))
    command = ["collect", "--redis", server.url, "--out", tmp_path / "copy", "--camera", "killed"]
    for turn in range(3):
        edge("killed", range(100 * turn, 100 * turn + 100))
        process = forker().start(command, tmp_path)
        until(lambda least=100 * turn + 30: copy.exists() and copy.read_bytes().count(b"\n") > least)
        process.kill()
        process.wait(LIMIT_S)
    process = forker().start(command, tmp_path)
    edge("killed", [300])  # so that it must have begun before it is told to end
    until(lambda: copy.read_bytes() == original.read_bytes())
    process.terminate()
    assert process.wait(LIMIT_S) == 0
    assert verify([tmp_path / "copy"]).ok


def test_mistakes_end_it_at_once(narrated, tmp_path):
    assert narrated("collect", "--redis", "redis://u:secret@h:x", "--out", tmp_path).code == 1
    refused = narrated("collect", "--redis", "redis://h", "--out", tmp_path, "--pictures", "edge:8080")
    assert refused.code == 2
    assert "write the address of a page" in refused.err
    missing = narrated("collect", "--redis", "${env:NOT_THERE}", "--out", tmp_path)
    assert missing.code == 78


# Pictures


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = House(tmp_path_factory.mktemp("house") / "state")
    for second in range(3):
        made.tell(second, evidence=made.pictures(second))
    yield made
    made.close()


@pytest.fixture(scope="module")
def guarded(house):
    """A page that asks for a password."""
    passwords = house.state / "passwords"
    passwords.write_text(password_line("anna", PASSWORD) + "\n")
    with Served(house, "--passwords", str(passwords)) as running:
        yield running


@pytest.fixture
def there(guarded):
    """The page's address with the password in it."""
    return guarded.url.replace("://", f"://anna:{QUOTED}@")


def pictures(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*/*")}


def fetcher(tmp_path, *urls):
    return PictureFetcher(EvidenceStore(tmp_path / "evidence"), [PictureSource(url) for url in urls])


def test_pictures_are_fetched_with_a_login(house, there, tmp_path):
    fetching = fetcher(tmp_path, there)
    fetching.want(house.records["yard"][0].line())
    fetching.loop.start()
    until(lambda: not fetching.wanted)
    fetching.loop.stop()
    assert fetching.loop.join(LIMIT_S)
    restarted = fetcher(tmp_path, there)
    restarted.want_missing(house.folder)  # of recent journals
    restarted.fetch_wanted()
    assert (restarted.fetched, restarted.wanted, restarted.missing) == (4, 0, 0)
    assert pictures(tmp_path / "evidence") == pictures(house.state / "evidence")


def test_a_page_that_is_away_does_not_hide_another(house, there, tmp_path):
    fetching = fetcher(tmp_path, f"http://127.0.0.1:{unused_port()}", there)
    fetching.want(house.records["yard"][0].line())
    fetching.fetch_wanted()
    assert (fetching.fetched, fetching.wanted) == (2, 0)


def test_a_wrong_password_is_told_without_it(house, guarded):
    source = PictureSource(guarded.url.replace("://", "://anna:wrong-word@"))
    digest = house.records["yard"][0].evidence.before.removeprefix("sha256:")
    with pytest.raises(PictureSourceError, match="403") as refused:
        source.fetch(digest)
    assert "wrong-word" not in str(refused.value)


def test_what_no_page_has_is_given_up_unless_one_is_away(house, there, tmp_path, caplog):
    record, away = house.records["yard"][0], f"http://127.0.0.1:{unused_port()}"
    gone = record.evidence.model_copy(update={"before": "sha256:" + "0" * 64})
    for urls, counts in (((there,), (1, 1, 0)), ((away, there), (1, 0, 1))):
        fetching = fetcher(tmp_path / str(len(urls)), *urls)
        with caplog.at_level(logging.WARNING):
            fetching.want(record.model_copy(update={"evidence": gone}).line())
            fetching.fetch_wanted()
        assert (fetching.fetched, fetching.missing, fetching.wanted) == counts
    assert caplog.text.count(away) == 1


@pytest.mark.parametrize(
    "response", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\npart of it"]
)
def test_what_broke_off_is_asked_for_again(house, tmp_path, response):
    with raw_server(response) as url:
        fetching = fetcher(tmp_path, url)
        fetching.want(house.records["yard"][0].line())
        fetching.fetch_wanted()
    assert (fetching.fetched, fetching.wanted, fetching.missing) == (0, 2, 0)


def test_of_what_is_too_long_for_a_picture_no_more_is_read(monkeypatch):
    monkeypatch.setattr(collector, "_LARGEST_BYTES", 4)
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
    with raw_server(whole) as url, pytest.raises(PictureSourceError, match="4 bytes read, 6 more expected"):
        PictureSource(url).fetch("0" * 64)


def test_a_password_is_not_for_whom_a_page_redirects_to(house):
    here, there = list[bytes](), list[bytes]()
    with raw_server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", there) as elsewhere:
        redirect = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere}/\r\nContent-Length: 0\r\n\r\n"
        with raw_server(redirect.encode(), here) as url:
            assert PictureSource(url.replace("://", f"://anna:{QUOTED}@")).fetch("0" * 64) is None
    assert [b"authorization: basic" in asked[0].lower() for asked in (here, there)] == [True, False]


def test_other_bytes_than_the_record_names_are_never_stored(house, there):
    record = house.records["yard"][1]
    digest = record.evidence.before.removeprefix("sha256:")
    path = house.state / "evidence" / digest[:2] / f"{digest}.jpg"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:-9])
        assert PictureSource(there).fetch(digest) is None
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "edge:8080", "ftp://edge", "http://"])
def test_only_addresses_of_pages_are_taken(url):
    with pytest.raises(ValueError, match="write the address of a page"):
        PictureSource(url)
