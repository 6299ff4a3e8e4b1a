"""What one journal holds, in one file or several, and what a crash, a full disk or somebody else leaves."""

import errno
import fcntl
import os
from itertools import product
from pathlib import Path

import pytest
from faulty_disks import disk_full_at
from narrations import narration
from unpublished import recorded, unpublished

from pipeline.evidence import EvidenceStore
from pipeline.journal import DAILY, Journal, JournalError, SegmentLimits, latest_first, read_journal
from pipeline.journal.signatures import SigningKey, new_key
from pipeline.journal.verification import verify
from pipeline.record import ChainEnd, format_stream_id
from pipeline.record_format import RecordError

WHOLE, SMALL = SegmentLimits(), SegmentLimits(bytes=4000)  # five records
DAY = 86_400


def opened(folder, limits=WHOLE, hold=0):
    return Journal(folder, "yard", fsync=False, limits=limits, hold=hold)


def fill(folder, seconds=range(3), limits=WHOLE):
    with opened(folder, limits) as journal:
        for second in seconds:
            journal.append(narration(second))
        return journal.path


def delete_oldest(journal):
    """Delete the oldest segment; the number of the first record behind it."""
    last = journal.full[0].last_record()
    journal.delete(last)
    for segment in journal.deleted:
        journal.unlink(segment)
    return last.seq + 1


def numbers(journal):
    return [record.seq for record in recorded(journal)]


def left(journal):
    """The numbers of the records that are not published."""
    return [record.seq for record, _ in unpublished(journal)]


def test_a_journal_holds_what_was_appended(tmp_path):
    with Journal(tmp_path / "new" / "folder", "yard") as journal:
        records = [journal.append(narration(second), suppressed=second) for second in range(3)]
        assert recorded(journal) == records
        assert journal.end.seq == 3
    assert [r.seq for r in records] == [1, 2, 3]
    assert records[2].prev == records[1].hash
    assert journal.path.read_bytes() == b"".join(r.line() + b"\n" for r in records)
    assert list(read_journal(journal.path)) == records
    verification = verify([journal.path])
    assert verification.ok
    assert (verification.files, verification.lines) == (1, 3)
    assert verification.ends[journal.path, "yard"].hash == records[2].hash


def test_a_second_writer_is_turned_away(tmp_path):
    with Journal(tmp_path, "yard"), pytest.raises(JournalError, match=r"being written.*another camera name"):
        Journal(tmp_path, "yard")
    with Journal(tmp_path, "yard"), Journal(tmp_path, "lot"):
        pass


def test_wrong_narrations_are_refused_and_change_nothing(tmp_path):
    with Journal(tmp_path, "yard") as journal:
        with pytest.raises(RecordError, match="not of yard"):
            journal.append(narration(camera="lot"))
        with pytest.raises(RecordError, match="l2"):
            journal.append(narration(l2=float("inf")))
        assert journal.append(narration()).seq == 1
    with pytest.raises(JournalError, match="closed"):
        journal.append(narration())
    journal.close()


def test_a_journal_needs_a_folder_that_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="may write"):
        Journal(tmp_path / "file", "yard")
    for name in ("../yard", "yard.000000000001"):
        with pytest.raises(RecordError):
            Journal(tmp_path, name)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"offset": 5}', '{"offset": -3, "seq": 1}', "\0" * 40])
def test_an_unreadable_position_publishes_again_from_the_start(tmp_path, content):
    path = fill(tmp_path)
    path.with_suffix(".published").write_text(content)
    with opened(tmp_path) as journal:
        assert left(journal) == [1, 2, 3]


def test_a_position_of_another_journal_is_not_believed(tmp_path):
    fill(tmp_path / "other", (7, 8))
    with opened(tmp_path / "other") as journal:
        journal.acknowledge(journal.end)
    path = fill(tmp_path)
    (tmp_path / "other" / "yard.published").rename(path.with_suffix(".published"))
    with opened(tmp_path) as journal:
        assert left(journal) == [1, 2, 3]


def test_stream_ids_of_published_lines_that_a_power_failure_took_are_not_used_again(tmp_path):
    path = fill(tmp_path, (0, 100))
    with opened(tmp_path) as journal:
        journal.acknowledge(lost := journal.end)
    os.truncate(path, len(path.read_bytes().splitlines(keepends=True)[0]))
    with opened(tmp_path) as journal:
        record = journal.append(narration(50))
        assert record.seq == 2
        assert record.stream_id == format_stream_id((lost.stream_id[0], 1))
    assert verify([tmp_path]).ok


