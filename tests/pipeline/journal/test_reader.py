"""What is read of a journal: places, the latest records, and what is no record at all."""

import hashlib
from pathlib import Path

import pytest
from narrations import narration

from pipeline.journal import Journal, SegmentLimits, latest_first, verify
from pipeline.record import ChainEnd, hash_holds

SMALL = SegmentLimits(bytes=4000)  # five records


def opened(folder):
    return Journal(folder, "yard", fsync=False, limits=SMALL)


def fill(folder, seconds):
    with opened(folder) as journal:
        for second in seconds:
            journal.append(narration(second))


def test_the_latest_records_come_first_and_what_cannot_be_read_is_left_out(tmp_path):
    fill(tmp_path, range(17))
    with (tmp_path / "yard.jsonl").open("ab") as file:
        file.write(b'{"half a li')
    assert [record.seq for record in latest_first(tmp_path, "yard")] == list(range(17, 0, -1))


def test_nothing_that_reads_a_journal_leaves_a_file_open(tmp_path):
    fill(tmp_path, range(12))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with opened(tmp_path) as journal:
            assert len(journal.backlog(99).lines) == 12
            assert [segment.last_record().seq for segment in journal.closed()] == [5, 10]
            assert [segment.first_record().seq for segment in journal.closed()] == [1, 6]
            assert next(latest_first(tmp_path, "yard")).seq == 12
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_has_a_hash_but_is_no_record_is_no_line_of_a_journal(tmp_path):
    """Its hash is that of the line without it, as of every record."""
    bare = b'{"kind":"something else"}'
    line = b'{"hash":"%s",' % hashlib.sha256(bare).hexdigest().encode() + bare[1:] + b"\n"
    assert hash_holds(line[:-1])
    fill(tmp_path, range(2))
    with (tmp_path / "yard.jsonl").open("ab") as file:
        file.write(line)
    with opened(tmp_path) as journal:
        assert journal.append(narration(3)).seq == 3
    assert (tmp_path / "yard.torn").read_bytes() == line + b"\n"


def test_places_are_found_by_stream_id(tmp_path):
    fill(tmp_path, range(17))
    with opened(tmp_path) as journal:
        assert journal.find((5, 0)) == (ChainEnd(), None)
        assert journal.find((9999999999999, 0))[0].seq == 17
        between = journal.find((1714521607500, 0))
        assert (between[0].seq, between[1].id) == (8, "yard-7")


@pytest.mark.parametrize("torn", [b"{", b"{\n", b"{\n{"])
def test_of_what_a_crash_tore_at_the_very_start_nothing_stays(tmp_path, torn):
    (tmp_path / "yard.jsonl").write_bytes(torn)
    with opened(tmp_path) as journal:
        assert journal.append(narration(0)).seq == 1
    assert verify([tmp_path]).lines == 1
