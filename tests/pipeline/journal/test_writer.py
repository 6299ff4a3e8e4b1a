import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrations import narration
from unpublished import unpublished

from pipeline.journal import Journal, JournalError, read_journal, verify
from pipeline.record import RecordError, format_stream_id, read_record


def fill(folder, seconds=range(3), camera="yard"):
    with Journal(folder, camera, fsync=False) as journal:
        for second in seconds:
            journal.append(narration(second, camera))
        return journal.path


def test_a_journal_holds_what_was_appended(tmp_path):
    with Journal(tmp_path / "new" / "folder", "yard") as journal:
        records = [journal.append(narration(second), suppressed=second) for second in range(3)]
        assert list(journal) == records
        assert journal.end.seq == 3
    assert [r.seq for r in records] == [1, 2, 3]
    assert records[2].prev == records[1].hash
    assert journal.path.read_bytes() == b"".join(r.line() + b"\n" for r in records)
    assert list(read_journal(journal.path)) == records
    verification = verify([journal.path])
    assert verification.ok
    assert (verification.files, verification.lines) == (1, 3)
    assert verification.ends[journal.path, "yard"].hash == records[2].hash


def test_the_chain_goes_on_in_the_next_run(tmp_path):
    fill(tmp_path, range(2))
    fill(tmp_path, range(2, 5))
    assert [r.seq for r in read_journal(tmp_path / "yard.jsonl")] == [1, 2, 3, 4, 5]
    assert verify([tmp_path]).ok


def test_the_same_narrations_give_the_same_bytes(tmp_path):
    assert fill(tmp_path / "a").read_bytes() == fill(tmp_path / "b").read_bytes()


def test_stream_ids_rise_though_the_clock_steps_back(tmp_path):
    fill(tmp_path, [3600, 0, 0.0001, 3601])
    ids = [r.stream_id for r in read_journal(tmp_path / "yard.jsonl")]
    base = 1714521600000 + 3600_000
    assert ids == [f"{base}-0", f"{base}-1", f"{base}-2", f"{base + 1000}-0"]


def test_a_second_writer_is_turned_away(tmp_path):
    with Journal(tmp_path, "yard"), pytest.raises(JournalError, match=r"being written.*another camera name"):
        Journal(tmp_path, "yard")
    with Journal(tmp_path, "yard"), Journal(tmp_path, "lot"):
        pass


@pytest.mark.parametrize("content", [b"", b"half a na", b"0" * 33, b"0" * 40 + b"\n", b"G" * 32])
def test_what_is_no_name_is_written_anew_and_stays(tmp_path, content):
    name = tmp_path / "yard.writer"
    name.write_bytes(content)
    writers = []
    for _ in range(2):
        with Journal(tmp_path, "yard", fsync=False) as journal:
            writers.append(journal.writer)
    assert len(set(writers)) == 1
    assert name.read_bytes() == writers[0].encode() + b"\n"


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
    with pytest.raises(RecordError, match="camera name"):
        Journal(tmp_path, "../yard")


@pytest.mark.parametrize("cut", [0, 1, 2, 200, 700])
def test_a_torn_last_line_is_cut_off_and_the_chain_goes_on(tmp_path, cut, caplog):
    path = fill(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:cut])
    assert verify([path]).ok is (cut == 0)
    with Journal(tmp_path, "yard") as journal:
        assert journal.append(narration(9)).seq == 3
    assert verify([path]).lines == 3
    assert ("torn" in caplog.text) is (cut > 0)
    if cut:
        assert path.with_suffix(".torn").read_bytes() == lines[2][:cut] + b"\n"


@pytest.mark.parametrize("garbage", [b"\0" * 100, b"\0" * 99 + b"\n", b'{"half', b'{"hash":1}\n'])
def test_garbage_behind_the_last_line_is_cut_off(tmp_path, garbage):
    path = fill(tmp_path)
    path.write_bytes(path.read_bytes() + garbage)
    with Journal(tmp_path, "yard") as journal:
        assert journal.end.seq == 3
    assert (tmp_path / "yard.torn").read_bytes() == garbage + b"\n"


def test_a_file_that_holds_only_half_a_line_starts_anew(tmp_path):
    path = fill(tmp_path, [0])
    path.write_bytes(path.read_bytes()[:-1])
    with Journal(tmp_path, "yard") as journal:
        assert journal.append(narration()).seq == 1


def test_damage_before_the_last_line_is_never_cut_away(tmp_path):
    path = fill(tmp_path, range(4))
    damaged = path.read_bytes().splitlines(keepends=True)
    damaged[2:] = [b"garbage\n", b"garbage\n"]
    path.write_bytes(b"".join(damaged))
    with pytest.raises(JournalError, match="narrated verify"):
        Journal(tmp_path, "yard")
    assert path.read_bytes() == b"".join(damaged)
    other = path.rename(tmp_path / "lot.jsonl")
    with pytest.raises(JournalError, match="damaged"):
        Journal(tmp_path, "lot")
    assert other.exists()