def test_a_journal_is_read_while_it_is_written(tmp_path):
    with Journal(tmp_path, "yard", fsync=False) as journal:
        journal.append(narration(0))
        reading = read_journal(journal.path)
        assert next(reading).seq == 1
        journal.append(narration(1))
        assert [r.seq for r in reading] == [2]
        with journal.path.open("ab") as other:
            other.write(b'{"half')
        assert [r.seq for r in read_journal(journal.path)] == [1, 2]
        assert journal.append(narration(2)).seq == 3  # cuts the foreign half line off
    assert verify([tmp_path]).lines == 3


TORN = (b"", b"{", b"{\n", b'{"half', b"\0" * 100, b"\0" * 99 + b"\n", b'{"hash":1}\n', None)


@pytest.mark.parametrize(("kept", "torn"), [*product((0, 2), TORN), (0, b"{\n{")])
def test_what_a_crash_tore_is_moved_aside_and_the_chain_goes_on(tmp_path, kept, torn):
    path = fill(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    torn = lines[2][:-1] if torn is None else torn  # nothing but its end is missing
    path.write_bytes(b"".join(lines[:kept]) + torn)
    with Journal(tmp_path, "yard") as journal:
        assert journal.append(narration(9)).seq == kept + 1
    assert verify([path]).lines == kept + 1
    if kept and torn:
        assert path.with_suffix(".torn").read_bytes() == torn + b"\n"


def test_full_segments_get_their_number_and_the_chain_goes_on(tmp_path):
    fill(tmp_path, range(10), SMALL)
    fill(tmp_path, range(10, 23), SMALL)
    names = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert names[0] == "yard.000000000001.jsonl"
    assert names[-1] == "yard.jsonl"
    assert len(names) > 3
    for name in names[:-1]:
        assert next(read_journal(tmp_path / name)).seq == int(name.split(".")[1])
    with opened(tmp_path, SMALL) as journal:
        assert numbers(journal) == left(journal) == list(range(1, 24))
        assert journal.size == sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
    verification = verify([tmp_path])
    assert verification.ok, verification.problems
    assert verification.lines == 23


@pytest.mark.parametrize(
    ("first_run", "second_run", "firsts"),
    [
        ([0, 5, DAY + 1, 10, DAY + 2, 3 * DAY], [3 * DAY + 1, 4 * DAY], (1, 3, 6)),
        ([0, 900 * DAY], [5, DAY, 2 * DAY], (1, 2, 3, 4)),  # records years ahead keep no later ones
    ],
)
def test_a_new_day_begins_a_segment_and_a_clock_that_is_set_back_does_not(
    tmp_path, first_run, second_run, firsts
):
    for seconds in (first_run, second_run):
        fill(tmp_path, seconds, SegmentLimits(daily=True))
    full = [f"yard.{first:012d}.jsonl" for first in firsts]
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == [*full, "yard.jsonl"]
    assert verify([tmp_path]).ok


def test_every_position_is_found_again_in_the_next_run(tmp_path):
    fill(tmp_path, range(17), SMALL)
    with opened(tmp_path, SMALL) as journal:
        places = [position for _, position in unpublished(journal)]
    for place in places:
        with opened(tmp_path, SMALL) as journal:
            journal.acknowledge(place)
        with opened(tmp_path, SMALL) as journal:
            assert journal.published == place
            assert left(journal) == list(range(place.seq + 1, 18))
            assert journal.end_at(place.seq) == place
            found, record = journal.find(place.stream_id)
            assert (found, record.seq) == (place, place.seq)
            assert journal.find((place.stream_id[0] + 1, 0)) == (found, record)
            assert journal.find((5, 0)) == (ChainEnd(), None)


def test_the_chain_goes_on_behind_what_was_deleted(tmp_path):
    fill(tmp_path, range(23), SMALL)
    with opened(tmp_path, SMALL) as journal:
        journal.acknowledge(journal.end_at(12))
        first = delete_oldest(journal)
        assert numbers(journal) == list(range(first, 24))
        assert left(journal) == list(range(13, 24))
        journal.acknowledge(journal.end)
        while journal.full:
            first = delete_oldest(journal)
        assert numbers(journal) == list(range(first, 24))
        assert journal.end_at(2).seq == journal.find((5, 0))[0].seq == first - 1
    assert (tmp_path / "yard.start").exists()
    assert verify([tmp_path]).ok
    with opened(tmp_path, SMALL) as journal:
        assert left(journal) == []
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
            journal.acknowledge(journal.end)
            key.sign("yard", journal.end).append(journal.folder)
            journal.delete(journal.full[0].last_record(), key)
        EvidenceStore(tmp_path / "evidence").put(b"private", "jpg")
    finally:
        os.umask(before)
    written = [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o027 == 0]
    suffixes = {"", ".jpg", ".jsonl", ".published", ".signatures", ".start", ".writer"}
    assert {path.suffix for path in written} == suffixes
    assert sorted(written) == sorted(tmp_path.rglob("*"))


@pytest.mark.logs_errors
def test_a_full_disk_holds_narrations_and_takes_them_later(tmp_path, caplog):
    before = fill(tmp_path, [0]).read_bytes()
    with (
        opened(tmp_path) as journal,
        disk_full_at(len(before) + 300),
        pytest.raises(JournalError, match="free space"),
    ):
        journal.append(narration(1))  # that may not be held
    with opened(tmp_path, hold=5) as journal:
        with disk_full_at(len(before) + 300):
            assert [journal.append(narration(second)) for second in range(1, 6)] == [None] * 5
            assert journal.path.read_bytes() == before
            assert (journal.held, journal.trouble) == (5, os.strerror(errno.EFBIG))
            assert left(journal) == [1]  # nothing but what is written
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
        for second in (0, 1, DAY):
            journal.append(narration(second))
        remove(journal.path)
        assert [journal.append(narration(DAY + 1 + k)).seq for k in range(2)] == [3, 4]
        assert numbers(journal) == [1, 2, 3, 4]
        assert [segment.first for segment in journal.full] == [1]  # no empty one was begun
    assert verify([tmp_path]).ok


@pytest.mark.logs_errors
@pytest.mark.parametrize("broken", ["damaged", "unreadable", "an error of the disk", "no locks"])
def test_a_journal_that_cannot_be_read_holds_narrations_until_it_can(tmp_path, monkeypatch, broken):
    path = fill(tmp_path)
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
        journal = opened(tmp_path, hold=9)
        assert journal.append(narration(5)) is None
        with pytest.raises(JournalError, match="cannot be opened"):
            journal.append(narration(6), may_wait=False)
        assert (journal.is_open, journal.held) == (False, 1)
        expected = "is damaged before its last line" if broken == "damaged" else os.strerror(number)
        assert expected in journal.trouble
        path.write_bytes(whole)
    assert journal.flush()
    assert numbers(journal) == [1, 2, 3, 4]
    journal.close()
    assert verify([tmp_path]).lines == 4


@pytest.mark.logs_errors
def test_nothing_is_told_or_deleted_of_a_journal_that_cannot_be_opened_again(tmp_path, monkeypatch):
    journal = opened(tmp_path, SMALL, hold=9)
    for second in range(12):
        journal.append(narration(second))
    last = journal.full[0].last_record()
    journal.path.unlink()
    with monkeypatch.context() as patch:

        def refuse(*_):
            assert not journal.is_open  # nor for a moment while it is being opened
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        patch.setattr(fcntl, "flock", refuse)
        assert journal.append(narration(20)) is None
        assert (journal.is_open, journal.token, journal.full, journal.deleted) == (False, "", [], [])
        for ask in (lambda: journal.backlog(1), lambda: journal.end_at(1), lambda: journal.delete(last)):
            with pytest.raises(JournalError, match="cannot be opened"):
                ask()
        journal.close()
    assert not (tmp_path / "yard.start").exists()
    assert not journal.flush()  # closed: opened again it would keep the lock
    opened(tmp_path).close()


def test_the_latest_records_come_first_and_no_file_stays_open(tmp_path):
    with fill(tmp_path, range(17), SMALL).open("ab") as file:
        file.write(b'{"half a li')
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        assert [record.seq for record in latest_first(tmp_path, "yard")] == list(range(17, 0, -1))
        with opened(tmp_path, SMALL) as journal:
            assert len(journal.backlog(99)[0]) == 17
            assert [segment.last_record().seq for segment in journal.full] == [5, 10, 15]
            assert [segment.first_record().seq for segment in journal.full] == [1, 6, 11]
            assert next(latest_first(tmp_path, "yard")).seq == 17
    assert len(list(Path("/proc/self/fd").iterdir())) == before
