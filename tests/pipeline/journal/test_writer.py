"""What one journal holds, and what a crash or somebody else leaves in it."""

import os
import tempfile
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrations import narration
from unpublished import recorded, unpublished

from pipeline.journal import Journal, JournalError, SegmentLimits, latest_first, read_journal
from pipeline.journal.verification import verify
from pipeline.record import format_stream_id
from pipeline.record_format import RecordError


def fill(folder, seconds=range(3), camera="yard"):
    with Journal(folder, camera, fsync=False) as journal:
        for second in seconds:
            journal.append(narration(second, camera))
        return journal.path


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
    with Journal(tmp_path, "yard") as journal:
        assert len(list(unpublished(journal))) == 3


def test_a_position_of_another_journal_is_not_believed(tmp_path):
    with Journal(tmp_path / "other", "yard") as journal:
        for second in (7, 8):
            journal.append(narration(second))
        journal.acknowledge([p for _, p in unpublished(journal)][-1])
    path = fill(tmp_path)
    (tmp_path / "other" / "yard.published").rename(path.with_suffix(".published"))
    with Journal(tmp_path, "yard") as journal:
        assert len(list(unpublished(journal))) == 3


def test_stream_ids_of_published_lines_that_a_power_failure_took_are_not_used_again(tmp_path):
    with Journal(tmp_path, "yard") as journal:
        for second in (0, 100):
            journal.append(narration(second))
        lost = [p for _, p in unpublished(journal)][-1]
        journal.acknowledge(lost)
    os.truncate(journal.path, len(journal.path.read_bytes().splitlines(keepends=True)[0]))
    with Journal(tmp_path, "yard") as journal:
        record = journal.append(narration(50))
        assert record.seq == 2
        assert record.stream_id == format_stream_id((lost.stream_id[0], 1))
    assert verify([tmp_path]).ok


def test_verify_compares_a_merged_file_with_the_journals_of_its_cameras(tmp_path):
    lines = []
    for camera in ("yard", "lot"):
        path = fill(tmp_path / "journal", range(3), camera)
        lines.append(path.read_bytes().splitlines(keepends=True))
    merged = tmp_path / "narrations.jsonl"
    woven = [line for pair in zip(*lines, strict=True) for line in pair]
    merged.write_bytes(b"".join(woven))
    assert verify([merged]).lines == verify([tmp_path]).lines == 12  # the journals are checked as well
    merged.write_bytes(b"".join(woven[:2] + woven[3:]))
    (problem,) = verify([merged]).problems
    assert (problem.path, problem.line) == (merged, 4)
    merged.write_bytes(b"".join(woven[:-1]))
    assert str(verify([merged]).problems[0]) == f"{merged}: records of lot are missing"


def test_verify_tells_what_is_not_there(tmp_path):
    (tmp_path / "empty").mkdir()
    verification = verify([tmp_path / "empty", tmp_path / "absent.jsonl"])
    assert [p.reason for p in verification.problems] == [
        "the folder holds no journal (*.jsonl)",
        "cannot be read: No such file or directory",
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("whole"), range(3)).read_bytes()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_verify_finds_any_changed_inserted_or_deleted_byte(whole, data):
    at = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["flip", "insert", "delete", "cut"]))
    byte = data.draw(st.integers(0, 255))
    changed = {
        "flip": whole[:at] + bytes([whole[at] ^ (byte or 1)]) + whole[at + 1 :],
        "insert": whole[:at] + bytes([byte]) + whole[at:],
        "delete": whole[:at] + whole[at + 1 :],
        "cut": whole[:at],
    }[kind]
    boundary = whole.startswith(changed) and (changed.endswith(b"\n") or not changed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "yard.jsonl"
        path.write_bytes(changed)
        assert verify([path]).ok is boundary


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


def test_the_latest_records_come_first_and_no_file_stays_open(tmp_path):
    limits = SegmentLimits(bytes=4000)
    with Journal(tmp_path, "yard", fsync=False, limits=limits) as journal:
        for second in range(17):
            journal.append(narration(second))
    with journal.path.open("ab") as file:
        file.write(b'{"half a li')
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        assert [record.seq for record in latest_first(tmp_path, "yard")] == list(range(17, 0, -1))
        with Journal(tmp_path, "yard", limits=limits) as journal:
            assert len(journal.backlog(99)[0]) == 17
            assert [segment.last_record().seq for segment in journal.closed()] == [5, 10, 15]
            assert [segment.first_record().seq for segment in journal.closed()] == [1, 6, 11]
            assert next(latest_first(tmp_path, "yard")).seq == 17
    assert len(list(Path("/proc/self/fd").iterdir())) == before
