"""What a run published from memory and could not write: the stream gives it back to the journal."""

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from unpublished import unpublished

from pipeline.journal import Journal, SegmentLimits, read_camera, verify
from pipeline.publisher import stream_key

KEY = stream_key("yard")
TAKEN = "narrations were on the stream but not in the journal"


def drain(journal, deliver, server, **options):
    delivery = deliver(journal, server.url, **options)
    delivery.drain(threading.Event())
    delivery.release()
    return delivery


@pytest.fixture
def forgetful(any_server, tmp_path, narration, deliver):
    """A journal that was put back to its first three records, after ten of them were published."""
    with Journal(tmp_path / "yard", "yard", fsync=False) as journal:
        for second in range(10):
            journal.append(narration(second))
            if second == 2:
                drain(journal, deliver, any_server)
                shutil.copytree(tmp_path / "yard", tmp_path / "earlier")
        drain(journal, deliver, any_server)
    return tmp_path / "earlier"


def mounting_is_allowed():
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    return not subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode


@pytest.mark.parametrize("wrong", ["limited", "full", "read-only"])
def test_killed_while_the_disk_takes_nothing(wrong, quick_server, tmp_path, on_stream):
    if wrong != "limited" and not mounting_is_allowed():
        pytest.skip("mounting a small disk needs root and unshare")
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    script = [sys.executable, Path(__file__).with_name("killed_without_disk.py")]
    done = subprocess.run(
        [*(["unshare", "-m"] if wrong != "limited" else []), *script, disk, quick_server.url, wrong, copy],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["55"]
    told = re.findall(rf"camera yard: (\d+) {TAKEN}.*; they are (.*) now", done.stderr)
    assert [where for _, where in told] == ["held in memory", "journalled"], done.stderr
    assert 10 < int(told[0][0]) <= 20
    assert 40 < int(told[1][0]) <= 50
    folder = disk / "journal" if wrong == "limited" else copy
    verification = verify([folder])
    assert verification.ok, verification.problems
    assert on_stream(quick_server) == list(read_camera(folder, "yard"))
    assert [record.seq for record in on_stream(quick_server)] == list(range(1, 56))


def test_lines_come_back_page_by_page_and_are_not_published_again(
    any_server, client, forgetful, narration, deliver, on_stream, caplog
):
    published = on_stream(any_server)
    with Journal(forgetful, "yard", fsync=False, limits=SegmentLimits(bytes=4000)) as journal:
        assert [record.seq for record in journal] == [1, 2, 3]
        drain(journal, deliver, any_server, batch=3)
        assert list(journal) == published == on_stream(any_server)
        assert list(unpublished(journal)) == []
        journal.append(narration(10))
        drain(journal, deliver, any_server)
        assert list(journal) == on_stream(any_server)
    assert caplog.text.count(f"7 {TAKEN}") == 1
    assert verify([forgetful]).lines == 11
    assert len(list(forgetful.glob("*.jsonl"))) > 1


def test_a_saved_position_behind_the_journals_end(any_server, forgetful, deliver, on_stream):
    """The position could be saved where the line itself could not."""
    shutil.copy(forgetful.parent / "yard" / "yard.published", forgetful / "yard.published")
    with Journal(forgetful, "yard", fsync=False) as journal:
        drain(journal, deliver, any_server)
        assert list(journal) == on_stream(any_server)
        assert journal.published.seq == journal.end.seq == 10


def test_what_does_not_continue_the_chain_is_refused(
    any_server, client, forgetful, narration, deliver, on_stream, caplog
):
    """Behind the journal's end: a line that was changed, others' entries, and a gap."""
    entries = client.xrange(KEY)
    client.delete(KEY)
    for number, (entry_id, fields) in enumerate(entries):
        if number == 5:
            fields = {**fields, "json": fields["json"].replace("A car", "A cat")}  # noqa: PLW2901
        client.xadd(KEY, fields, id=entry_id)
    client.xadd(KEY, {"note": b"\xff\x00 no text"})
    with Journal(forgetful, "yard", fsync=False) as journal:
        drain(journal, deliver, any_server)
        assert [record.seq for record in journal] == [1, 2, 3, 4, 5]
    assert f"2 {TAKEN}" in caplog.text
    assert "behind record 3" in caplog.text
    assert "the hash does not match: the line was changed" in caplog.text
    assert verify([forgetful]).ok


def test_another_journals_stream_gives_nothing(any_server, client, tmp_path, narration, deliver, caplog):
    for folder, seconds in (("ours", range(3)), ("theirs", range(100, 106))):
        with Journal(tmp_path / folder, "yard", fsync=False) as journal:
            for second in seconds:
                journal.append(narration(second))
            if folder == "theirs":
                drain(journal, deliver, any_server)
    with Journal(tmp_path / "ours", "yard", fsync=False) as journal:
        delivery = deliver(journal, any_server.url)
        with pytest.raises(Exception, match="another writer"):
            delivery.drain(threading.Event())
        assert delivery.compared
        assert len(list(journal)) == 3
    assert "seq 1 of yard where 4 is due" in caplog.text
    assert TAKEN not in caplog.text


def test_an_empty_journal_takes_nothing(any_server, forgetful, tmp_path, deliver, caplog):
    """Nothing proves that a stream is its own: somebody may use the camera's name a second time."""
    with Journal(tmp_path / "new", "yard", fsync=False) as journal:
        drain(journal, deliver, any_server)
        assert list(journal) == []
    assert TAKEN not in caplog.text


def test_what_was_told_before_the_server_could_be_asked_goes_on_and_it_is_said(
    any_server, forgetful, narration, deliver, on_stream, caplog
):
    with Journal(forgetful, "yard", fsync=False) as journal:
        record = journal.append(narration(50))
        drain(journal, deliver, any_server)
        assert [each.seq for each in journal] == [1, 2, 3, 4]
    assert [each.seq for each in on_stream(any_server)] == [*range(1, 11), 4]
    assert on_stream(any_server)[-1] == record
    assert "seq 4 of yard where 5 is due" in caplog.text
    assert "stays on the stream only" in caplog.text
    assert verify([forgetful]).ok


def test_a_server_that_comes_back_is_asked_before_anything_is_published(
    any_server, forgetful, narration, deliver, on_stream, caplog
):
    caplog.set_level(logging.WARNING)
    with Journal(forgetful, "yard", fsync=False) as journal:
        any_server.stop()
        delivery, stop = deliver(journal, any_server.url), threading.Event()
        thread = threading.Thread(target=delivery.drain, args=(stop,))
        thread.start()
        try:
            while "trying again until it is back" not in caplog.text:
                stop.wait(0.01)
            assert not delivery.compared
            any_server.start()
            thread.join(30)
        finally:
            stop.set()
            thread.join(5)
        assert delivery.compared
        assert list(journal) == on_stream(any_server)
        assert journal.end.seq == 10


def test_no_server_is_not_asked(forgetful, deliver):
    with Journal(forgetful, "yard", fsync=False) as journal:
        delivery = deliver(journal, "none:")
        delivery.drain(threading.Event())
        assert delivery.compared
