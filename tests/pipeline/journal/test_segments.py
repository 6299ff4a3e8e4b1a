"""Journals in several files, what retention leaves of them, and disks that take nothing."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from narrations import narration
from unpublished import unpublished

from pipeline.journal import (
    Journal,
    JournalError,
    SegmentLimits,
    Start,
    read_camera,
    read_journal,
    verify,
)
from pipeline.journal.segment_writer import SegmentWriter
from pipeline.record import RecordError, check_camera

SMALL = SegmentLimits(bytes=4000)  # five records


def opened(folder, limits=SMALL, hold=0):
    return Journal(folder, "yard", fsync=False, limits=limits, hold=hold)


def fill(folder, seconds, limits=SMALL):
    with opened(folder, limits) as journal:
        for second in seconds:
            journal.append(narration(second))


def publish_all(journal):
    *_, last = unpublished(journal)
    journal.acknowledge(last[1])


def numbers(journal):
    return [record.seq for record in journal]


def test_full_segments_get_their_number_and_the_chain_goes_on(tmp_path):
    fill(tmp_path, range(10))
    fill(tmp_path, range(10, 23))
    names = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert names[0] == "yard.000000000001.jsonl"
    assert names[-1] == "yard.jsonl"
    assert len(names) > 3
    for name in names[:-1]:
        assert next(read_journal(tmp_path / name)).seq == int(name.split(".")[1])
    with opened(tmp_path) as journal:
        assert numbers(journal) == list(range(1, 24))
        assert [record.seq for record, _ in unpublished(journal)] == list(range(1, 24))
        assert journal.size == sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
    assert [record.seq for record in read_camera(tmp_path, "yard")] == list(range(1, 24))
    verification = verify([tmp_path])
    assert verification.ok, verification.problems
    assert verification.lines == 23


def test_a_new_day_begins_a_segment(tmp_path):
    day = 86400
    fill(tmp_path, [0, 5, day + 1, day + 2, 3 * day], SegmentLimits(daily=True))
    fill(tmp_path, [3 * day + 1, 4 * day], SegmentLimits(daily=True))
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == [
        "yard.000000000001.jsonl",
        "yard.000000000003.jsonl",
        "yard.000000000005.jsonl",
        "yard.jsonl",
    ]
    assert verify([tmp_path]).ok


def test_names_that_would_be_taken_for_segments_are_no_camera_names():
    with pytest.raises(RecordError, match="segments"):
        check_camera("yard.000000000001")
    assert check_camera("yard.1") == "yard.1"


def test_every_position_is_found_again_in_the_next_run(tmp_path):
    fill(tmp_path, range(17))
    with opened(tmp_path) as journal:
        places = [position for _, position in unpublished(journal)]
    for place in places:
        with opened(tmp_path) as journal:
            journal.acknowledge(place)
        with opened(tmp_path) as journal:
            assert journal.published == place
            assert [record.seq for record, _ in unpublished(journal)] == list(range(place.seq + 1, 18))
            assert journal.behind_seq(place.seq) == place
            found, record = journal.find(place.stream_id)
            assert (found, record.seq) == (place, place.seq)


def test_a_backlog_goes_over_segments_and_is_read_while_they_close(tmp_path):
    with opened(tmp_path) as journal:
        for second in range(12):
            journal.append(narration(second))
        reading = iter(journal)
        seen = [next(reading).seq for _ in range(11)]
        for second in range(12, 30):
            journal.append(narration(second))
        seen += [record.seq for record in reading]
        assert seen == list(range(1, 31))
        batch = journal.backlog(13)
        assert batch.behind.seq == len(batch.lines) == 13
        journal.acknowledge(batch.behind)
        assert journal.backlog(100).behind.seq == 30


def test_a_damaged_line_is_never_handed_out_for_publishing(tmp_path):
    fill(tmp_path, range(3))
    path = tmp_path / "yard.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"seq":2', b'"seq":7'))
    with opened(tmp_path) as journal, pytest.raises(JournalError, match="narrated verify"):
        journal.backlog(3)


def test_only_what_is_published_is_deleted_and_the_chain_goes_on_behind_it(tmp_path):
    with opened(tmp_path) as journal:
        for second in range(23):
            journal.append(narration(second))
        assert not journal.delete_oldest()
        journal.acknowledge(journal.behind_seq(7))
        assert journal.delete_oldest()
        assert not journal.delete_oldest()
        left = numbers(journal)
        assert left == list(range(left[0], 24))
        assert left[0] > 1
        assert [record.seq for record, _ in unpublished(journal)] == list(range(8, 24))
        publish_all(journal)
        while journal.delete_oldest():
            pass
        assert journal.closed() == []
        assert numbers(journal)[-1] == 23
        assert journal.behind_seq(2).seq == journal.find("5-0")[0].seq == numbers(journal)[0] - 1
    start = Start.load(tmp_path / "yard.start")
    with opened(tmp_path) as journal:
        assert numbers(journal)[0] == start.seq + 1
        assert next(iter(journal)).prev == start.hash
        assert list(unpublished(journal)) == []
        assert journal.append(narration(99)).seq == 24
    verification = verify([tmp_path])
    assert verification.ok, verification.problems


def test_a_chain_without_its_start_is_found_out(tmp_path):
    with opened(tmp_path) as journal:
        for second in range(12):
            journal.append(narration(second))
        publish_all(journal)
        assert journal.delete_oldest()
    assert verify([tmp_path]).ok
    (tmp_path / "yard.start").unlink()
    assert not verify([tmp_path]).ok


def test_a_segment_waits_for_the_last_of_its_records_to_be_published(tmp_path):
    with opened(tmp_path) as journal:
        for second in range(8):
            journal.append(narration(second))
        last = journal.closed()[0].last().seq
        assert last > 2
        journal.acknowledge(journal.behind_seq(last - 1))
        assert not journal.delete_oldest()
        assert [record.seq for record, _ in unpublished(journal)] == list(range(last, 9))
        journal.acknowledge(journal.behind_seq(last))
        assert journal.delete_oldest()
        assert numbers(journal) == list(range(last + 1, 9))


def test_the_last_record_is_never_deleted(tmp_path):
    """Without it the next run would not know where the chain ends."""
    fill(tmp_path, range(5))
    (tmp_path / "yard.jsonl").rename(tmp_path / "yard.000000000001.jsonl")  # killed before the next was begun
    with opened(tmp_path) as journal:
        publish_all(journal)
        assert not journal.delete_oldest()
        assert journal.append(narration(6)).seq == 6
        assert journal.delete_oldest()
        assert numbers(journal) == [6]


def test_killed_between_the_anchor_and_the_deletion(tmp_path):
    with opened(tmp_path) as journal:
        for second in range(17):
            journal.append(narration(second))
        publish_all(journal)
        kept = shutil.copy(journal.closed()[0].path, tmp_path / "copy")
        assert journal.delete_oldest()
        expected = numbers(journal)
    shutil.move(kept, tmp_path / "yard.000000000001.jsonl")
    with opened(tmp_path) as journal:
        assert numbers(journal) == expected
        assert list(unpublished(journal)) == []
    assert not (tmp_path / "yard.000000000001.jsonl").exists()


@contextmanager
def disk_full_at(size):
    """The kernel's own limit on file sizes stops a write in the middle, as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.logs_errors
