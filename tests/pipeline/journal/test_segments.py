"""Journals in several files, what retention leaves of them, and disks that take nothing."""

import errno
import fcntl
import os
from pathlib import Path

import pytest
from full_disk import disk_full_at
from narrations import narration
from unpublished import recorded, unpublished

from pipeline.evidence import EvidenceStore
from pipeline.journal import DAILY, Journal, JournalError, SegmentLimits, read_camera, read_journal
from pipeline.journal.signatures import SigningKey, new_key
from pipeline.journal.verification import verify
from pipeline.record import ChainEnd

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


def delete_oldest(journal):
    """Delete the oldest segment; the number of its last record."""
    last = journal.closed()[0].last_record()
    journal.delete(last)
    for segment in journal.deleted():
        journal.unlink(segment)
    return last.seq


def numbers(journal):
    return [record.seq for record in recorded(journal)]


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


def test_a_new_day_begins_a_segment_and_a_clock_that_is_set_back_does_not(tmp_path):
    day = 86400
    fill(tmp_path, [0, 5, day + 1, 10, day + 2, 3 * day], SegmentLimits(daily=True))
    fill(tmp_path, [3 * day + 1, 4 * day], SegmentLimits(daily=True))
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == [
        "yard.000000000001.jsonl",
        "yard.000000000003.jsonl",
        "yard.000000000006.jsonl",
        "yard.jsonl",
    ]
    assert verify([tmp_path]).ok


def test_records_of_a_clock_that_was_years_ahead_keep_no_later_ones(tmp_path):
    for seconds in ([0, 900 * 86400], [5, 86400, 2 * 86400]):
        fill(tmp_path, seconds, SegmentLimits(daily=True))
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == [
        *(f"yard.{first:012d}.jsonl" for first in (1, 2, 3, 4)),
        "yard.jsonl",
    ]


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
            assert journal.end_at(place.seq) == place
            found, record = journal.find(place.stream_id)
            assert (found, record.seq) == (place, place.seq)
            assert journal.find((place.stream_id[0] + 1, 0)) == (found, record)
            assert journal.find((5, 0)) == (ChainEnd(), None)


def test_the_chain_goes_on_behind_what_was_deleted(tmp_path):
    with opened(tmp_path) as journal:
        for second in range(23):
            journal.append(narration(second))
        journal.acknowledge(journal.end_at(12))
        first = delete_oldest(journal) + 1
        assert numbers(journal) == list(range(first, 24))
        assert [record.seq for record, _ in unpublished(journal)] == list(range(13, 24))
        publish_all(journal)
        while journal.closed():
            first = delete_oldest(journal) + 1
        assert numbers(journal) == list(range(first, 24))
        assert journal.end_at(2).seq == journal.find((5, 0))[0].seq == first - 1
    assert (tmp_path / "yard.start").exists()
    assert verify([tmp_path]).ok
    with opened(tmp_path) as journal:
        assert list(unpublished(journal)) == []
        assert journal.append(narration(99)).seq == 24
    assert verify([tmp_path]).ok
    (tmp_path / "yard.start").unlink()
    assert not verify([tmp_path]).ok


def test_words_signatures_and_pictures_are_private_whatever_the_umask(tmp_path):
    key, before = SigningKey(new_key()), os.umask(0)
    try:
        with opened(tmp_path / "journal", SegmentLimits(bytes=1)) as journal:
            for second in range(3):
                journal.append(narration(second))
            publish_all(journal)
            key.sign("yard", journal.end).append(journal.folder)
            journal.delete(journal.closed()[0].last_record(), key)
        EvidenceStore(tmp_path / "evidence").put(b"private", "jpg")
    finally:
        os.umask(before)
    written = [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o027 == 0]
    assert {path.suffix for path in written} == {
        "",
        ".jpg",
        ".jsonl",
        ".published",
        ".signatures",
        ".start",
        ".writer",
    }
    assert sorted(written) == sorted(tmp_path.rglob("*"))


