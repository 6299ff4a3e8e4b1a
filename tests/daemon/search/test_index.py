"""The index: what is in the journals is in it, once, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from narrations import narration
from unpublished import unpublished

from daemon.questions.question import Filters, LocalTime, NoJournalsError, Question
from daemon.search import index as index_module
from daemon.search.index import default_state, journal_folder
from daemon.search.search import Search
from pipeline.journal import Journal

from .conftest import said, searching

UTC = LocalTime.named("UTC")


def seqs(folder: Path, *cameras: str) -> list[int]:
    with searching(folder) as search:
        found = [each.record.seq for each in search.answer(Question(Filters(cameras))).results]
        assert not search.missing
        return found


def texts(folder: Path) -> list[str]:
    with searching(folder) as search:
        assert search.index.faults() == []
        return [each.record.text for each in search.answer(Question()).results]


def added(search: Search) -> int:
    """Catches up; how many records are new."""
    before = search.index.newest()
    search.index.update()
    return search.index.newest() - before


def three(house) -> Path:
    """A closed journal of three records."""
    for second in range(3):
        house.tell(second)
    house.journals.pop("yard").close()
    return house.folder / "yard.jsonl"


def test_it_catches_up_over_segments(house):
    for second in range(7):
        house.tell(second)
    with Search(house.folder, UTC) as search:
        assert added(search) == 7
        for second in range(7, 23):
            house.tell(second)
        assert added(search) == 16  # the segment that was begun has another name now
        assert added(search) == 0
        restored = house.journals["yard"].full[0].path
        shutil.copy2(restored, house.state / "copy")
        shutil.move(house.state / "copy", restored)
        assert added(search) == 0  # another inode, the same file
        assert search.index.faults() == []
    assert len(list(house.folder.glob("*.jsonl"))) > 3
    assert seqs(house.folder) == list(range(1, 24))


def test_a_record_appended_and_rolled_between_two_looks_is_not_passed_over(house, monkeypatch):
    """The file was listed as the one that is written; when it is opened another has its name."""
    house.tell(0)
    journal, looks = house.journals["yard"], []
    listed = index_module.journal_files

    def overtaken(folder):
        found = listed(folder)
        looks.append(found)
        while len(looks) == 1 and len(journal.full) < 2:
            house.tell(journal.end.seq)
        return found

    monkeypatch.setattr(index_module, "journal_files", overtaken)
    with searching(house.folder) as search:
        read = [each.record.seq for each in search.answer(Question()).results]
        taken = search.index.connection.execute("SELECT time FROM records ORDER BY id").fetchall()
    assert read == list(range(1, journal.end.seq + 1))
    assert taken == sorted(taken)  # in their order, by which rules are tried
    assert len(looks) > 2


def test_a_line_that_is_being_written_is_not_read(house):
    path = three(house)
    whole = path.read_bytes()
    for cut, read in ((len(whole) - 1, [1, 2]), (len(whole) // 3 + 40, [1]), (10, [])):
        path.write_bytes(whole[:cut])
        assert seqs(house.folder) == read
    path.write_bytes(whole)
    assert seqs(house.folder) == [1, 2, 3]


def test_what_was_cut_off_and_written_anew_is_read_anew(house):
    """A disk that was full took a line back, or a power cut did."""
    path = three(house)
    assert seqs(house.folder) == [1, 2, 3]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    (house.folder / "yard.published").unlink(missing_ok=True)
    house.tell(7, said("A person has appeared.", thing="person"))
    assert texts(house.folder) == [*["A car has appeared."] * 2, "A person has appeared."]


def test_what_is_deleted_goes_from_the_index_with_its_words(house):
    house.tell(0, said("A zebra has appeared.", thing="zebra"))
    while not house.journals["yard"].full:
        house.tell(house.journals["yard"].end.seq)
    assert "A zebra has appeared." in texts(house.folder)
    journal = house.journals["yard"]
    *_, (_, place) = unpublished(journal)
    journal.acknowledge(place)  # retention deletes what is published
    journal.delete(journal.full[0].last_record())
    for segment in journal.deleted:
        journal.unlink(segment)
    assert "A zebra has appeared." not in texts(house.folder)
    with searching(house.folder) as search:
        assert "zebra" not in search.selection.objects()
        search.index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"zebra" not in (house.folder / "index.sqlite3").read_bytes().lower()


def test_an_index_of_another_version_is_built_again(house, monkeypatch):
    house.tell(0)
    assert seqs(house.folder) == [1]
    monkeypatch.setattr(index_module, "VERSION", index_module.VERSION + 1)
    for new in (1, 0):
        with Search(house.folder, UTC) as search:
            assert added(search) == new


def test_an_index_that_is_damaged_anywhere_is_built_again(house):
    """By a question that finds it so as it catches up; one that meets it later says to ask again."""
    for second in range(60):
        house.tell(second)
    expected = texts(house.folder)
    path = house.folder / "index.sqlite3"
    whole = path.read_bytes()
    for offset in range(0, len(whole), 4096):
        noise = Random(offset).randbytes(8192)
        path.write_bytes(whole[:offset] + noise + whole[offset + len(noise) :])
        with searching(house.folder) as search, suppress(NoJournalsError), search.mending():
            list(search.answer(Question()).results)
        assert texts(house.folder) == expected


def test_where_it_cannot_be_written_it_lies_in_the_users_cache(house, tmp_path, monkeypatch):
    house.tell(0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (house.folder / "index.sqlite3").mkdir()  # root may write everywhere, but not into a folder's place
    assert seqs(house.folder) == [1]
    (index,) = (tmp_path / "cache" / "narrated").glob("index-*.sqlite3")
    index.unlink()
    index.mkdir()
    with pytest.raises(NoJournalsError, match="XDG_CACHE_HOME"):
        seqs(house.folder)


def test_a_disk_that_is_nearly_full_is_left_to_the_journals(house, monkeypatch):
    house.tell(0)
    with searching(house.folder) as search:
        house.tell(1)
        monkeypatch.setattr(index_module, "_LEAST_FREE", 2**80)
        with pytest.raises(NoJournalsError, match="MB are free"):
            search.index.update()
    (house.folder / "index.sqlite3").unlink()
    with pytest.raises(NoJournalsError, match="MB are free"):
        seqs(house.folder)
    assert not (house.folder / "index.sqlite3").exists()


def test_two_processes_that_build_it_at_the_same_time_put_nothing_in_twice(house, tmp_path):
    for second in range(60):
        house.tell(second, camera=f"camera{second % 3}")
    script = (
        "import sys; from pathlib import Path; from daemon.search import index\n"
        "index.BLOCK = 2; one = index.Index(Path(sys.argv[1])); print('ready', flush=True)\n"
        "sys.stdin.read(); one.update()"
    )
    command = [sys.executable, "-c", script, str(house.folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    running = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for each in running:
        each.stdout.readline()
    for each in running:
        each.stdin.close()
    for each in running:
        assert each.wait(60) == 0
        each.stdout.close()
    assert sorted(seqs(house.folder)) == sorted(list(range(1, 21)) * 3)


def test_a_line_that_does_not_hold_is_named_and_the_rest_found(house):
    path = three(house)
    path.write_bytes(path.read_bytes().replace(b"A car has", b"A van has", 2))
    with searching(house.folder) as search:
        found = list(search.answer(Question()).results)
        assert "A van has appeared." in found[0].record.text
        assert ["does not verify" in " ".join(each.marks) for each in found] == [True, False, False]
        (fault,) = search.index.faults()
        assert "yard.jsonl:1: the hash does not match" in fault
        first, _, third = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(first + b'{"half": \xff\n' + third)
        search.index.update()
        assert [each.record.seq for each in search.answer(Question()).results] == [1, 3]
        path.write_bytes(path.read_bytes().replace(b"A van has", b"A car has"))  # of the same length
        os.utime(path, ns=(0, 0))
        search.index.update()
        assert [fault.split(": ")[0][-1] for fault in search.index.faults()] == ["2"]


def test_every_camera_name_that_is_allowed_is_kept_apart(house):
    cameras = ("yard", "Yard", "yard.1", "yard_1", "yar", "a", "a.12", "_", "A-b_c.d", "narrations")
    cameras += ("x.jsonl", "index.sqlite3", "0" * 64)
    for second, camera in enumerate(cameras):
        for again in range(6):
            house.tell(10 * second + again, camera=camera)
    for camera in cameras:
        assert seqs(house.folder, camera) == list(range(1, 7)), camera


def test_nothing_of_the_index_endangers_the_journals(house):
    """It opens them for reading alone: nobody's files change but its own."""
    for second in range(12):
        house.tell(second)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in house.folder.iterdir()}
    seqs(house.folder)
    for path, (content, changed) in before.items():
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, changed)
    own = [path for path in house.folder.iterdir() if path not in before]
    assert {path.name.partition("-")[0] for path in own} == {"index.sqlite3"}
    assert [path for path in own if path.stat().st_mode & 0o007] == []  # as private as the journals