def test_the_acknowledged_position_outlives_the_process(tmp_path):
    with Journal(tmp_path, "yard") as journal:
        for second in range(4):
            journal.append(narration(second))
        positions = [position for _, position in unpublished(journal)]
        assert [p.seq for p in positions] == [1, 2, 3, 4]
        journal.acknowledge(positions[1])
        assert [r.seq for r, _ in unpublished(journal)] == [3, 4]
    with Journal(tmp_path, "yard") as journal:
        assert journal.published == positions[1]
        assert [r.seq for r, _ in unpublished(journal)] == [3, 4]
        journal.acknowledge(positions[3])
        assert list(unpublished(journal)) == []


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


def test_a_position_that_cannot_be_saved_is_told_once_and_counts_all_the_same(tmp_path, caplog):
    with Journal(tmp_path, "yard") as journal:
        for second in range(3):
            journal.append(narration(second))
        (tmp_path / "yard.published.tmp").mkdir()
        for _, position in list(unpublished(journal)):
            journal.acknowledge(position)
        assert list(unpublished(journal)) == []
    assert caplog.text.count("cannot save") == 1
    with Journal(tmp_path, "yard") as journal:
        assert len(list(unpublished(journal))) == 3


def test_verify_follows_each_camera_of_a_merged_file(tmp_path):
    lines = []
    for camera in ("yard", "lot"):
        path = fill(tmp_path, range(3), camera)
        lines.append(path.read_bytes().splitlines(keepends=True))
    merged = tmp_path / "out" / "narrations.jsonl"
    merged.parent.mkdir()
    woven = [line for pair in zip(*lines, strict=True) for line in pair]
    merged.write_bytes(b"".join(woven))
    assert verify([merged]).lines == 6
    assert {camera for _, camera in verify([merged]).ends} == {"yard", "lot"}
    merged.write_bytes(b"".join(woven[:2] + woven[3:]))
    (problem,) = verify([merged]).problems
    assert (problem.path, problem.line) == (merged, 4)
    assert "seq 3 of yard where 2 is due" in str(problem)


def test_verify_names_the_first_bad_line_of_each_file(tmp_path):
    for camera in ("a", "b", "c"):
        path = fill(tmp_path, range(4), camera)
        if camera != "b":
            path.write_bytes(path.read_bytes().replace(b'"seq":3', b'"seq":9'))
    verification = verify([tmp_path])
    assert not verification.ok
    assert verification.lines == 8
    assert [(p.path.name, p.line) for p in verification.problems] == [("a.jsonl", 3), ("c.jsonl", 3)]


def test_verify_knows_a_rehashed_line_by_its_successor(tmp_path):
    path = fill(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = read_record(lines[1])
    with Journal(tmp_path / "forged", "yard") as forged:
        forged.append(narration(0))
        forged.append(narration(1, l2=99.0))
        lines[1] = forged.path.read_bytes().splitlines(keepends=True)[1]
    assert read_record(lines[1]).hash != changed.hash
    path.write_bytes(b"".join(lines))
    (problem,) = verify([path]).problems
    assert problem.line == 3
    assert "prev" in problem.reason


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


@settings(max_examples=300, deadline=None)
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


def test_a_full_disk_leaves_the_journal_valid(tmp_path):
    """The kernel's own limit on file sizes stops a write in the middle, as a full disk does."""
    path = fill(tmp_path, range(2))
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Journal(tmp_path, "yard") as journal:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 300, limits[1]))
            for _ in range(2):
                with pytest.raises(JournalError, match="free space"):
                    journal.append(narration(2))
                assert path.read_bytes() == before
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert journal.append(narration(3)).seq == 3
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert verify([path]).lines == 3


_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from plain_narration import narration  # the real class would load torch, which takes seconds
from pipeline.journal import Journal

with Journal(Path(sys.argv[1]), "yard", fsync=False) as journal:
    print("writing", flush=True)
    while True:
        print(journal.append(narration(journal.end.seq)).seq, flush=True)
"""


def test_sigkill_in_mid_write_loses_nothing_that_was_appended(tmp_path):
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, tmp_path, Path(__file__).parents[1]],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout.readline() == "writing\n"
        time.sleep(random.uniform(0.02, 0.1))
        writer.kill()
        told = [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        writer.stdout.close()
        writer.wait()
        with Journal(tmp_path, "yard") as journal:
            assert journal.end.seq >= told[-1]
        verification = verify([tmp_path])
        assert verification.ok, verification.problems
        assert verification.lines >= told[-1]


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


def test_reading_a_damaged_journal_says_how_to_find_the_place(tmp_path):
    path = fill(tmp_path)
    path.write_bytes(b"garbage\n" + path.read_bytes())
    with pytest.raises(JournalError, match="narrated verify"):
        list(read_journal(path))
    with pytest.raises(JournalError, match="cannot read"):
        list(read_journal(tmp_path / "absent.jsonl"))


def test_a_journal_line_is_json_that_anybody_can_read(tmp_path):
    members = [json.loads(line) for line in fill(tmp_path).read_text().splitlines()]
    assert [m["seq"] for m in members] == [1, 2, 3]