def test_a_full_disk_holds_lines_back_and_takes_them_later(tmp_path, caplog):
    with opened(tmp_path, SegmentLimits(), hold=10) as journal:
        journal.append(narration(0))
        before = journal.path.read_bytes()
        with disk_full_at(len(before) + 300):
            records = [journal.append(narration(second)) for second in range(1, 6)]
            assert journal.path.read_bytes() == before
            assert (journal.held, journal.trouble) == (5, os.strerror(errno.EFBIG))
            assert [r.seq for r in records] == [2, 3, 4, 5, 6]
            assert [record for record, _ in unpublished(journal)][1:] == records
            batch = journal.backlog(4)
            journal.acknowledge(batch.behind)
            assert [record.seq for record, _ in unpublished(journal)] == [5, 6]
            assert not journal.settle()
        assert journal.settle()
        assert (journal.held, journal.trouble) == (0, "")
        assert [record.seq for record, _ in unpublished(journal)] == [5, 6]
        assert journal.append(narration(7)).seq == 7
    assert caplog.text.count("narrations are published all the same") == 1
    assert "is written again; 5 held narrations are on disk" in caplog.text
    assert verify([tmp_path]).lines == 7
    with opened(tmp_path) as journal:
        assert [record.seq for record, _ in unpublished(journal)] == [5, 6, 7]