def test_another_record_at_the_same_place_is_not_shown_for_the_one_that_was_asked_for(house, tmp_path):
    house.tell(0, said("A car has appeared.", confidence=0.8))
    with Journal(tmp_path, "yard", fsync=False) as other:
        other.append(narration(0, sentences=(said("A van has appeared.", thing="van", confidence=0.8),)))
    with searching(house.folder) as search:
        (house.folder / "yard.jsonl").write_bytes((tmp_path / "yard.jsonl").read_bytes())
        assert list(search.answer(Question(Filters(objects=("car",)))).results) == []
        assert search.missing == 1
        search.index.update()
        assert [each.record.text for each in search.answer(Question()).results] == ["A van has appeared."]


def test_what_another_process_has_read_or_taken_out_meanwhile_is_known(house):
    """`narrated query` may be quicker than the live page."""
    house.tell(0)
    with searching(house.folder) as listener:
        seen = listener.index.newest()
        house.tell(1)
        with searching(house.folder):
            assert listener.index.newest() == seen + 1
        results = listener.answer(Question()).results
        (house.folder / "yard.jsonl").unlink()
        with searching(house.folder):
            pass
        assert (list(results), listener.missing) == ([], 2)


def test_copies_and_merged_files_are_left_out(house):
    for camera in ("front", "yard"):
        house.tell(0, camera=camera)
        house.tell(1, camera=camera)
    content = {camera: (house.folder / f"{camera}.jsonl").read_bytes() for camera in ("front", "yard")}
    (house.folder / "narrations.jsonl").write_bytes(content["yard"] + content["front"])
    (house.folder / "zz_backup.jsonl").write_bytes(content["yard"])
    with Search(house.folder, UTC) as search:
        assert set(search.index.update()) == {"narrations.jsonl", "zz_backup.jsonl"}
        assert search.index.newest() == 4
    alone = house.state / "copied"
    alone.mkdir()
    (house.folder / "narrations.jsonl").rename(alone / "narrations.jsonl")
    assert (journal_folder(house.state), journal_folder(alone)) == (house.folder, alone)
    with searching(alone) as search:
        assert search.selection.cameras() == ["front", "yard"]
    assert len(texts(alone)) == 4


def test_the_installed_state_is_asked_where_the_user_has_none(tmp_path, monkeypatch):
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    installed = tmp_path / "installed"
    (installed / "journal").mkdir(parents=True)
    monkeypatch.setattr("daemon.search.index.INSTALLED", installed)
    assert default_state(tmp_path / "mine") == installed
    (tmp_path / "mine" / "journal").mkdir(parents=True)
    assert default_state(tmp_path / "mine") == tmp_path / "mine"