@pytest.mark.logs_errors
def test_a_full_disk_holds_narrations_and_takes_them_later(tmp_path, caplog):
    with opened(tmp_path, SegmentLimits()) as journal:
        journal.append(narration(0))
        before = journal.path.read_bytes()
        with disk_full_at(len(before) + 300), pytest.raises(JournalError, match="free space"):
            journal.append(narration(1))  # that may not be held
    with opened(tmp_path, SegmentLimits(), hold=5) as journal:
        with disk_full_at(len(before) + 300):
            assert [journal.append(narration(second)) for second in range(1, 6)] == [None] * 5
            assert journal.path.read_bytes() == before
            assert (journal.held, journal.trouble) == (5, os.strerror(errno.EFBIG))
            assert [record.seq for record, _ in unpublished(journal)] == [1]  # nothing but what is written
            assert not journal.flush()
            with pytest.raises(JournalError, match="narrations held already: 5"):
                journal.append(narration(6))
        assert journal.flush()
        assert (journal.held, journal.trouble) == (0, "")
        assert journal.append(narration(7)).seq == 7
        assert [record.id for record in recorded(journal)] == [f"yard-{n}" for n in (0, 1, 2, 3, 4, 5, 7)]
    assert caplog.text.count("cannot be used: File too large; narrations are held in memory") == 1
    assert "is writable again; held narrations now on disk: 5" in caplog.text
    assert verify([tmp_path]).lines == 7


@pytest.mark.logs_errors
@pytest.mark.parametrize(
    "remove",
    [
        Path.unlink,
        lambda path: path.rename(path.with_suffix(".moved")),
        lambda path: os.truncate(path, 0),  # as logrotate does
    ],
)
def test_a_journal_that_somebody_removes_while_it_is_written_begins_anew(tmp_path, remove):
    with opened(tmp_path, DAILY) as journal:
        for second in (0, 1, 86_400):
            journal.append(narration(second))
        remove(journal.path)
        assert [journal.append(narration(86_401 + k)).seq for k in range(2)] == [3, 4]
        assert numbers(journal) == [record.seq for record in read_camera(tmp_path, "yard")] == [1, 2, 3, 4]
    assert verify([tmp_path]).ok


@pytest.mark.logs_errors
@pytest.mark.parametrize("broken", ["damaged", "unreadable", "an error of the disk", "no locks"])
def test_a_journal_that_cannot_be_read_holds_narrations_until_it_can(tmp_path, monkeypatch, broken):
    fill(tmp_path, range(3), SegmentLimits())
    path = tmp_path / "yard.jsonl"
    whole = path.read_bytes()
    with monkeypatch.context() as patch:
        if broken == "damaged":
            path.write_bytes(whole + b"garbage\n" * 3)
        else:  # the user that runs this may read everything
            number = errno.EACCES if broken == "unreadable" else errno.EIO

            def refuse(name, *rest, real=os.open, **options):
                if Path(name).name == path.name:
                    raise OSError(number, os.strerror(number))
                return real(name, *rest, **options)

            if broken == "no locks":
                patch.setattr(fcntl, "flock", lambda *_: refuse(path))
            else:
                patch.setattr(os, "open", refuse)
        found = path.read_bytes()
        with pytest.raises(JournalError, match="narrated verify" if broken == "damaged" else path.name):
            opened(tmp_path)
        assert path.read_bytes() == found
        journal = opened(tmp_path, SegmentLimits(), hold=9)
        assert journal.append(narration(5)) is None
        assert (journal.is_open, journal.held) == (False, 1)
        expected = "is damaged before its last line" if broken == "damaged" else os.strerror(number)
        assert expected in journal.trouble
        path.write_bytes(whole)
    assert journal.flush()
    assert numbers(journal) == [1, 2, 3, 4]
    journal.close()
    assert verify([tmp_path]).lines == 4