def test_a_journal_that_may_hold_nothing_is_not_opened_without_a_disk(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(SegmentWriter, "open", full)
    with pytest.raises(JournalError, match=r"cannot write the journal .*No space left"):
        opened(tmp_path)


@pytest.mark.logs_errors
def test_held_lines_have_a_limit_and_what_is_lost_is_told(tmp_path, caplog):
    with opened(tmp_path, hold=3) as journal, disk_full_at(10):
        for second in range(3):
            journal.append(narration(second))
        with pytest.raises(JournalError, match="3 narrations are held already; free space"):
            journal.append(narration(3))
        journal.close()
    assert "3 narrations are not on disk, at best on the stream" in caplog.text
    assert verify([tmp_path]).lines == 0


@pytest.mark.logs_errors
def test_a_journal_that_was_opened_without_a_disk_is_locked_and_named_when_there_is_one(tmp_path):
    folder = tmp_path / "state"
    with disk_full_at(0), opened(folder, hold=10) as journal:
        (folder / "yard.writer").unlink(missing_ok=True)
        journal.append(narration(0))
        assert journal.held == 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert journal.settle()
        with pytest.raises(JournalError, match="being written by another"):
            opened(folder)
        name = journal.writer
    with opened(folder) as journal:
        assert journal.writer == name


@pytest.mark.logs_errors
def test_a_journal_that_appears_later_is_not_written_over(tmp_path):
    """The disk was mounted after the start: what is held belongs to no journal that is on it."""
    mounted, folder = tmp_path / "mounted", tmp_path / "state"
    fill(mounted, range(3))
    before = (mounted / "yard.jsonl").read_bytes()
    with disk_full_at(0):
        journal = opened(folder, hold=10)
        journal.append(narration(9))
        assert journal.held == 1
    shutil.rmtree(folder)
    mounted.rename(folder)
    for _ in range(2):
        with pytest.raises(JournalError, match="start it again"):
            journal.settle()
    assert journal.held == 1
    assert (folder / "yard.jsonl").read_bytes() == before
    assert not (folder / "yard.torn").exists()


@pytest.mark.logs_errors
def test_a_folder_that_cannot_be_made_yet(tmp_path, monkeypatch):
    """Opened on a disk that takes nothing, the journal begins when it does."""
    folder = tmp_path / "state" / "journal"
    with disk_full_at(0), opened(folder, hold=10) as journal:
        records = [journal.append(narration(second)) for second in range(3)]
        assert [record for record, _ in unpublished(journal)] == records
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert journal.append(narration(3)).seq == 4
        assert journal.held == 0
    assert verify([folder]).lines == 4


_DISK = """
import logging, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from plain_narration import narration
from pipeline.journal import Journal, verify

logging.disable(logging.CRITICAL)
disk = Path(sys.argv[1])
def mount(*options):
    subprocess.run(["mount", *options, disk], check=True)
mount("-t", "tmpfs", "-o", "size=64k", "none")
with Journal(disk / "journal", "yard", hold=1000) as journal:
    journal.append(narration(0))
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError:
            pass
    for second in range(1, 41):
        journal.append(narration(second))
    while journal.backlog(1).lines:
        journal.acknowledge(journal.backlog(1).behind)  # the position cannot be saved either
    assert journal.held and "space" in journal.trouble, journal.trouble
    filler.unlink()
    journal.append(narration(41))
    assert not journal.held
mount("-o", "remount,ro")
with Journal(disk / "journal", "yard", hold=1000) as journal:
    assert journal.end.seq == 42, journal.end
    journal.append(narration(43))
    assert "Read-only" in journal.trouble
    assert journal.backlog(100).behind.seq == 43
    mount("-o", "remount,rw")
    assert journal.settle()
    assert [r.seq for r in journal] == list(range(1, 44))
found = verify([disk / "journal"])
assert found.ok and found.lines == 43, found
print("all is well")
"""


def test_a_real_disk_full_and_read_only(tmp_path):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("mounting a small disk needs root and unshare")
    allowed = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if allowed.returncode:
        pytest.skip(f"this machine lets nobody mount: {allowed.stderr.decode().strip()}")
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", _DISK, tmp_path, Path(__file__).parents[1]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "all is well", done.stderr


def test_a_reader_at_the_end_of_a_segment_passes_over_nothing(tmp_path, monkeypatch):
    """Records come, and the next segment begins, between its last look at the size and its next step."""
    seen, whole = [], SegmentWriter.whole
    with opened(tmp_path) as journal:

        def overtaken(writer, first):
            size = whole(writer, first)
            while len(seen) == 2 and not journal.closed():
                journal.append(narration(journal.end.seq))
            return size

        for second in range(2):
            journal.append(narration(second))
        monkeypatch.setattr(SegmentWriter, "whole", overtaken)
        for record in journal:
            seen.append(record.seq)  # noqa: PERF401 - one by one: the writer looks at it
        assert journal.closed()
        assert seen == list(range(1, journal.end.seq + 1))
