"""`narrated collect`: killed at any moment it goes on, and what it made can be served and exported."""

import threading

import pytest
from forked_commands import forker
from houses import House
from narrations import narration
from serving_here import Served
from waiting import LIMIT_S, until

from pipeline.journal import DAILY, Journal
from pipeline.journal.verification import verify
from pipeline.publisher import Delivery, RedisServer


@pytest.fixture
def edge(tmp_path, server):
    """A daemon's journal and pictures elsewhere, published."""
    house = House(tmp_path / "edge")
    for second in range(3):
        house.tell(second, camera="edge-cam", evidence=house.pictures(second))
    publisher = RedisServer(server.url)
    delivery = Delivery(house.journals["edge-cam"], publisher)
    delivery.drain(threading.Event())
    delivery.release()
    publisher.close()
    yield house
    house.close()


def test_a_record_of_another_machine_is_searched_and_checked_here(edge, server, narrated, tmp_path):
    out = tmp_path / "copy"
    command = ("collect", "--redis", server.url, "--out", out, "--camera", "edge-cam", "--once")
    nowhere = narrated(*command, "--pictures", "http://127.0.0.1:9")
    assert (nowhere.code, "cannot be reached" in nowhere.err) == (3, True)
    assert "6 missing" in nowhere.err
    alone = narrated("verify", out)
    assert (alone.code, "6 pictures not checked" in alone.err) == (0, True)
    other = House(tmp_path / "other")
    other.tell(0)
    with Served(other) as page:
        lacking = narrated(*command, "--pictures", page.url)
    other.close()
    assert (lacking.code, "6 missing" in lacking.err) == (3, True)
    with Served(edge) as page:
        ended = narrated(*command, "--pictures", page.url)
    assert ended.code == 0, ended.err
    assert "6 pictures fetched" in ended.err
    assert narrated("verify", out).code == 0
    assert narrated("verify", out / "journal", "--against", edge.folder).code == 0
    found = narrated("query", "--journal", out, "--json")
    assert len(found.out.splitlines()) == 3
    assert narrated("export", "--journal", out, "--out", tmp_path / "package").code == 0
    assert len(list((tmp_path / "package").rglob("*.jpg"))) == 6


def test_a_camera_without_a_stream_is_said(edge, server, narrated, tmp_path):
    command = ("collect", "--redis", server.url, "--out", tmp_path / "copy", "--once")
    ended = narrated(*command, "--camera", "edge-cam", "--camera", "edge-cma")
    assert ended.code == 3
    assert "camera edge-cma has no stream" in ended.err
    assert "camera edge-cam has" not in ended.err


def test_killed_again_and_again_it_loses_and_doubles_nothing(server, tmp_path):
    journal = Journal(tmp_path / "edge", "killed", fsync=False, limits=DAILY)
    publisher, copy = RedisServer(server.url), tmp_path / "copy" / "journal" / "killed.jsonl"
    command = ["collect", "--redis", server.url, "--out", tmp_path / "copy", "--camera", "killed"]
    with journal:
        for turn in range(3):
            for second in range(100):
                journal.append(narration(100 * turn + second, "killed"))
            Delivery(journal, publisher).drain(threading.Event())
            wanted = 100 * turn + 30
            process = forker().start(command, tmp_path)
            until(lambda least=wanted: copy.exists() and copy.read_bytes().count(b"\n") > least)
            process.kill()
            process.wait(LIMIT_S)
        process = forker().start(command, tmp_path)
        journal.append(narration(300, "killed"))  # so that it must have begun before it is told to end
        Delivery(journal, publisher).drain(threading.Event())
        until(lambda: copy.read_bytes() == journal.path.read_bytes())
        process.terminate()
        assert process.wait(LIMIT_S) == 0
        publisher.close()
    assert verify([tmp_path / "copy"]).ok


def test_mistakes_end_it_at_once(narrated, tmp_path):
    assert narrated("collect", "--redis", "redis://u:secret@h:x", "--out", tmp_path).code == 1
    refused = narrated("collect", "--redis", "redis://h", "--out", tmp_path, "--pictures", "edge:8080")
    assert refused.code == 2
    assert "write the address of a page" in refused.err
    missing = narrated("collect", "--redis", "${env:NOT_THERE}", "--out", tmp_path)
    assert missing.code == 78
